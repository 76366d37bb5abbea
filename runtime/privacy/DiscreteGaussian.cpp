// SPDX-License-Identifier: Apache-2.0
// Filling noise from the table, and from the rejection sampler that it is tested against.
#include "runtime/privacy/DiscreteGaussian.h"

#include "runtime/privacy/DiscreteLaplace.h"
#include "runtime/privacy/GaussianTable.h"
#include "runtime/privacy/Misuse.h"

#include <algorithm>
#include <sodium.h>

namespace sojourn::privacy {

/// Values per refill of coins: 8 KiB let the cipher run at full width and stay in the first cache.
static constexpr size_t kValuesPerRefill = 128;
static constexpr size_t kWordsPerValue = kCoinBlock / sizeof(uint64_t);

void fillDiscreteGaussian(const Coins &coins, uint32_t site, uint64_t sigma, uint64_t first, std::span<int64_t> out) {
  const std::shared_ptr<const GaussianTable> table = gaussianTable(sigma);
  const AliasTable &base = table->base;
  const int64_t inner = table->widening.inner, outer = table->widening.outer;
  alignas(64) uint64_t words[kValuesPerRefill * kWordsPerValue];
  for (size_t begin = 0; begin < out.size(); begin += kValuesPerRefill) {
    const size_t count = std::min(kValuesPerRefill, out.size() - begin);
    coins.fill({CoinUse::noise, site}, first + begin, {reinterpret_cast<uint8_t *>(words), count * kCoinBlock});
    for (size_t k = 0; k < count; ++k) {
      const uint64_t *own = words + k * kWordsPerValue;
      const int64_t x1 = base.pick(own[0], own[1]), x2 = base.pick(own[2], own[3]);
      const int64_t x3 = base.pick(own[4], own[5]), x4 = base.pick(own[6], own[7]);
      out[begin + k] = outer * (inner * x1 + x2) + (inner * x3 + x4);
    }
  }
  sodium_memzero(words, sizeof words);
}

void fillDiscreteGaussianByRejection(const Coins &coins, uint32_t site, uint64_t sigma, uint64_t first,
                                     std::span<int64_t> out) {
  if (sigma < 1 || sigma > kSigmaMax) {
    misuse("a sigma of Gaussian noise outside its range");
  }
  const uint64_t t = sigma + 1;
  const Uint128 variance = Uint128{sigma} * sigma;
  CoinReader reader(coins, {CoinUse::noise, site});
  for (size_t k = 0; k < out.size(); ++k) {
    reader.seek(first + k);
    while (true) {
      const int64_t y = drawDiscreteLaplace(reader, {t});
      // Accepted with probability exp(-(|y| - variance/t)^2 / (2 variance)), over the denominator t^2.
      // |y| < 2^37 by the cut of the Laplace, so that no product passes 128 bits.
      const Uint128 scaled = Uint128(y < 0 ? -y : y) * t;
      const Uint128 distance = scaled > variance ? scaled - variance : variance - scaled;
      if (reader.expOfMinus(distance * distance, 2 * variance * t * t)) {
        out[k] = y;
        break;
      }
    }
  }
}

} // namespace sojourn::privacy
