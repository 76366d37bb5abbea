// SPDX-License-Identifier: Apache-2.0
#include "frontend/wire/Retry.h"

#include "frontend/Interrupt.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <utility>

namespace sojourn::frontend {

namespace {

std::atomic<int64_t> firstPauseMs{20};
constexpr std::chrono::milliseconds kLongestPause{2000};
/// Where no server listens: an owner that has ended is told within a second, and one behind a relay that comes back at
/// once is met again.
constexpr std::chrono::milliseconds kRefusedFor{500};

/// Clients that lost one owner do not all come back at once.
double spread() {
  thread_local std::minstd_rand random{std::random_device{}()};
  return std::uniform_real_distribution<double>(0.75, 1.25)(random);
}

} // namespace

bool Retry::again(CallStatus status) {
  const auto now = Clock::now();
  if (repeats_ == 0) {
    first_ = now;
    wasLate_ = false;
  }
  const auto spent = now - first_;
  const bool isFirst = repeats_ == 0;
  const bool isWithin = spent < limit_;
  bool again = false;
  switch (status) {
  case CallStatus::Answered:
  case CallStatus::NotSent: return false; // it has waited for a connection for the whole time
  case CallStatus::Refused: again = spent < kRefusedFor; break;
  case CallStatus::Broken: again = isFirst || isWithin; break;
  // Who does not answer in time will hardly do so sooner when asked a third time.
  case CallStatus::TimedOut: again = !std::exchange(wasLate_, true); break;
  }
  if (!again) {
    return false;
  }
  const auto pause =
      std::min(kLongestPause, std::chrono::milliseconds(firstPauseMs) * (1 << std::min(repeats_, 10))) * spread();
  ++repeats_;
  interruptiblePause(std::chrono::duration_cast<std::chrono::milliseconds>(pause));
  return true;
}

void setFirstPause(std::chrono::milliseconds pause) { firstPauseMs = pause.count(); }

} // namespace sojourn::frontend
