// SPDX-License-Identifier: Apache-2.0
// Threads that serve requests, each from its message to its reply.
#ifndef SOJOURN_OWNER_WORKERS_H
#define SOJOURN_OWNER_WORKERS_H

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sojourn::owner {

/// Made as they are needed. The last one to rest is the next to work: steps meet a warm thread, with its kernels'
/// helpers and caches. Thread-safe.
class Workers {
public:
  explicit Workers(unsigned most) : most(most) {}
  ~Workers() { stop(); }
  Workers(const Workers &) = delete;
  Workers &operator=(const Workers &) = delete;

  /// Runs it on a thread, at once unless as many run as may. False, and nothing else, after `refuse`.
  bool run(std::function<void()> task);
  /// Takes no further tasks; those that wait for a thread go.
  void refuse();
  /// Whether none is under way within the time.
  bool awaitIdle(std::chrono::milliseconds time);
  /// Refuses, and waits for those under way.
  void stop();

private:
  struct Worker {
    std::condition_variable called;
    std::function<void()> task;
    std::thread thread;
  };
  void work(Worker &worker);

  const unsigned most;
  std::mutex mutex;
  std::condition_variable idle;
  std::vector<std::unique_ptr<Worker>> all;
  std::vector<Worker *> resting;
  std::deque<std::function<void()>> waiting;
  size_t busy = 0;
  bool isRefusing = false, isOver = false;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_WORKERS_H
