// SPDX-License-Identifier: Apache-2.0
#include "frontend/session/BackOff.h"

#include "frontend/Interrupt.h"

#include <algorithm>
#include <atomic>
#include <random>

namespace sojourn::frontend {

using std::chrono::milliseconds;

namespace {

std::atomic<int64_t> firstMs{50}, longestMs{2'000}, mostMs{120'000}, toldMs{5'000};

/// Steps of one group in several sessions, or processes.
double spread() {
  thread_local std::minstd_rand random{std::random_device{}()};
  return std::uniform_real_distribution<double>(0.9, 1.1)(random);
}

} // namespace

milliseconds BackOff::pause() const {
  const double grown = static_cast<double>(firstMs) * static_cast<double>(1U << std::min(tries_, 20U));
  const double rank = static_cast<double>(group_) / 0x1p64; // of the group, from 0 to 1
  const double length = std::min(grown, static_cast<double>(longestMs)) * (0.5 + rank) * spread();
  return milliseconds(std::max<int64_t>(1, static_cast<int64_t>(length))); // at least one look at signals
}

milliseconds BackOff::elapsed() const { return std::chrono::duration_cast<milliseconds>(Clock::now() - begin_); }

std::optional<milliseconds> BackOff::left() const {
  return deadlineMs_ ? std::optional(milliseconds(deadlineMs_) - elapsed()) : std::nullopt;
}

uint64_t BackOff::deadlineMs() const {
  const auto now = left();
  return now ? static_cast<uint64_t>(std::max<int64_t>(now->count(), 1)) : 0;
}

BackOff::Next BackOff::wait(const StepFollower *follow) {
  const auto end = Clock::now() + pause();
  ++tries_;
  waited_ = elapsed();
  if (waited_ >= milliseconds(mostMs)) {
    return Next::late;
  }
  for (;;) {
    if ((follow && !(*follow)(0)) || left().value_or(milliseconds(1)).count() <= 0) {
      return Next::stopped;
    }
    const auto rest = std::chrono::ceil<milliseconds>(end - Clock::now());
    if (rest.count() <= 0) {
      waited_ = elapsed();
      return Next::again;
    }
    interruptiblePause(std::min({rest, kLookEvery, std::max(left().value_or(rest), milliseconds(1))}));
  }
}

bool BackOff::wasLong() const { return tries_ > 0 && waited_ >= milliseconds(toldMs); }

void setBusyPauses(milliseconds first, milliseconds longest, milliseconds most, milliseconds told) {
  firstMs = first.count();
  longestMs = longest.count();
  mostMs = most.count();
  toldMs = told.count();
}

} // namespace sojourn::frontend
