// SPDX-License-Identifier: Apache-2.0
// Every bound on what may arrive from outside, in one place. A reader refuses what exceeds one
// with ErrorCode::Limit and names the bound.
#pragma once
#include <cstddef>
#include <cstdint>

namespace sojourn::runtime::limits {

// --- Program bytes -------------------------------------------------------------------------------
inline constexpr size_t kProgramBytes = 64u << 20;
inline constexpr size_t kDebugBytes = 64u << 20;
inline constexpr uint32_t kFlatBufferDepth = 16;
inline constexpr uint32_t kFlatBufferTables = 70'000;

// --- Program counts ------------------------------------------------------------------------------
inline constexpr size_t kOps = 200'000;
inline constexpr size_t kValues = 400'000;
inline constexpr size_t kArguments = 65'536;
inline constexpr size_t kResults = 65'536;
inline constexpr size_t kOperandsPerOp = 4'096;
inline constexpr size_t kAttributesPerOp = 32;
inline constexpr size_t kStrings = 65'536;
inline constexpr size_t kStringBytes = 65'536;
inline constexpr size_t kTypes = 400'000;
inline constexpr size_t kRank = 16;
inline constexpr size_t kTables = 64;
inline constexpr size_t kColumns = 65'536;
/// Sizes and elements of one entry of a shaped column.
inline constexpr size_t kEntryRank = 8;
inline constexpr int64_t kEntryElements = int64_t{1} << 24;
inline constexpr size_t kIntegers = 4'000'000;
inline constexpr size_t kLocations = 1'000'000;
inline constexpr size_t kLocationDepth = 64;
/// Texts of one program, counted at every use; texts of one debug table.
inline constexpr size_t kTextBytes = 64u << 20;
/// Names of ops and attributes.
inline constexpr size_t kOpNameBytes = 256;
/// A list of integers has one per dim.
inline constexpr size_t kIntegersPerAttribute = 64;
/// One file name or hint of a debug table (encoders cut longer ones), and one place as text.
inline constexpr size_t kFileNameBytes = 4'096;
inline constexpr size_t kLocationTextBytes = 1'000;

// --- Values --------------------------------------------------------------------------------------
inline constexpr int64_t kDimension = int64_t{1} << 40;
inline constexpr int64_t kValueElements = int64_t{1} << 32;
inline constexpr int64_t kValueBytes = int64_t{1} << 34;
/// Sum of the bytes of all values of one program, had none of them shared memory.
inline constexpr int64_t kSumOfValueBytes = int64_t{1} << 42;
/// What one program may ask for at once: the planned arena, and its results.
inline constexpr int64_t kArenaBytes = int64_t{1} << 36;
inline constexpr int64_t kResultBytes = int64_t{1} << 36;
inline constexpr int64_t kTableRows = int64_t{1} << 32;

// --- Messages (owner/) ---------------------------------------------------------------------------
inline constexpr size_t kRequestBytes = size_t{1} << 30;
inline constexpr size_t kReplyBytes = size_t{1} << 30;
inline constexpr size_t kNameBytes = 256;
inline constexpr uint32_t kMessageDepth = 16;
inline constexpr uint32_t kMessageTables = 1u << 17;
/// One text of an Error reply; longer ones are cut.
inline constexpr size_t kErrorTextBytes = 4'000;

// --- Sessions, handles and plans (owner/) ---------------------------------------------------------
inline constexpr size_t kSessions = 1'024;
/// Idle time after which a session ends and its handles are dropped.
inline constexpr int64_t kLeaseMs = int64_t{24} * 3600 * 1000;
inline constexpr size_t kHandlesPerSession = 1u << 17;
/// Uploads that one session may have under way ahead of its steps.
inline constexpr size_t kUploadsPerSession = kHandlesPerSession;
/// Bytes behind all handles and uploads of all sessions.
inline constexpr size_t kHandleBytes = size_t{1} << 36;
/// Training runs on private tables that one session may have under way: each holds a part of its budget. And priced
/// releases of one step: each price is searched for.
inline constexpr size_t kRunsPerSession = 64;
inline constexpr size_t kPricedReleases = 256;
/// Programs that one session may refer to by hash; plans kept for all (least recently used go).
inline constexpr size_t kProgramsPerSession = 4'096;
inline constexpr size_t kCachedPlans = 256;
/// Bytes of these plans, their programs' bytes and texts among them. The last used one stays.
inline constexpr size_t kCachedPlanBytes = size_t{1} << 30;
/// Requests of one session that run or wait for their turn; each holds a thread of the server.
inline constexpr size_t kRequestsPerSession = 4;
/// The largest reply to a step that is remembered for a repetition of it.
inline constexpr size_t kRememberedReplyBytes = size_t{1} << 20;
/// All remembered replies together; beside them a step is remembered without its reply.
inline constexpr size_t kRememberedBytes = size_t{256} << 20;
/// How long a step waits for the memory of other steps.
inline constexpr int64_t kArenaWaitMs = 60'000;

// --- Books (owner/) -------------------------------------------------------------------------------
/// Text kept per program in the log of what ran, and programs in one ListPrograms reply.
inline constexpr size_t kProgramTextBytes = size_t{4} << 20;
inline constexpr size_t kListedPrograms = 4'096;
/// Programs in the log. When it is full, new programs are refused: an audit trail must not be
/// flushable by whom it watches.
inline constexpr size_t kLoggedPrograms = 100'000;
inline constexpr size_t kLoggedProgramBytes = size_t{8} << 30;
/// How often run counts reach the catalogue.
inline constexpr int64_t kCountFlushMs = 1'000;

// --- Memory kept for reuse ------------------------------------------------------------------------
inline constexpr size_t kIdlePoolBytes = size_t{1} << 30;
/// Arenas that no run uses, and run contexts (never arenas) that one plan keeps.
inline constexpr size_t kIdleArenaBytes = size_t{512} << 20;
inline constexpr size_t kIdleContexts = 4;

} // namespace sojourn::runtime::limits
