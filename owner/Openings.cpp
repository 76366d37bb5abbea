// SPDX-License-Identifier: Apache-2.0
#include "owner/Openings.h"

#include "owner/RequestError.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace sojourn::owner {

using llvm::Twine;

static constexpr double kMinuteMs = 60'000;

int64_t Openings::Allowance::take(int64_t nowMs) {
  const double more = static_cast<double>(std::max<int64_t>(0, nowMs - atMs)) * most / kMinuteMs;
  left = std::min(most, left + more);
  atMs = std::max(atMs, nowMs);
  if (left >= 1) {
    --left;
    return 0;
  }
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil((1 - left) * kMinuteMs / most)));
}

/// "in 1 second"
static std::string inSeconds(int64_t waitMs) {
  const int64_t seconds = (waitMs + 999) / 1000;
  return "in " + std::to_string(seconds) + (seconds == 1 ? " second" : " seconds");
}

llvm::Error Openings::session(int64_t nowMs) {
  const int64_t waitMs = sessions.take(nowMs);
  return waitMs == 0
             ? llvm::Error::success()
             : requestError(wire::ErrorCode_Limit,
                            "clients without an identity have opened " + Twine(static_cast<uint64_t>(sessions.most)) +
                                " sessions within a minute, their share; connect again " + inSeconds(waitMs) +
                                ", or with an identity that the data owner knows");
}

llvm::Error Openings::challenge(uint64_t connection, int64_t nowMs) {
  if (connection == 0) {
    return llvm::Error::success();
  }
  Allowance &own =
      challenges.try_emplace(connection, Allowance{static_cast<double>(kChallengesPerMinute)}).first->second;
  const int64_t waitMs = own.take(nowMs);
  return waitMs == 0 ? llvm::Error::success()
                     : requestError(wire::ErrorCode_Limit,
                                    "this connection has asked for " + Twine(kChallengesPerMinute) +
                                        " challenges within a minute, the limit; connect again " + inSeconds(waitMs));
}

} // namespace sojourn::owner
