// SPDX-License-Identifier: Apache-2.0
// Fair shares of threads, and room for running programs.
#include "owner/Budget.h"

#include "owner/RequestError.h"
#include "runtime/Library.h"

#include <algorithm>
#include <chrono>
#include <unistd.h>

namespace sojourn::owner {

using llvm::Twine;

ThreadBudget::ThreadBudget(unsigned total) : total(total ? total : std::max(1u, runtime::libraryThreads())) {}

unsigned ThreadBudget::enter() {
  std::lock_guard lock(mutex);
  return std::max(1u, total / ++running);
}

void ThreadBudget::leave() {
  std::lock_guard lock(mutex);
  --running;
}

ThreadBudget::Lease::Lease(ThreadBudget &budget) : threads(budget.enter()), budget(budget) {}
ThreadBudget::Lease::~Lease() { budget.leave(); }

size_t machineBytes() {
  long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(size) : SIZE_MAX;
}

MemoryBudget::MemoryBudget(size_t limit, int64_t waitMs)
    : limit(limit ? limit : machineBytes() / 4 * 3), waitMs(waitMs), leased(this->limit) {}

/// Whether it fits, and none that came before waits for the memory of all.
bool MemoryBudget::isNext(const Waiter &waiter) const {
  auto hasShare = [&](const Waiter &each) {
    return leased.used(each.account) + each.bytes <= leased.share(each.account);
  };
  for (const Waiter *before : waiting) {
    if (before == &waiter) {
      return hasShare(waiter) && waiter.bytes <= leased.left();
    }
    if (hasShare(*before)) {
      return false;
    }
  }
  return false;
}

llvm::Expected<MemoryBudget::Lease> MemoryBudget::lease(const std::string &account, size_t bytes,
                                                        const runtime::StopFlag &stop) {
  if (const size_t share = leased.share(account); bytes > share) {
    return requestError(wire::ErrorCode_Limit,
                        "the program needs " + Twine(bytes) +
                            " bytes for intermediate values, this owner's limit for running programs " +
                            (account.empty() ? "of clients without an identity " : "") + "is " + Twine(share) +
                            "; use a smaller batch or several steps");
  }
  constexpr std::chrono::milliseconds kLook{100}; // at the flag
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(waitMs);
  const Waiter waiter{account, bytes};
  std::string kept = account;
  std::unique_lock lock(mutex);
  const auto at = waiting.insert(waiting.end(), &waiter);
  bool fits = isNext(waiter);
  while (!fits && !stop && std::chrono::steady_clock::now() < end) {
    freed.wait_until(lock, std::min(end, std::chrono::steady_clock::now() + kLook));
    fits = isNext(waiter);
  }
  waiting.erase(at);
  freed.notify_all(); // the next may fit
  if (stop) {
    return requestError(wire::ErrorCode_Stopped, "the step was stopped");
  }
  if (!fits) {
    return requestError(wire::ErrorCode_Limit, "the program needs " + Twine(bytes) +
                                                   " bytes for intermediate values; running programs hold " +
                                                   Twine(leased.used()) + " of " + Twine(limit) +
                                                   " and did not end within " + Twine(waitMs) + " ms; try again later");
  }
  leased.add(account, bytes);
  return Lease(*this, std::move(kept), bytes);
}

MemoryBudget::Lease::~Lease() {
  if (bytes > 0) {
    std::lock_guard lock(budget.mutex);
    budget.leased.remove(account, bytes);
    budget.freed.notify_all();
  }
}

} // namespace sojourn::owner
