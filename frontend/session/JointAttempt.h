// SPDX-License-Identifier: Apache-2.0
// One attempt at a message of a group: to all members at once.
#ifndef SOJOURN_FRONTEND_SESSION_JOINTATTEMPT_H
#define SOJOURN_FRONTEND_SESSION_JOINTATTEMPT_H

#include "frontend/session/JointReply.h"
#include "frontend/session/MemberThread.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace sojourn::frontend {

/// Where a member's call fails, the other members hear it from that member; those that do not, because it has not read
/// the message or cannot reach them, are asked to end the step.
class JointAttempt {
public:
  /// `send`: the call of one member. `end`: asks one to end the step; does not throw.
  JointAttempt(size_t members, std::function<StepReply(size_t role, bool &isUnknown)> send,
               std::function<void(size_t role)> end)
      : send_(std::move(send)), end_(std::move(end)), outcomes_(members), isUnderway_(members, true) {}

  /// Sends for the member `role`.
  void run(size_t role) noexcept;
  /// Once all calls have returned.
  std::vector<MemberOutcome> take() { return std::move(outcomes_); }

private:
  /// `wait`: for them to hear of it, before they are asked.
  void endOthers(std::unique_lock<std::mutex> &lock, std::chrono::milliseconds wait);

  const std::function<StepReply(size_t, bool &)> send_;
  const std::function<void(size_t)> end_;
  std::vector<MemberOutcome> outcomes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> isUnderway_;
  bool isEnding_ = false; ///< a member's call has failed
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_JOINTATTEMPT_H
