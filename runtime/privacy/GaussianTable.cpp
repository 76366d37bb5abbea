// SPDX-License-Identifier: Apache-2.0
// Parameters, weights and alias columns of the table sampler, with the proof of its error.
//
// Claim: for every sigma in [1, 2^22] the sum of four draws is within total variation 2^-110 of the
// discrete Gaussian N_Z(0, sigma^2), P[x] ~ exp(-x^2 / (2 sigma^2)).
//
// 1. One stage. Let a ~ N_Z(0, s1^2), b ~ N_Z(0, s2^2) independent, x = k a + b, s^2 = k^2 s1^2 + s2^2 and
//    t = s1 s2 / s. Completing the square, a^2/s1^2 + (x - k a)^2/s2^2 = x^2/s^2 + (a - c x)^2/t^2 with
//    c = k s1^2 / s^2, hence P[x] ~ exp(-x^2/(2 s^2)) f(x) with f(x) = sum over a of exp(-(a - c x)^2/(2 t^2)).
//    By Poisson's summation f(x) = sqrt(2 pi) t (1 + 2 sum over j >= 1 of exp(-2 pi^2 t^2 j^2) cos(2 pi j c x)),
//    so f lies within 1 +- e of a constant, e = 2 exp(-2 pi^2 t^2) (1 + 2^-300). The total variation is
//    half the mean of |f(x) / mean(f) - 1| <= 2 e / (1 - e), that is e / (1 - e) (Peikert 2010, theorem
//    3.1; Micciancio and Walter 2017, section 4). With t^2 >= 4: e <= 2 exp(-8 pi^2) < 2^-112.9.
// 2. Conditions. The inner stage has s1 = s2 = s0, t^2 = s0^2 / (1 + inner^2); the outer one
//    s1 = s2 = s0 sqrt(1 + inner^2), t^2 = s0^2 (1 + inner^2) / (1 + outer^2). With A = 1 + inner^2,
//    B = 1 + outer^2 and s0^2 = sigma^2 / (A B), t^2 >= 4 reads sigma^2 >= 4 A^2 B and sigma^2 >= 4 B^2. A
//    factor 0 has c = 0, where f is constant: no error and no condition.
// 3. Tail. A base draw is cut at |x| <= 1023, where s0^2 <= 6697 makes 1023 >= 12.5 s0. The sum over
//    x > r of exp(-x^2/(2 s0^2)) is at most (s0^2/r) exp(-r^2/(2 s0^2)), and the norming sum is at least
//    sqrt(2 pi) s0: the mass cut is at most 2 exp(-78.125) / (12.5 sqrt(2 pi)) < 2^-116.6.
// 4. Weights. Each is within 1 + 2^-80 units of 2^-128 of its exact share (gaussianWeights), and what
//    is missing goes to 0: together less than 2048 * 2^-128 = 2^-117. Columns add no error.
// 5. Sum: four base draws 4 (2^-116.6 + 2^-117) < 2^-113.7, the inner stage twice and the outer once
//    3 * 2^-112.9 < 2^-111.3, together below 2^-111. With the factors that wideningFor picks, the same terms
//    stay below 2^-113.8 for every sigma.
#include "runtime/privacy/GaussianTable.h"

#include "runtime/privacy/BoundedCache.h"
#include "runtime/privacy/DiscreteGaussian.h"
#include "runtime/privacy/Misuse.h"

#include <cmath>

namespace sojourn::privacy {

/// Largest base variance: 12.5 deviations fit into kReach.
static constexpr uint64_t kBaseVarianceMax = 6697;
static_assert(4 * uint64_t{kReach} * kReach >= 625 * kBaseVarianceMax);

std::optional<Widening> wideningFor(uint64_t sigma) {
  const Uint128 variance = Uint128{sigma} * sigma;
  std::optional<Widening> best;
  Uint128 bestCost = 0;
  for (uint32_t inner = 0; inner <= 64; ++inner) {
    const Uint128 a = 1 + uint64_t{inner} * inner;
    // The smallest outer factor whose base is narrow enough: a wider base means a smaller error.
    uint64_t outer = static_cast<uint64_t>(std::sqrt(static_cast<double>(variance / (kBaseVarianceMax * a))));
    outer -= outer > 0;
    while (kBaseVarianceMax * a * (1 + Uint128{outer} * outer) < variance) {
      ++outer;
    }
    const Uint128 b = 1 + Uint128{outer} * outer;
    // variance / cost is the smaller t^2 of the two stages.
    Uint128 cost = std::max(inner == 0 ? Uint128{0} : a * a * b, outer == 0 ? Uint128{0} : b * b);
    if (variance >= 4 * cost && (!best || cost < bestCost)) {
      best = Widening{inner, static_cast<uint32_t>(outer)};
      bestCost = cost;
    }
  }
  return best;
}

/// exp(-a/b) for a/b in (0, 1/2], below the truth or above it by at most 64 units.
static WideFraction expOfMinus(uint64_t a, uint64_t b) {
  // 1 - exp(-y) = y - y^2/2 + y^3/6 - ...; 60 terms leave less than a unit.
  WideFraction term = WideFraction::ratio(a, b), plus, minus;
  for (uint64_t n = 1; n <= 60; ++n) {
    WideFraction &side = n % 2 == 1 ? plus : minus;
    side = side + term;
    term = term.scaled(a, 1, b, n + 1);
  }
  WideFraction half = WideFraction::powerOfTwo(1);
  return half - (plus - minus) + half;
}

std::vector<Uint128> gaussianWeights(uint64_t numerator, uint64_t denominator) {
  // p(x) = r^(x^2) 2^-12 by p(x+1) = p(x) r^(2x+1). In units of 2^-256, r is off by at most 64 and
  // r^(2x+1) by at most 130 (x+1), so p(x) is off by at most the sum of 2^-12 * 130 x' + 1 over x' <= x,
  // below 2^16. The total is off by less than 2^27 units and above 2^-12, the shares by less than 2^-216.
  const WideFraction first = WideFraction::powerOfTwo(12);
  const WideFraction r = expOfMinus(numerator, denominator), squared = r * r;
  std::vector<WideFraction> side{first};
  WideFraction factor = r, total = first;
  for (int x = 1; x <= kReach; ++x) {
    side.push_back(side.back() * factor);
    factor = factor * squared;
    total = total + side.back() + side.back();
  }
  const Shares shares(total);
  std::vector<Uint128> weights(kColumns, 0);
  Uint128 sum = 0;
  for (int x = -kReach; x <= kReach; ++x) {
    sum += weights[x + kReach] = shares.of(side[std::abs(x)]);
  }
  weights[kReach] -= sum; // modulo 2^128: the units that rounding lost go to 0
  return weights;
}

AliasTable::AliasTable(const std::vector<Uint128> &weights) {
  const Uint128 capacity = Uint128{1} << (128 - kColumnBits);
  std::vector<Uint128> rest = weights;
  std::vector<int> small, large;
  for (int column = 0; column < kColumns; ++column) {
    threshold[column] = capacity;
    alias[column] = static_cast<int16_t>(column - kReach);
    (rest[column] < capacity ? small : large).push_back(column);
  }
  // The weights sum to capacity * kColumns, so that a small column always finds a large one.
  while (!small.empty()) {
    int taker = small.back(), giver = large.back();
    small.pop_back();
    threshold[taker] = rest[taker];
    alias[taker] = static_cast<int16_t>(giver - kReach);
    rest[giver] -= capacity - rest[taker];
    if (rest[giver] < capacity) {
      large.pop_back();
      small.push_back(giver);
    }
  }
}

FirstWords::FirstWords(const AliasTable &table) {
  for (size_t column = 0; column < cells.size(); ++column) {
    // A column that is full (2^117) keeps its own value, which is then its alias too: less is no harm.
    const Uint128 threshold = std::min(table.threshold[column], (Uint128{1} << (128 - kColumnBits)) - 1);
    cells[column] = static_cast<uint64_t>(threshold >> 64) << kColumnBits |
                    static_cast<uint64_t>(int64_t{table.alias[column]} + kReach);
  }
}

std::shared_ptr<const GaussianTable> gaussianTable(uint64_t sigma) {
  static BoundedCache<uint64_t, GaussianTable> cache(32);
  return cache.get(sigma, [sigma] {
    std::optional<Widening> widening = sigma >= 1 && sigma <= kSigmaMax ? wideningFor(sigma) : std::nullopt;
    if (!widening) {
      misuse("no table of noise for this sigma");
    }
    uint64_t a = 1 + uint64_t{widening->inner} * widening->inner;
    uint64_t b = 1 + uint64_t{widening->outer} * widening->outer;
    AliasTable base(gaussianWeights(a * b, 2 * sigma * sigma));
    return std::make_shared<const GaussianTable>(GaussianTable{*widening, base, FirstWords(base)});
  });
}

} // namespace sojourn::privacy
