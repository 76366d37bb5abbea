// SPDX-License-Identifier: Apache-2.0
// Integer Gaussian noise, drawn from secret coins: P[x] proportional to exp(-x^2 / (2 sigma^2)).
#ifndef SOJOURN_RUNTIME_PRIVACY_DISCRETEGAUSSIAN_H
#define SOJOURN_RUNTIME_PRIVACY_DISCRETEGAUSSIAN_H

#include "runtime/privacy/Coins.h"

#include <cstdint>
#include <span>

namespace sojourn::privacy {

/// Largest sigma, in steps of the noise's grid. Grids are chosen so that sigma is in [2^20, 2^21].
inline constexpr uint64_t kSigmaMax = uint64_t{1} << 22;

/// Values first, first + 1, ... of a site's noise. Sigma in [1, kSigmaMax], else the process stops. A value
/// depends on key, site, sigma and its position alone. Every value takes the same steps: half a block of
/// coins, four look-ups, no rejection (Micciancio and Walter 2017; the proof is in GaussianTable.cpp).
/// Thread-safe. |x| < 2^35.
void fillDiscreteGaussian(const Coins &coins, uint32_t site, uint64_t sigma, uint64_t first, std::span<int64_t> out);

/// Most total variation between a value of fillDiscreteGaussian and the exact distribution, for any
/// sigma it takes. The caller charges it to delta, once per value.
inline constexpr double sampleErrorMass(uint64_t /*sigma*/) { return 0x1p-110; }

/// The same distribution exactly, by rejection in 128-bit integers (Canonne, Kamath, Steinke 2020,
/// algorithm 3): slow, and its time depends on the coins. The oracle of the tests. Positions below 2^44.
void fillDiscreteGaussianByRejection(const Coins &coins, uint32_t site, uint64_t sigma, uint64_t first,
                                     std::span<int64_t> out);

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_DISCRETEGAUSSIAN_H
