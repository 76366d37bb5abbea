// SPDX-License-Identifier: Apache-2.0
// What a release costs: Renyi divergences at fixed orders and a probability of failure, in integers.
#ifndef SOJOURN_RUNTIME_PRIVACY_CHARGE_H
#define SOJOURN_RUNTIME_PRIVACY_CHARGE_H

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sojourn::privacy {

/// Orders of the Renyi divergence that are accounted: integers, where the Poisson-sampled discrete
/// Gaussian has the closed form of the continuous one (Mironov, Talwar, Zhang 2019).
/// How many and which: see README.md.
inline constexpr std::array<int, 22> kOrders = {2,  3,  4,  5,  6,  7,  8,   10,  12,  14,  16,
                                                20, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024};

/// More than can be counted, as good as infinite: an order whose sum comes to this is lost. It admits nothing, what is
/// added or returned later does not bring it back, and the other orders count on.
inline constexpr uint64_t kLost = UINT64_MAX;

/// The cost of one or many releases under one relation of neighbours. Never negative and never NaN
/// by type; a sum that overflows is kLost, which no budget admits. Costs are rounded up when made.
struct Charge {
  /// Per order of kOrders the Renyi divergence in nats, in units of 2^-40.
  std::array<uint64_t, kOrders.size()> rdp{};
  /// Probability that what the divergences promise does not hold, in units of 2^-64.
  uint64_t delta = 0;

  friend bool operator==(const Charge &, const Charge &) = default;
};

inline constexpr uint64_t saturatingAdd(uint64_t a, uint64_t b) { return a + b < a ? kLost : a + b; }
inline constexpr uint64_t saturatingMultiply(uint64_t a, uint64_t b) {
  return b != 0 && a > UINT64_MAX / b ? kLost : a * b;
}
/// Of lost numbers nothing is known that could be taken away.
inline constexpr uint64_t saturatingSubtract(uint64_t a, uint64_t b) {
  return a == kLost || b == kLost ? kLost : a - std::min(a, b);
}

/// The cost of both, whatever the second was chosen by (adaptive composition adds up).
inline constexpr Charge operator+(const Charge &a, const Charge &b) {
  Charge sum;
  for (size_t k = 0; k < kOrders.size(); ++k) {
    sum.rdp[k] = saturatingAdd(a.rdp[k], b.rdp[k]);
  }
  sum.delta = saturatingAdd(a.delta, b.delta);
  return sum;
}

/// What stays of a sum where a part of it is returned: of an order that is lost, all.
inline constexpr Charge operator-(const Charge &whole, const Charge &part) {
  Charge rest;
  for (size_t k = 0; k < kOrders.size(); ++k) {
    rest.rdp[k] = saturatingSubtract(whole.rdp[k], part.rdp[k]);
  }
  rest.delta = saturatingSubtract(whole.delta, part.delta);
  return rest;
}

/// The cost of `count` releases at this cost each.
inline constexpr Charge operator*(uint64_t count, const Charge &a) {
  Charge sum;
  for (size_t k = 0; k < kOrders.size(); ++k) {
    sum.rdp[k] = saturatingMultiply(a.rdp[k], count);
  }
  sum.delta = saturatingMultiply(a.delta, count);
  return sum;
}

/// Whether no grant can ever admit it, nor anything with it: all orders are lost, or the probability of failure is.
inline constexpr bool isLost(const Charge &total) {
  return total.delta == kLost ||
         std::all_of(total.rdp.begin(), total.rdp.end(), [](uint64_t cost) { return cost == kLost; });
}

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_CHARGE_H
