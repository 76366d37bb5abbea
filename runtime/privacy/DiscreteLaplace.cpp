// SPDX-License-Identifier: Apache-2.0
// The exact discrete Laplace.
#include "runtime/privacy/DiscreteLaplace.h"

#include "runtime/privacy/Misuse.h"

namespace sojourn::privacy {

int64_t drawDiscreteLaplace(CoinReader &reader, LaplaceScale scale) {
  const uint64_t t = scale.numerator;
  while (true) {
    // u + t v has P[x] ~ exp(-x/t) on the naturals: v counts whole scales, u is the part within one.
    const auto u = static_cast<uint64_t>(reader.uniform(t));
    if (!reader.expOfMinus(u, t)) {
      continue;
    }
    uint64_t v = 0;
    while (v < 16383 && reader.expOfMinus(1, 1)) {
      ++v;
    }
    const auto magnitude = static_cast<int64_t>((u + t * v) / scale.denominator);
    // 0 has two signs; one of them is drawn again.
    const bool negative = reader.fair();
    if (!negative || magnitude != 0) {
      return negative ? -magnitude : magnitude;
    }
  }
}

void fillDiscreteLaplace(const Coins &coins, uint32_t site, LaplaceScale scale, uint64_t first,
                         std::span<int64_t> out) {
  if (scale.numerator < 1 || scale.numerator > kLaplaceMax || scale.denominator < 1 ||
      scale.denominator > kLaplaceMax) {
    misuse("a scale of Laplace noise outside its range");
  }
  CoinReader reader(coins, {CoinUse::noise, site});
  for (size_t k = 0; k < out.size(); ++k) {
    reader.seek(first + k);
    out[k] = drawDiscreteLaplace(reader, scale);
  }
}

} // namespace sojourn::privacy
