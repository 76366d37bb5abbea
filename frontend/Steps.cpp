// SPDX-License-Identifier: Apache-2.0
// Explicit steps over all sessions, and the lock that waits politely.
#include "frontend/Session.h"

#include <atomic>

namespace sojourn::frontend {

namespace {

std::atomic<int> stepDepth{0};
std::atomic<uint64_t> stepCount{0};
std::atomic<void (*)(std::recursive_mutex &)> lockWaiter{nullptr};

constexpr const char *kDropped = "the step that computed it was dropped";

} // namespace

void setLockWaiter(void (*waiter)(std::recursive_mutex &)) { lockWaiter = waiter; }

SessionLock::SessionLock(std::recursive_mutex &mutex) : mutex_(mutex) {
  if (mutex_.try_lock()) {
    return;
  }
  auto waiter = lockWaiter.load();
  waiter ? waiter(mutex_) : mutex_.lock();
}

void Steps::begin() {
  if (stepDepth++ == 0) {
    ++stepCount;
    for (auto &session : Session::all()) {
      session->mark();
    }
  }
}

void Steps::end() {
  if (--stepDepth == 0) {
    flushAll();
  }
}

void Steps::abort() {
  if (--stepDepth == 0) {
    for (auto &session : Session::all()) {
      session->rollback(kDropped);
    }
  }
}

bool Steps::active() { return stepDepth > 0; }

uint64_t Steps::current() { return active() ? stepCount.load() : 0; }

void flushAll() {
  for (auto &session : Session::all()) {
    if (!session->offline()) {
      session->flush();
    }
  }
}

} // namespace sojourn::frontend
