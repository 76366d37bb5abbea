// SPDX-License-Identifier: Apache-2.0
// Binomial probabilities by exact ratios of neighbours, outwards from the mode.
#include "runtime/privacy/CountTable.h"

#include "runtime/privacy/BoundedCache.h"

#include <cmath>
#include <limits>

namespace sojourn::privacy {

namespace {

/// Weights of the counts [first, first + weights.size()), proportional to their probability.
struct Window {
  int64_t first;
  std::vector<WideFraction> weights;
  WideFraction total;
};

} // namespace

static Window window(int64_t rows, uint64_t q) {
  // The mode weighs 2^-28, so that fewer than 2^28 counts sum to less than 1. A side ends where a
  // weight falls below 2^-131 of the mode's.
  const WideFraction top = WideFraction::powerOfTwo(28), least = WideFraction::powerOfTwo(28 + 131);
  const uint64_t other = 0 - q; // (1 - q) * 2^64
  const auto mode = static_cast<int64_t>(Uint128(rows + 1) * q >> 64);
  std::vector<WideFraction> down, up{top};
  WideFraction total = top;
  for (int64_t n = mode; n > 0; --n) {
    // P[n - 1] / P[n] = n (1 - q) / ((rows - n + 1) q)
    WideFraction weight = (down.empty() ? top : down.back())
                              .scaled(static_cast<uint64_t>(n), other, static_cast<uint64_t>(rows - n + 1), q);
    if (weight < least) {
      break;
    }
    down.push_back(weight);
    total = total + weight;
  }
  for (int64_t n = mode; n < rows; ++n) {
    WideFraction weight = up.back().scaled(static_cast<uint64_t>(rows - n), q, static_cast<uint64_t>(n + 1), other);
    if (weight < least) {
      break;
    }
    up.push_back(weight);
    total = total + weight;
  }
  Window result{mode - static_cast<int64_t>(down.size()), {down.rbegin(), down.rend()}, total};
  result.weights.insert(result.weights.end(), up.begin(), up.end());
  return result;
}

/// At least value * 2^-128 + 2^-110, which covers what the window leaves out and all rounding.
static double roundedUp(Uint128 value) {
  double high = std::ldexp(static_cast<double>(static_cast<uint64_t>(value >> 64)), -64);
  double low = std::ldexp(static_cast<double>(static_cast<uint64_t>(value)), -128);
  return (high + low) * (1 + 0x1p-50) + 0x1p-110;
}

static std::shared_ptr<const CountTable> makeTable(int64_t rows, uint64_t q, int64_t capacity) {
  const Window counts = window(rows, q);
  const Shares shares(counts.total);
  auto table = std::make_shared<CountTable>();
  table->sixtyFourths = q;
  table->first = counts.first;
  const auto last = std::min(counts.first + static_cast<int64_t>(counts.weights.size()) - 1, capacity);
  WideFraction sum;
  for (int64_t n = counts.first; n < last; ++n) {
    sum = sum + counts.weights[static_cast<size_t>(n - counts.first)];
    table->below.push_back(shares.of(sum));
  }
  WideFraction beyond;
  for (size_t k = static_cast<size_t>(last - counts.first) + 1; k < counts.weights.size(); ++k) {
    beyond = beyond + counts.weights[k];
  }
  table->overflow = capacity >= rows ? 0 : roundedUp(shares.of(beyond));
  return table;
}

std::shared_ptr<const CountTable> countTable(int64_t rows, uint64_t sixtyFourths, int64_t capacity) {
  using Key = std::array<uint64_t, 3>;
  static BoundedCache<Key, CountTable> cache(32);
  return cache.get({static_cast<uint64_t>(rows), sixtyFourths, static_cast<uint64_t>(capacity)},
                   [&] { return makeTable(rows, sixtyFourths, capacity); });
}

} // namespace sojourn::privacy
