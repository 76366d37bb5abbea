// SPDX-License-Identifier: Apache-2.0
// The owner's bounds as a value, so that a test can make them small. The numbers, and why, are in
// runtime/Limits.h.
#ifndef SOJOURN_OWNER_LIMITS_H
#define SOJOURN_OWNER_LIMITS_H

#include "passes/Price.h"
#include "runtime/Limits.h"

namespace sojourn::owner {

/// All columns of one table in memory. The sizes of an entry: runtime/Limits.h.
inline constexpr int64_t kTableBytes = int64_t{1} << 40;

struct Limits {
  size_t requestBytes = runtime::limits::kRequestBytes;
  size_t replyBytes = runtime::limits::kReplyBytes;
  size_t sessions = runtime::limits::kSessions;
  int64_t leaseMs = runtime::limits::kLeaseMs;
  size_t handlesPerSession = runtime::limits::kHandlesPerSession;
  size_t handleBytes = runtime::limits::kHandleBytes;
  size_t uploadsPerSession = runtime::limits::kUploadsPerSession;
  size_t programsPerSession = runtime::limits::kProgramsPerSession;
  size_t cachedPlans = runtime::limits::kCachedPlans;
  size_t cachedPlanBytes = runtime::limits::kCachedPlanBytes;
  size_t requestsPerSession = runtime::limits::kRequestsPerSession;
  size_t rememberedReplyBytes = runtime::limits::kRememberedReplyBytes;
  size_t rememberedBytes = runtime::limits::kRememberedBytes;
  /// What one run of a program may cost, from its shapes alone.
  PriceLimits price;
  /// Bytes of intermediate values of all running steps; 0: three quarters of the machine's memory.
  size_t runningArenaBytes = 0;
  int64_t arenaWaitMs = runtime::limits::kArenaWaitMs;
  /// Threads that running steps share; 0: as many as the machine has.
  unsigned threads = 0;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_LIMITS_H
