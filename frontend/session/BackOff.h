// SPDX-License-Identifier: Apache-2.0
// How long a group waits before it repeats a step for which a member was busy.
#ifndef SOJOURN_FRONTEND_SESSION_BACKOFF_H
#define SOJOURN_FRONTEND_SESSION_BACKOFF_H

#include "frontend/wire/Client.h"

#include <chrono>
#include <cstdint>
#include <optional>

namespace sojourn::frontend {

/// Pauses that grow, of one message. Two groups that were in each other's way pause for different times, because the
/// number of the group scales them.
class BackOff {
public:
  /// `group`: a random number. `deadlineMs`: of the message; 0: none.
  BackOff(uint64_t group, uint64_t deadlineMs) : group_(group), deadlineMs_(deadlineMs) {}

  enum class Next {
    again,
    stopped, ///< by the follower or the deadline
    late     ///< it has been tried for as long as steps are
  };
  /// Pauses. Throws an interruption.
  Next wait(const StepFollower *follow);
  /// The time left of the message, in milliseconds, at least 1; 0: no deadline.
  uint64_t deadlineMs() const;
  unsigned tries() const { return tries_; }
  /// From the first attempt to the last one.
  std::chrono::milliseconds waited() const { return waited_; }
  /// Whether that is worth a word to the user.
  bool wasLong() const;

private:
  using Clock = std::chrono::steady_clock;
  std::chrono::milliseconds pause() const;
  std::chrono::milliseconds elapsed() const;
  std::optional<std::chrono::milliseconds> left() const;

  const uint64_t group_, deadlineMs_;
  const Clock::time_point begin_ = Clock::now();
  unsigned tries_ = 0; ///< that found a member busy
  std::chrono::milliseconds waited_{0};
};

/// For tests: the first pause, the longest one, how long a step is tried for, and after which time it is told.
void setBusyPauses(std::chrono::milliseconds first, std::chrono::milliseconds longest, std::chrono::milliseconds most,
                   std::chrono::milliseconds told);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_BACKOFF_H
