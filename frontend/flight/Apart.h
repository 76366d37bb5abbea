// SPDX-License-Identifier: Apache-2.0
// A trace beside the one that a thread has open.
#ifndef SOJOURN_FRONTEND_FLIGHT_APART_H
#define SOJOURN_FRONTEND_FLIGHT_APART_H

#include "frontend/session/Session.h"

#include <memory>

namespace sojourn::frontend {

/// While it lives, what the calling thread has open at a session waits, and what it records there is a trace of its
/// own.
class Apart {
public:
  explicit Apart(std::shared_ptr<Session> session) : session_(std::move(session)) {
    DeviceLock lock(session_->mutex());
    waiting_ = ThreadState::current().take(*session_);
  }
  Apart(Apart &&) = default;
  ~Apart() {
    if (!waiting_) {
      return;
    }
    DeviceLock lock(session_->mutex());
    if (auto open = ThreadState::current().take(*session_)) {
      session_->abandonHeld(*open, kNotRun);
    }
    ThreadState::current().putBack(*session_, std::move(waiting_));
  }

private:
  std::shared_ptr<Session> session_;
  std::shared_ptr<Recording> waiting_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_FLIGHT_APART_H
