// SPDX-License-Identifier: Apache-2.0
// The environment of a real process.
#include "owner/Environment.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <cstdlib>
#include <sodium.h>
#include <stdexcept>

namespace sojourn::owner {

Environment Environment::system(std::string storeDirectory) {
  if (sodium_init() < 0) {
    throw std::runtime_error("libsodium could not be initialised");
  }
  Environment environment;
  environment.clockMs = [] {
    auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<int64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  };
  environment.elapsedMs = [] {
    timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
  };
  environment.randomBytes = [](void *out, size_t size) { randombytes_buf(out, size); };
  environment.storeDirectory = std::move(storeDirectory);
  return environment;
}

int64_t Environment::systemSteadyNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void Environment::systemWaitUntil(int64_t untilNs, const std::atomic<bool> &stop) {
  // A sleeping thread wakes late by some tens of microseconds, and the more so the longer it has slept, so the last
  // ones are spent awake.
  constexpr int64_t kAwakeNs = 200'000, kLookNs = 20'000'000;
  for (int64_t now = systemSteadyNs(); now < untilNs && !stop.load(std::memory_order_relaxed); now = systemSteadyNs()) {
    if (untilNs - now > kAwakeNs) {
      const int64_t wake = std::min(untilNs - kAwakeNs, now + kLookNs);
      const timespec time{static_cast<time_t>(wake / 1'000'000'000), static_cast<long>(wake % 1'000'000'000)};
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
    }
  }
}

std::string defaultStoreDirectory() {
  if (const char *store = std::getenv("SOJOURN_STORE"); store && *store) {
    return store;
  }
  if (const char *data = std::getenv("XDG_DATA_HOME"); data && *data) {
    return std::string(data) + "/sojourn";
  }
  const char *home = std::getenv("HOME");
  return std::string(home && *home ? home : ".") + "/.local/share/sojourn";
}

} // namespace sojourn::owner
