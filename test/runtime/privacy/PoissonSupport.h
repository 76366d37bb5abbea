// SPDX-License-Identifier: Apache-2.0
// What the tests of draws share: plans, draws, exact binomials, and wrong placements that have to be noticed.
#ifndef SOJOURN_TEST_RUNTIME_PRIVACY_POISSONSUPPORT_H
#define SOJOURN_TEST_RUNTIME_PRIVACY_POISSONSUPPORT_H

#include "runtime/privacy/PoissonDraw.h"
#include "test/runtime/privacy/ExactGaussian.h"
#include "test/runtime/privacy/Statistics.h"

#include <algorithm>
#include <vector>

namespace sojourn::privacy::test {

inline PoissonDraw planned(int64_t rows, int64_t expected, int64_t capacity) {
  auto plan = PoissonDraw::plan(rows, expected, capacity);
  EXPECT_TRUE(std::holds_alternative<PoissonDraw>(plan)) << std::get<std::string>(plan);
  return std::get<PoissonDraw>(plan);
}

inline uint64_t sixtyFourths(int64_t rows, int64_t expected) {
  return static_cast<uint64_t>((Uint128(expected) << 64) / Uint128(rows));
}

inline std::vector<int64_t> drawn(const PoissonDraw &draw, const Coins &coins, uint32_t index) {
  std::vector<int64_t> slots(static_cast<size_t>(draw.capacity()), -7);
  draw.draw(coins, index, slots);
  return slots;
}

/// P[Binomial(rows, q / 2^64) = n] for all n, from (1 - q)^rows upwards.
inline std::vector<Quad> binomial(int64_t rows, uint64_t q) {
  const Quad p = share(Uint128{q} << 64), other = share(Uint128{0 - q} << 64);
  Quad weight = 1;
  for (int64_t k = 0; k < rows; ++k) {
    weight *= other;
  }
  std::vector<Quad> result{weight};
  for (int64_t n = 0; n < rows; ++n) {
    result.push_back(result.back() * Quad(rows - n) / Quad(n + 1) * p / other);
  }
  return result;
}

/// The same rows where they lay once: in front, in their order.
inline void moveToFront(std::vector<int64_t> &slots) {
  std::fill(std::remove(slots.begin(), slots.end(), -1), slots.end(), -1);
}

} // namespace sojourn::privacy::test

#endif // SOJOURN_TEST_RUNTIME_PRIVACY_POISSONSUPPORT_H
