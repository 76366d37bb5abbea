// SPDX-License-Identifier: Apache-2.0
#include "frontend/session/MemberThread.h"

#include <utility>

namespace sojourn::frontend {

MemberThread::MemberThread() : thread_([this] { run(); }) {}

MemberThread::~MemberThread() {
  {
    std::lock_guard lock(mutex_);
    isEnding_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void MemberThread::start(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    work_ = std::move(work);
  }
  changed_.notify_all();
}

void MemberThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !work_; });
}

void MemberThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return work_ || isEnding_; });
    if (!work_) {
      return;
    }
    lock.unlock();
    work_();
    lock.lock();
    work_ = nullptr;
    changed_.notify_all();
  }
}

} // namespace sojourn::frontend
