// SPDX-License-Identifier: Apache-2.0
#include "frontend/session/JointAttempt.h"

#include "frontend/Error.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sojourn::frontend {

/// Time in which members hear of the end of a step from each other, and between requests to end it.
static constexpr std::chrono::milliseconds kHear{200};

void JointAttempt::run(size_t role) noexcept {
  std::optional<StepReply> reply;
  std::exception_ptr failure;
  bool isUnknown = false, isInterrupted = false;
  try {
    reply = send_(role, isUnknown);
    isInterrupted = reply->isOpen;
  } catch (const Error &) {
    failure = std::current_exception();
  } catch (...) {
    failure = std::current_exception();
    isInterrupted = true;
  }
  std::unique_lock lock(mutex_);
  MemberOutcome &outcome = outcomes_[role];
  const bool ends = failure || isInterrupted;
  outcome.reply = std::move(reply);
  outcome.failure = failure;
  outcome.isUnknown = isUnknown;
  isUnderway_[role] = false;
  changed_.notify_all();
  if (ends && !std::exchange(isEnding_, true)) {
    endOthers(lock, isInterrupted ? std::chrono::milliseconds(0) : kHear);
  }
}

/// By the member whose call has failed first: its thread is free. A message that is still on its way is ended later.
void JointAttempt::endOthers(std::unique_lock<std::mutex> &lock, std::chrono::milliseconds wait) {
  const auto areDone = [&] { return std::none_of(isUnderway_.begin(), isUnderway_.end(), [](bool is) { return is; }); };
  for (; !changed_.wait_for(lock, wait, areDone); wait = kHear) {
    for (size_t role = 0; role < isUnderway_.size(); ++role) {
      if (isUnderway_[role]) {
        outcomes_[role].isEnded = true;
        lock.unlock();
        end_(role);
        lock.lock();
      }
    }
  }
}

} // namespace sojourn::frontend
