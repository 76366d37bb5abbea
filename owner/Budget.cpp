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
    : limit(limit ? limit : machineBytes() / 4 * 3), waitMs(waitMs) {}

llvm::Expected<MemoryBudget::Lease> MemoryBudget::lease(size_t bytes, const runtime::StopFlag &stop) {
  if (bytes > limit) {
    return requestError(wire::ErrorCode_Limit,
                        "the program needs " + Twine(bytes) +
                            " bytes for intermediate values, this owner's limit for running programs is " +
                            Twine(limit) + "; use a smaller batch or several steps");
  }
  constexpr std::chrono::milliseconds kLook{100}; // at the flag
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(waitMs);
  auto fits = [&] { return leased <= limit && bytes <= limit - leased; };
  std::unique_lock lock(mutex);
  while (!fits() && !stop && std::chrono::steady_clock::now() < end) {
    freed.wait_until(lock, std::min(end, std::chrono::steady_clock::now() + kLook));
  }
  if (stop) {
    return requestError(wire::ErrorCode_Stopped, "the step was stopped");
  }
  if (!fits()) {
    return requestError(wire::ErrorCode_Limit, "the program needs " + Twine(bytes) +
                                                   " bytes for intermediate values; running programs hold " +
                                                   Twine(leased) + " of " + Twine(limit) + " and did not end within " +
                                                   Twine(waitMs) + " ms; try again later");
  }
  leased += bytes;
  return Lease(*this, bytes);
}

MemoryBudget::Lease::~Lease() {
  if (bytes > 0) {
    std::lock_guard lock(budget.mutex);
    budget.leased -= bytes;
    budget.freed.notify_all();
  }
}

} // namespace sojourn::owner
