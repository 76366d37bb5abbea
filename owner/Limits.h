// SPDX-License-Identifier: Apache-2.0
// Every bound on what clients may ask of an owner and on what it keeps. Those that a test makes small, or that
// `sojourn-owner serve` sets, are values of Limits; the others are constants. What programs may hold: dialect/Bounds.h
// and runtime/Limits.h.
#ifndef SOJOURN_OWNER_LIMITS_H
#define SOJOURN_OWNER_LIMITS_H

#include "passes/PriceLimits.h"

namespace sojourn::owner {

// --- Messages -------------------------------------------------------------------------------------
inline constexpr size_t kRequestBytes = size_t{1} << 30;
inline constexpr size_t kReplyBytes = size_t{1} << 30;
inline constexpr uint32_t kMessageDepth = 16;
inline constexpr uint32_t kMessageTables = 1u << 17;

/// Steps of one message.
inline constexpr size_t kStepsPerMessage = 4'096;

// --- Sessions -------------------------------------------------------------------------------------
/// Programs that one session may refer to by hash.
inline constexpr size_t kProgramsPerSession = 4'096;
/// Training runs on private tables that one session may have under way: each holds a part of its budget. And priced
/// releases of one step: each price is searched for.
inline constexpr size_t kRunsPerSession = 64;
inline constexpr size_t kPricedReleases = 256;

// --- Tables ---------------------------------------------------------------------------------------
/// All columns of one table in memory. The sizes of an entry: dialect/Bounds.h.
inline constexpr int64_t kTableBytes = int64_t{1} << 40;

// --- Books ----------------------------------------------------------------------------------------
/// Programs in one ListPrograms reply.
inline constexpr size_t kListedPrograms = 4'096;
/// The log of programs: what the data owner's own process has in it, and the archives of one account in the store.
inline constexpr size_t kLoggedPrograms = 100'000;
inline constexpr size_t kLoggedProgramBytes = size_t{8} << 30;
inline constexpr size_t kArchivedProgramBytes = size_t{16} << 30;
/// How often run counts reach the catalogue.
inline constexpr int64_t kCountFlushMs = 1'000;
/// Refusals of one account that the log has at once, each of which counts for a second; and the bytes of one.
inline constexpr size_t kRefusalLines = 50;
inline constexpr int64_t kRefusalMs = 1'000;
/// Sessions of one account that the log tells of at once, as they begin and as they end; each counts for so long.
inline constexpr size_t kSessionLines = 30;
inline constexpr int64_t kSessionLineMs = 2'000;
inline constexpr size_t kRefusalBytes = 1'000;

struct Limits {
  size_t requestBytes = kRequestBytes;
  size_t replyBytes = kReplyBytes;
  size_t sessions = 1'024;
  /// Of all clients without an identity together.
  size_t anonymousSessions = 256;
  /// Sessions that clients without an identity, all together, may open in a minute.
  size_t anonymousSessionsPerMinute = 600;
  /// Idle time after which a session ends and its handles are dropped.
  int64_t leaseMs = int64_t{24} * 3600 * 1000;
  size_t handlesPerSession = 1u << 17;
  /// How long a session outlives its connection, to which a client may come back.
  int64_t goneMs = int64_t{10} * 60 * 1000;
  /// Bytes behind all handles and uploads of all sessions; 0: half of the machine's memory. Shares: Holdings.h.
  size_t handleBytes = 0;
  /// Values of one account that have names, and how long one keeps its name after its last use.
  size_t namedValues = 1'024;
  int64_t nameLeaseMs = int64_t{7} * 24 * 3600 * 1000;
  /// Uploads that one session may have under way ahead of its steps.
  size_t uploadsPerSession = 1u << 17;
  size_t programsPerSession = kProgramsPerSession;
  /// Plans kept for all sessions (least recently used go), and their bytes, those of their programs and texts among
  /// them. The last used one stays.
  size_t cachedPlans = 256;
  size_t cachedPlanBytes = size_t{1} << 30;
  /// No further step of a message begins so long after the first: others wait for the thread of the server. The client
  /// sends the rest again.
  int64_t messageMs = 5'000;
  /// Steps of one message that the worker runs in one call; fewer where they take long. 1: each by itself.
  size_t stepsAtOnce = kStepsPerMessage;
  /// Requests of one session that run or wait for their turn; each holds a thread of the server.
  size_t requestsPerSession = 4;
  /// Those of all sessions. Shares: Shares.h.
  size_t requests = 512;
  /// Deadline of one step, from its turn on; 0: none.
  int64_t stepMs = 0;
  /// The largest reply to a step that is remembered for a repetition of it, and all of them together; beside them a
  /// step is remembered without its reply.
  size_t rememberedReplyBytes = size_t{1} << 20;
  size_t rememberedBytes = size_t{256} << 20;
  /// Programs, and bytes of their texts, that the data owner's own process has in the log; the parts of others:
  /// ProgramLog.h. What a full part of the log has gone to, in bytes by account.
  size_t loggedPrograms = kLoggedPrograms;
  size_t loggedBytes = kLoggedProgramBytes;
  size_t archivedBytes = kArchivedProgramBytes;
  /// What one run of a program may cost, from its shapes alone.
  PriceLimits price;
  /// Bytes of intermediate values of all running steps; 0: three quarters of the machine's memory.
  size_t runningArenaBytes = 0;
  /// How long a step waits for the memory of other steps.
  int64_t arenaWaitMs = 60'000;
  /// Of steps that depend on private rows of clients of a server: how much longer than in rehearsals their runs may
  /// take, as a factor, before the reply leaves (ReplyTime.h). 0: replies leave at once, and their time may tell of
  /// rows.
  double timeHeadroom = 0;
  /// Bits that a client may learn of one table by replies that were late or withheld, before the table is closed to it;
  /// 0: no bound.
  uint64_t overrunBits = 0;
  /// How long a joint step waits for another member of its group.
  int64_t memberWaitMs = 30'000;
  /// How long one waits here for a worker process, a place or memory, while other members may have theirs: then it is
  /// busy, and let go at all of them.
  int64_t busyWaitMs = 500;
  /// Rows of this owner in a sum that other members see of a table shared as sums, at least.
  uint64_t sharedRowsLeast = 8;
  /// Terms of other owners, over links, that wait for this one; in all.
  size_t peerBytes = size_t{1} << 30;
  /// Threads that running steps share; 0: as many as the machine has.
  unsigned threads = 0;
  /// Worker processes at once, of sessions and of programs that are described or proved; 0: as many as a quarter of the
  /// memory holds, at 16 MiB each. And memory of one beside its program and tables, in bytes; 0: three quarters of the
  /// machine's. Of no matter where steps run in the owner's own process.
  size_t processes = 0;
  size_t processBytes = 0;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_LIMITS_H
