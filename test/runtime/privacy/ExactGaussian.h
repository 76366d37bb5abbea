// SPDX-License-Identifier: Apache-2.0
// What the table sampler should draw and what it does draw, as probabilities in 113-bit floating
// point: an oracle of other arithmetic than the product's integers.
#ifndef SOJOURN_TEST_RUNTIME_PRIVACY_EXACTGAUSSIAN_H
#define SOJOURN_TEST_RUNTIME_PRIVACY_EXACTGAUSSIAN_H

#include "runtime/privacy/GaussianTable.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace sojourn::privacy::test {

__extension__ typedef __float128 Quad;

inline Quad magnitude(Quad x) { return x < 0 ? -x : x; }

inline Quad root(Quad x) {
  Quad guess = std::sqrt(static_cast<double>(x));
  for (int k = 0; k < 3; ++k) {
    guess = (guess + x / guess) / 2;
  }
  return guess;
}

/// exp(-y) for y >= 0, off by a few units in the last place per whole number of y; 0 from y = 200 on.
inline Quad expOfMinus(Quad y) {
  if (y >= 200) {
    return 0;
  }
  auto series = [](Quad f) {
    Quad sum = 1;
    for (int n = 45; n >= 1; --n) {
      sum = 1 - f / n * sum;
    }
    return sum;
  };
  static const Quad inverse = series(1);
  Quad result = 1;
  for (; y >= 1; y -= 1) {
    result *= inverse;
  }
  return result * series(y);
}

/// 2^-128 times an integer.
inline Quad share(Uint128 weight) {
  const Quad half = Quad{1} / (Quad{1ull << 32} * Quad{1ull << 32});
  return (Quad(static_cast<uint64_t>(weight >> 64)) + Quad(static_cast<uint64_t>(weight)) * half) * half;
}

/// P[x] of the discrete Gaussian with variance `squared` for x in [0, last], and the mass of |x| > last.
struct ExactGaussian {
  std::vector<Quad> probability;
  Quad tail = 0;

  ExactGaussian(Quad squared, int64_t last) {
    Quad total = 0;
    std::vector<Quad> weights;
    for (int64_t x = 0;; ++x) {
      weights.push_back(expOfMinus(Quad(x) * Quad(x) / (2 * squared)));
      if (weights.back() < Quad{1e-60} && x > last) {
        break;
      }
    }
    for (size_t x = weights.size(); x-- > 0;) { // small ones first
      total += weights[x] * (x == 0 ? 1 : 2);
      tail = static_cast<int64_t>(x) > last ? total : tail;
    }
    tail /= total;
    for (int64_t x = 0; x <= last; ++x) {
      probability.push_back(weights[static_cast<size_t>(x)] / total);
    }
  }
};

/// What a base table draws, by value + kReach, from thresholds and aliases as they are.
inline std::vector<Uint128> drawnWeights(const AliasTable &table) {
  const Uint128 capacity = Uint128{1} << (128 - kColumnBits);
  std::vector<Uint128> weights(kColumns);
  for (int column = 0; column < kColumns; ++column) {
    weights[column] += table.threshold[column];
    weights[table.alias[column] + kReach] += capacity - table.threshold[column];
  }
  return weights;
}

/// Half the sum of differences between a base table's distribution and the exact one.
inline Quad baseVariation(const std::vector<Uint128> &weights, Quad squared) {
  const ExactGaussian exact(squared, kReach);
  Quad sum = exact.tail;
  for (int x = -kReach; x <= kReach; ++x) {
    sum += magnitude(share(weights[x + kReach]) - exact.probability[std::abs(x)]);
  }
  return sum / 2;
}

/// The exact distribution of factor * a + b for a, b independent of known distributions around 0.
class Sum {
public:
  Sum(std::vector<Quad> first, int64_t factor, std::vector<Quad> second)
      : first(std::move(first)), second(std::move(second)), factor(factor),
        reach(factor * half(this->first) + half(this->second)) {}

  Quad at(int64_t x) const {
    const int64_t a = half(first), b = half(second);
    if (factor == 0) {
      return std::abs(x) <= b ? second[x + b] : 0;
    }
    // |x - factor * y| <= b
    const auto low = static_cast<int64_t>(std::ceil(static_cast<double>(x - b) / static_cast<double>(factor)));
    const auto high = static_cast<int64_t>(std::floor(static_cast<double>(x + b) / static_cast<double>(factor)));
    Quad sum = 0;
    for (int64_t y = std::max(-a, low); y <= std::min(a, high); ++y) {
      sum += first[y + a] * second[x - factor * y + b];
    }
    return sum;
  }
  std::vector<Quad> all() const {
    std::vector<Quad> result;
    for (int64_t x = -reach; x <= reach; ++x) {
      result.push_back(at(x));
    }
    return result;
  }

private:
  static int64_t half(const std::vector<Quad> &of) { return static_cast<int64_t>(of.size()) / 2; }
  const std::vector<Quad> first, second;
  const int64_t factor;

public:
  /// Beyond it, probabilities are 0.
  const int64_t reach;
};

/// The distribution that a table sampler draws.
inline Sum drawnBy(const std::vector<Uint128> &weights, Widening widening) {
  std::vector<Quad> base;
  for (int column = 0; column < kColumns - 1; ++column) {
    base.push_back(share(weights[column]));
  }
  std::vector<Quad> inner = Sum(base, widening.inner, base).all();
  return Sum(inner, widening.outer, inner);
}

} // namespace sojourn::privacy::test

#endif // SOJOURN_TEST_RUNTIME_PRIVACY_EXACTGAUSSIAN_H
