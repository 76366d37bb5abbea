// SPDX-License-Identifier: Apache-2.0
// Filling noise from the table, and from the rejection sampler that it is tested against.
#include "runtime/privacy/DiscreteGaussian.h"

#include "runtime/privacy/DiscreteLaplace.h"
#include "runtime/privacy/GaussianTable.h"
#include "runtime/privacy/Misuse.h"

#include <algorithm>
#include <array>
#include <sodium.h>

namespace sojourn::privacy {

/// A value has 32 bytes of each stream: its first words in one, its second words in the other.
static constexpr size_t kPicks = 4;
static constexpr uint64_t kValuesPerBlock = kCoinBlock / (kPicks * sizeof(uint64_t));
/// Values per refill of coins: 8 KiB let the cipher run at full width and stay in the first cache.
static constexpr size_t kValuesPerRefill = 256;
/// Second words are asked for this often in a refill, needed or not. More than two values of 1024 picks
/// tie with probability below 2^-131, so that time tells of none.
static constexpr size_t kResolved = 2;

void fillDiscreteGaussian(const Coins &coins, uint32_t site, uint64_t sigma, uint64_t first, std::span<int64_t> out) {
  fillFromTable(*gaussianTable(sigma), coins, site, first, out);
}

void fillFromTable(const GaussianTable &table, const Coins &coins, uint32_t site, uint64_t first,
                   std::span<int64_t> out) {
  alignas(64) std::array<uint64_t, (kValuesPerRefill + kValuesPerBlock) * kPicks> words;
  std::array<uint64_t, kCoinBlock / sizeof(uint64_t)> second;
  std::array<size_t, kValuesPerRefill + 1> ties;
  auto fill = [&](CoinUse use, uint64_t block, std::span<uint64_t> to) {
    coins.fill({use, site}, block, {reinterpret_cast<uint8_t *>(to.data()), to.size_bytes()});
  };
  for (size_t begin = 0; begin < out.size(); begin += kValuesPerRefill) {
    const size_t count = std::min(kValuesPerRefill, out.size() - begin);
    const uint64_t from = first + begin, block = from / kValuesPerBlock, before = from % kValuesPerBlock;
    fill(CoinUse::noise, block, std::span(words).first((before + count) * kPicks));
    const uint64_t *own = words.data() + before * kPicks;
    std::fill_n(ties.begin(), kResolved, 0);
    size_t tieCount = 0;
    for (size_t k = 0; k < count; ++k) {
      std::array<int64_t, kPicks> x;
      uint64_t tied = 0;
      for (size_t draw = 0; draw < kPicks; ++draw) {
        x[draw] = table.first.pick(own[k * kPicks + draw], tied);
      }
      out[begin + k] = table.widened(x);
      ties[tieCount] = k;
      tieCount += tied;
    }
    for (size_t number = 0; number < std::max(tieCount, kResolved); ++number) {
      // Where nothing ties, some value is made once more, and is the same.
      const size_t k = ties[number];
      fill(CoinUse::noiseSecond, (from + k) / kValuesPerBlock, second);
      std::array<int64_t, kPicks> x;
      for (size_t draw = 0; draw < kPicks; ++draw) {
        x[draw] = table.base.pick(own[k * kPicks + draw], second[(from + k) % kValuesPerBlock * kPicks + draw]);
      }
      out[begin + k] = table.widened(x);
    }
  }
  sodium_memzero(words.data(), sizeof words);
  sodium_memzero(second.data(), sizeof second);
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
