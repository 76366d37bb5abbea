// SPDX-License-Identifier: Apache-2.0
// Objects that belong to the process that made them: budgets, files and connections. A child made by fork has a copy of
// their memory, not their threads, and what it paid with the copy the parent would pay with again.
#ifndef SOJOURN_RUNTIME_OWNPROCESS_H
#define SOJOURN_RUNTIME_OWNPROCESS_H

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace sojourn::runtime {

/// How often this process and those that it is a fork of were forked off.
inline uint64_t forksBefore() {
  static std::atomic<uint64_t> &count = [&]() -> std::atomic<uint64_t> & {
    static std::atomic<uint64_t> forks{0};
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
    return forks;
  }();
  return count.load(std::memory_order_relaxed);
}

/// The process that made the object of which this is a member. In any other the object refuses what it is asked for,
/// before it takes a lock, which a thread of the parent may hold for ever; and when it goes it touches nothing that the
/// parent goes on using.
class OwnProcess {
public:
  /// Whether this is a fork of that process; costs a comparison.
  bool isForked() const { return forks_ != forksBefore(); }
  /// Likewise where fork's own handlers were left out: asks the kernel.
  bool isElsewhere() const { return isForked() || pid_ != getpid(); }
  pid_t pid() const { return pid_; }
  /// After what the object is: "this owner was opened by process 12, and this is process 13, a fork of it".
  std::string text() const {
    return "opened by process " + std::to_string(pid_) + ", and this is process " + std::to_string(getpid()) +
           ", a fork of it";
  }

private:
  pid_t pid_ = getpid();
  uint64_t forks_ = forksBefore();
};

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_OWNPROCESS_H
