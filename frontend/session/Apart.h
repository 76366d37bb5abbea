// SPDX-License-Identifier: Apache-2.0
// A trace beside the one that a thread has open.
#ifndef SOJOURN_FRONTEND_SESSION_APART_H
#define SOJOURN_FRONTEND_SESSION_APART_H

#include "frontend/session/Session.h"

#include <memory>

namespace sojourn::frontend {

/// While it lives, what the calling thread has open at a session waits, and what it records there is a trace of its
/// own.
class Apart {
public:
  explicit Apart(std::shared_ptr<Session> session) : session_(std::move(session)) {
    SessionLock lock(session_->mutex());
    waiting_ = ThreadState::current().take(*session_);
  }
  Apart(Apart &&) = default;
  ~Apart() {
    if (!waiting_) {
      return;
    }
    SessionLock lock(session_->mutex());
    if (auto open = ThreadState::current().take(*session_)) {
      session_->abandon(*open);
    }
    ThreadState::current().putBack(*session_, std::move(waiting_));
  }

private:
  std::shared_ptr<Session> session_;
  std::shared_ptr<Recording> waiting_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_APART_H
