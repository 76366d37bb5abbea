// SPDX-License-Identifier: Apache-2.0
#include "owner/MappedFile.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace sojourn::owner {

namespace {

/// Whole pages. `begin` is written last and cleared first; 0: free.
struct Slot {
  std::atomic<uintptr_t> begin = 0, end = 0;
  std::atomic<bool> isDamaged = false;

  bool holds(uintptr_t address) const {
    const uintptr_t first = begin.load();
    return first != 0 && address >= first && address < end.load();
  }
};

std::array<Slot, 65'536> slots;
std::atomic<size_t> slotsUsed = 0; ///< the handler looks no further
std::mutex slotsMutex;
uintptr_t pageBytes = 4096;
struct sigaction before;

/// Calls what a signal handler may call: atomics and mmap.
void onBusError(int signal, siginfo_t *info, void *context) {
  const int error = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool isFault = info->si_code > 0; // else another process has sent it, and there is no address
  for (size_t at = 0; isFault && at < slotsUsed.load(); ++at) {
    Slot &slot = slots[at];
    if (!slot.holds(address)) {
      continue;
    }
    slot.isDamaged = true; // before another thread can read a zero
    // All that follows: after the end of a shorter file there is nothing, and of a damaged table nothing is used.
    const uintptr_t page = address & ~(pageBytes - 1);
    void *zeros = mmap(reinterpret_cast<void *>(page), slot.end - page, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros != MAP_FAILED) {
      errno = error;
      return;
    }
  }
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    sigaction(signal, &before, nullptr);
    raise(signal); // once this handler returns
  }
}

void install() {
  pageBytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = onBusError;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &before);
}

/// Frees the slot before the mapping goes, so that the handler covers no memory of somebody else.
class Guard {
public:
  Guard(Slot &slot, std::shared_ptr<void> mapping) : slot(slot), mapping(std::move(mapping)) {}
  ~Guard() { slot.begin = 0; }
  Guard(const Guard &) = delete;
  Guard &operator=(const Guard &) = delete;

private:
  Slot &slot;
  std::shared_ptr<void> mapping;
};

} // namespace

std::shared_ptr<void> guardMapped(const void *bytes, size_t size, std::shared_ptr<void> mapping) {
  static std::once_flag installed;
  std::call_once(installed, install);
  const auto first = reinterpret_cast<uintptr_t>(bytes);
  std::lock_guard lock(slotsMutex);
  for (size_t at = 0; at < slots.size(); ++at) {
    Slot &slot = slots[at];
    if (slot.begin != 0) {
      continue;
    }
    auto guard = std::make_shared<Guard>(slot, std::move(mapping));
    slot.isDamaged = false;
    slot.end = (first + size + pageBytes - 1) & ~(pageBytes - 1);
    slot.begin = first & ~(pageBytes - 1);
    slotsUsed = std::max(slotsUsed.load(), at + 1);
    return guard;
  }
  return nullptr;
}

bool isDamaged(const void *address) {
  for (size_t at = 0; at < slotsUsed.load(); ++at) {
    if (slots[at].holds(reinterpret_cast<uintptr_t>(address)) && slots[at].isDamaged) {
      return true;
    }
  }
  return false;
}

} // namespace sojourn::owner
