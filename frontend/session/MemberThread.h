// SPDX-License-Identifier: Apache-2.0
// A thread that speaks to one member of a group while others speak to the other members.
#ifndef SOJOURN_FRONTEND_SESSION_MEMBERTHREAD_H
#define SOJOURN_FRONTEND_SESSION_MEMBERTHREAD_H

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace sojourn::frontend {

/// A thread that does one piece of work at a time. Used by one thread; work does not throw.
class MemberThread {
public:
  MemberThread();
  /// Waits for the work.
  ~MemberThread();
  MemberThread(const MemberThread &) = delete;
  MemberThread &operator=(const MemberThread &) = delete;

  /// `work` and what it refers to stay until `wait` has returned.
  void start(std::function<void()> work);
  void wait();

private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool isEnding_ = false;
  std::thread thread_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_MEMBERTHREAD_H
