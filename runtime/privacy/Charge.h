// SPDX-License-Identifier: Apache-2.0
// What a release costs: Renyi divergences at fixed orders and a probability of failure, in integers.
#ifndef SOJOURN_RUNTIME_PRIVACY_CHARGE_H
#define SOJOURN_RUNTIME_PRIVACY_CHARGE_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace sojourn::privacy {

/// Orders of the Renyi divergence that are accounted: integers, where the Poisson-sampled discrete
/// Gaussian has the closed form of the continuous one (Mironov, Talwar, Zhang 2019).
inline constexpr std::array<int, 13> kOrders = {2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 1024};

/// The cost of one or many releases under one relation of neighbours. Never negative and never NaN
/// by type; sums saturate at the maximum, which no budget admits. Costs are rounded up when made.
struct Charge {
  /// Per order of kOrders the Renyi divergence in nats, in units of 2^-40.
  std::array<uint64_t, kOrders.size()> rdp{};
  /// Probability that what the divergences promise does not hold, in units of 2^-64.
  uint64_t delta = 0;

  friend bool operator==(const Charge &, const Charge &) = default;
};

inline constexpr uint64_t saturatingAdd(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }
inline constexpr uint64_t saturatingMultiply(uint64_t a, uint64_t b) {
  return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
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

/// The cost of `count` releases at this cost each.
inline constexpr Charge operator*(uint64_t count, const Charge &a) {
  Charge sum;
  for (size_t k = 0; k < kOrders.size(); ++k) {
    sum.rdp[k] = saturatingMultiply(a.rdp[k], count);
  }
  sum.delta = saturatingMultiply(a.delta, count);
  return sum;
}

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_CHARGE_H
