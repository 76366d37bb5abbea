// SPDX-License-Identifier: Apache-2.0
// Fair shares of threads, and room for running programs.
#include "owner/Budget.h"

#include "owner/RequestError.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace sojourn::owner {

using llvm::Twine;

ThreadBudget::ThreadBudget(unsigned total) : total(std::max(1u, total)) {}

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

/// The limit in a control group's file; SIZE_MAX where there is none.
static size_t limitIn(const std::filesystem::path &file) {
  size_t bytes = 0;
  return std::ifstream(file) >> bytes && bytes > 0 ? bytes : SIZE_MAX; // "max" is no number
}

/// The least limit of this process's control groups and of those around them (cgroups(7)).
static size_t groupBytes() {
  size_t least = SIZE_MAX;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto [number, rest] = llvm::StringRef(line).split(':');
    const auto [controllers, path] = rest.split(':');
    const bool isMemory = llvm::is_contained(llvm::split(controllers, ','), "memory");
    if (!isMemory && !controllers.empty()) {
      continue;
    }
    const char *root = isMemory ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    const char *file = isMemory ? "memory.limit_in_bytes" : "memory.max";
    for (std::filesystem::path at = path.str(); !at.empty(); at = at.parent_path()) {
      least = std::min(least, limitIn(root + at.string() + "/" + file));
      if (at == at.parent_path()) {
        break;
      }
    }
  }
  return least;
}

size_t machineBytes() {
  static const size_t bytes = [] {
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    const size_t all = pages > 0 && size > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(size) : SIZE_MAX;
    return std::min(all, groupBytes());
  }();
  return bytes;
}

MemoryBudget::MemoryBudget(size_t limit, int64_t waitMs)
    : limit(limit ? limit : machineBytes() / 4 * 3), reserve(std::min(this->limit / 16, size_t{256} << 20)),
      waitMs(waitMs), leased(this->limit), leasedSmall(reserve) {}

/// Whether it fits, and no earlier waiter that goes before it waits for the memory of all.
bool MemoryBudget::isNext(const Waiter &waiter) const {
  auto hasShare = [&](const Waiter &each) {
    return leased.used(each.account) + each.bytes <= leased.share(each.account);
  };
  for (const Waiter *before : waiting) {
    if (before == &waiter) {
      return hasShare(waiter) && waiter.bytes <= leased.left();
    }
    if (hasShare(*before) && (!before->account.empty() || waiter.account.empty())) {
      return false;
    }
  }
  return false;
}

llvm::Expected<MemoryBudget::Lease> MemoryBudget::lease(const std::string &account, size_t bytes,
                                                        const runtime::StopFlag &stop, const Patience &patience) {
  if (const size_t share = leased.share(account); bytes > share) {
    return requestError(wire::ErrorCode_Limit,
                        "the program needs " + Twine(bytes) +
                            " bytes for intermediate values, this owner's limit for running programs " +
                            (account.empty() ? "of clients without an identity " : "") + "is " + Twine(share) +
                            "; use a smaller batch or several steps");
  }
  constexpr std::chrono::milliseconds kLook{100}; // at the flag
  const std::chrono::milliseconds most(waitMs);
  const auto end = std::chrono::steady_clock::now() + std::min(most, patience.value_or(most));
  const Waiter waiter{account, bytes};
  std::string kept = account;
  std::unique_lock lock(mutex);
  auto fitsReserve = [&] {
    return bytes <= reserve / 16 && bytes <= leasedSmall.left() &&
           leasedSmall.used(account) + bytes <= leasedSmall.share(account);
  };
  const auto at = waiting.insert(waiting.end(), &waiter);
  bool isSmall = fitsReserve(), fits = isSmall || isNext(waiter);
  while (!fits && !stop && std::chrono::steady_clock::now() < end) {
    freed.wait_until(lock, std::min(end, std::chrono::steady_clock::now() + kLook));
    isSmall = fitsReserve();
    fits = isSmall || isNext(waiter);
  }
  waiting.erase(at);
  freed.notify_all(); // the next may fit
  if (stop) {
    return requestError(wire::ErrorCode_Stopped, "the step was stopped");
  }
  if (!fits && patience) {
    return busy(*patience, "this owner had no " + Twine(bytes) + " bytes of memory for intermediate values");
  }
  if (!fits) {
    return requestError(wire::ErrorCode_Limit, "the program needs " + Twine(bytes) +
                                                   " bytes for intermediate values; the owner has no memory left for "
                                                   "it beside the programs that run, and none ended within " +
                                                   Twine(waitMs) + " ms; try again later");
  }
  Shares &from = isSmall ? leasedSmall : leased;
  from.add(account, bytes);
  return Lease(*this, from, std::move(kept), bytes);
}

size_t MemoryBudget::waiters() {
  std::lock_guard lock(mutex);
  return waiting.size();
}

MemoryBudget::Lease::~Lease() {
  if (bytes > 0) {
    std::lock_guard lock(budget.mutex);
    shares.remove(account, bytes);
    budget.freed.notify_all();
  }
}

} // namespace sojourn::owner
