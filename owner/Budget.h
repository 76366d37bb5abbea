// SPDX-License-Identifier: Apache-2.0
// What runs share: the machine's threads and the memory of running programs. Both are thread-safe.
#ifndef SOJOURN_OWNER_BUDGET_H
#define SOJOURN_OWNER_BUDGET_H

#include "owner/Patience.h"
#include "owner/Shares.h"
#include "runtime/Stop.h"

#include "llvm/Support/Error.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <utility>

namespace sojourn::owner {

/// Memory that this process may use, in bytes: the machine's, or less where a control group limits it.
size_t machineBytes();

/// Deals the machine's threads out to runs: all of them to a run that is alone, a fair share (at
/// least one) to a run that begins beside others. Nobody waits, and a run keeps what it got.
class ThreadBudget {
public:
  /// `total`: at least 1 counts.
  explicit ThreadBudget(unsigned total);
  /// The most that one run gets.
  unsigned most() const { return total; }

  /// A run's threads, given back when it ends.
  class Lease {
  public:
    explicit Lease(ThreadBudget &budget);
    ~Lease();
    Lease(const Lease &) = delete;
    Lease &operator=(const Lease &) = delete;
    const unsigned threads;

  private:
    ThreadBudget &budget;
  };

private:
  unsigned enter();
  void leave();

  const unsigned total;
  std::mutex mutex;
  unsigned running = 0;
};

/// Bounds the bytes that running programs hold for intermediate values, of all accounts and of each (Shares.h). A run
/// that does not fit beside the others waits for them, in turn, but not for ever. Clients with an identity go
/// before those without. Small runs have a reserve beside the limit, so that they wait for no large one: a sixteenth of
/// it and at most 256 MiB, for runs that need a sixteenth of the reserve at most.
class MemoryBudget {
public:
  /// `limit` in bytes; 0: three quarters of the machine's memory.
  MemoryBudget(size_t limit, int64_t waitMs);

  /// A run's bytes, given back when it ends.
  class Lease {
  public:
    Lease(Lease &&other) noexcept
        : budget(other.budget), shares(other.shares), account(std::move(other.account)),
          bytes(std::exchange(other.bytes, 0)) {}
    Lease &operator=(Lease &&) = delete;
    ~Lease();

  private:
    friend class MemoryBudget;
    Lease(MemoryBudget &budget, Shares &shares, std::string account, size_t bytes)
        : budget(budget), shares(shares), account(std::move(account)), bytes(bytes) {}
    MemoryBudget &budget;
    Shares &shares; ///< of the budget: those that the bytes are of
    std::string account;
    size_t bytes;
  };

  /// Waits until `bytes` fit. RequestError of code Limit if they never will, or did not in time, of code Stopped once
  /// the flag is set, of code Busy where the patience ends.
  llvm::Expected<Lease> lease(const std::string &account, size_t bytes, const runtime::StopFlag &stop,
                              const Patience &patience = {});

  size_t waiters();

private:
  struct Waiter {
    const std::string &account;
    size_t bytes;
  };
  bool isNext(const Waiter &waiter) const;

  const size_t limit, reserve;
  const int64_t waitMs;
  std::mutex mutex;
  std::condition_variable freed;
  Shares leased, leasedSmall;
  std::list<const Waiter *> waiting; ///< in the order of their coming
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_BUDGET_H
