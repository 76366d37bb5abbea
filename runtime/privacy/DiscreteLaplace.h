// SPDX-License-Identifier: Apache-2.0
// Integer Laplace noise, drawn exactly from secret coins: P[x] proportional to exp(-|x| / scale).
#ifndef SOJOURN_RUNTIME_PRIVACY_DISCRETELAPLACE_H
#define SOJOURN_RUNTIME_PRIVACY_DISCRETELAPLACE_H

#include "runtime/privacy/CoinReader.h"

#include <cstdint>
#include <span>

namespace sojourn::privacy {

/// A scale in steps of the noise's grid, exactly numerator / denominator.
struct LaplaceScale {
  uint64_t numerator;
  uint64_t denominator = 1;
};

/// Largest numerator and denominator.
inline constexpr uint64_t kLaplaceMax = uint64_t{1} << 48;

/// Values first, first + 1, ... (below 2^44) of a site's noise, by rejection in 128-bit integers (Canonne,
/// Kamath, Steinke 2020, algorithm 2). Numerator and denominator in [1, kLaplaceMax], else the process
/// stops. Exact but for mass below 2^-23,000 where |x| passes 2^62; the time depends on the coins. A value
/// depends on key, site, scale and its position alone. Thread-safe.
void fillDiscreteLaplace(const Coins &coins, uint32_t site, LaplaceScale scale, uint64_t first, std::span<int64_t> out);

/// One value from a reader of coins.
int64_t drawDiscreteLaplace(CoinReader &reader, LaplaceScale scale);

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_DISCRETELAPLACE_H
