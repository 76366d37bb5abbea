// SPDX-License-Identifier: Apache-2.0
// Times of replies (see ReplyTime.h).
#include "owner/ReplyTime.h"

#include "owner/WorkerStub.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sojourn::owner {

/// A run of a few microseconds is late by as much as the system gives its processor to others.
static constexpr double kLeastNs = 2'000'000;
/// Units in what is allowed, from which on it is rounded up by less than this part of it.
static constexpr uint64_t kUnits = 32;
/// Of the headroom, for messages that may be late: it costs them bits, not their steps.
static constexpr double kLateShare = 0.25;
/// A late message waits for whole quanta of so many units.
static constexpr int64_t kLateUnits = 8;
static constexpr double kLongestNs = 0x1p60;

Quantum Quantum::of(double headroom, int64_t stepNs, size_t steps, bool mayBeLate) {
  const double count = static_cast<double>(std::max<size_t>(steps, 1));
  const double more = (headroom - 1) * (mayBeLate ? kLateShare : 1) / std::sqrt(std::sqrt(count));
  const double expected = static_cast<double>(std::max<int64_t>(stepNs, 1)) * count * (1 + std::max(more, 0.0));
  const auto wanted = static_cast<uint64_t>(std::min(expected + (mayBeLate ? kLeastNs / 16 : kLeastNs), kLongestNs));
  const uint64_t unit = std::max<uint64_t>(std::bit_floor(wanted) / kUnits, 1);
  return {static_cast<int64_t>((wanted + unit - 1) / unit * unit), static_cast<int64_t>(unit)};
}

std::optional<int64_t> StepPrices::find(const Key &key) const {
  for (auto at = prices.rbegin(); at != prices.rend(); ++at) {
    if (at->key == key && !at->code.expired()) {
      return at->stepNs;
    }
  }
  return std::nullopt;
}

void StepPrices::add(const Key &key, const std::shared_ptr<const CodeRef> &code, int64_t stepNs) {
  if (prices.size() >= kMost) {
    prices.erase(prices.begin());
  }
  prices.push_back({key, code, stepNs});
}

void ReplyTime::begin(int64_t stepNs, size_t steps, bool publishes) {
  publishing = publishes;
  price = stepNs;
  const double each = static_cast<double>(std::max<int64_t>(stepNs, 1)) * std::max(headroom, 1.0);
  const double most = std::max(1.0, static_cast<double>(kMessageNs) / each);
  count = std::min(std::max<size_t>(steps, 1), static_cast<size_t>(most));
}

/// Bits that tell one of so many outcomes.
static uint64_t bitsOf(uint64_t outcomes) { return static_cast<uint64_t>(std::bit_width(outcomes - 1)); }

void ReplyTime::ran(size_t steps, int64_t ns, bool failed) {
  count = steps;
  quantum = Quantum::of(headroom, price, count, mayBeLate());
  spent = std::max<int64_t>(ns, 1);
  if (failed) { // that, and in which step
    told += 1 + bitsOf(count);
  }
}

void ReplyTime::hold(const RunningStep &step) {
  if (spent == 0 || heldUntil) {
    return;
  }
  int64_t allowed = quantum.allowed;
  if (spent > allowed) {
    // Each further quantum is twice as long where the reply is withheld.
    int64_t more = mayBeLate() ? kLateUnits * quantum.unit : allowed;
    uint64_t quanta = 0;
    for (; spent > allowed; more *= mayBeLate() ? 1 : 2) {
      allowed += more;
      ++quanta;
    }
    told += bitsOf(quanta + 1);
  }
  heldUntil = now() + (allowed - spent);
  environment->waitUntil(*heldUntil, step.flag());
  if (step.isStopped()) {
    told += 1 + bitsOf(count); // whether the run had ended by then, and how far it was
    int64_t until = step.stoppedNs() + kStopNs;
    for (int64_t more = kStopNs; until < now(); more *= 2) { // it took longer to end
      until += more;
      ++told;
    }
    heldUntil = std::min(*heldUntil, until);
    const std::atomic<bool> never{false};
    environment->waitUntil(*heldUntil, never);
  }
}

void ReplyTime::end() {
  if (heldUntil) {
    const int64_t since = std::max<int64_t>(now() - *heldUntil, 0);
    const std::atomic<bool> never{false};
    environment->waitUntil(*heldUntil + (since / kAlignNs + 1) * kAlignNs, never);
  }
}

} // namespace sojourn::owner
