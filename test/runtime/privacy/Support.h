// SPDX-License-Identifier: Apache-2.0
// What the accounting tests share: fresh random numbers and a slow oracle.
#ifndef SOJOURN_TEST_RUNTIME_PRIVACY_SUPPORT_H
#define SOJOURN_TEST_RUNTIME_PRIVACY_SUPPORT_H

#include "runtime/privacy/Charge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace sojourn::privacy::test {

/// New numbers in each run; SOJOURN_TEST_SEED repeats one.
inline std::mt19937_64 freshRandom() {
  const char *given = std::getenv("SOJOURN_TEST_SEED");
  uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("SOJOURN_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return std::mt19937_64(seed);
}

/// Log-uniform in [low, high].
inline double logUniform(std::mt19937_64 &random, double low, double high) {
  return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
}

inline double nats(uint64_t units) { return std::ldexp(static_cast<double>(units), -40); }

inline void expectRelative(double value, double expected, double tolerance) {
  EXPECT_NEAR(value, expected, tolerance * std::fabs(expected));
}

} // namespace sojourn::privacy::test

#endif // SOJOURN_TEST_RUNTIME_PRIVACY_SUPPORT_H
