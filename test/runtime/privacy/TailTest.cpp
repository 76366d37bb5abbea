// SPDX-License-Identifier: Apache-2.0
// Capacities of Poisson samples: against values of mpmath at 60 digits, against sums in long double,
// and at the ends. test_accounting.py compares more sizes with mpmath.
#include "runtime/privacy/Tail.h"

#include "test/runtime/privacy/Support.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace sojourn::privacy::test {

namespace {

/// P[Binomial(rows, rate) > capacity] by summing all terms, each through lgamma.
double textbookTail(int64_t rows, double rate, int64_t capacity) {
  long double sum = 0, n = static_cast<long double>(rows), q = rate;
  for (int64_t count = capacity + 1; count <= rows; ++count) {
    long double k = static_cast<long double>(count);
    sum += expl(lgammal(n + 1) - lgammal(k + 1) - lgammal(n - k + 1) + k * logl(q) + (n - k) * log1pl(-q));
  }
  return static_cast<double>(sum);
}

/// P[Poisson(mean) > capacity] by summing terms, each through lgamma.
double textbookPoissonTail(double mean, int64_t capacity) {
  long double sum = 0, term = 1, m = mean;
  for (int64_t count = capacity + 1; term > sum * 1e-18L; ++count) {
    long double k = static_cast<long double>(count);
    term = expl(k * logl(m) - m - lgammal(k + 1));
    sum += term;
  }
  return static_cast<double>(sum);
}

TEST(Tail, CapacitiesAreThoseOfExactArithmetic) {
  // Regularised incomplete gamma functions of mpmath at 60 digits.
  const std::pair<int64_t, int64_t> sizes[] = {
      {1, 24},      {2, 24},      {3, 32},      {8, 48},        {9, 48},           {16, 64},
      {64, 152},    {100, 200},   {199, 336},   {256, 416},     {500, 712},        {569, 792},
      {1024, 1320}, {2048, 2464}, {4096, 4672}, {65536, 67800}, {1048576, 1057576}};
  for (auto [expected, slots] : sizes) {
    Checked<int64_t> capacity = capacityFor(expected);
    ASSERT_TRUE(capacity) << capacity.error();
    EXPECT_EQ(*capacity, slots) << expected;
  }
}

TEST(Tail, MassesAreThoseOfExactArithmetic) {
  struct Size {
    int64_t rows;
    double rate;
    int64_t capacity;
    double mass;
  };
  const Size sizes[] = {{60000, 256.0 / 60000, 384, 3.23301371751e-14},
                        {455, 64.0 / 455, 120, 1.85311984788e-12},
                        {int64_t{1} << 40, 0x1p-32, 400, 3.56412848568e-17},
                        {1000000, 0.1, 102800, 7.2113813357e-21},
                        {1000, 0.9, 990, 1.30467325062e-33},
                        {10000000, 1e-3, 10600, 1.33223655792e-9}};
  for (const Size &size : sizes) {
    double mass = overflowMass(size.rows, size.rate, size.capacity);
    EXPECT_GE(mass, size.mass * (1 - 1e-11)) << size.rows;
    EXPECT_LE(mass, size.mass * 1.02) << size.rows;
  }
}

TEST(Tail, IsAnUpperBoundOfTheSumAndClose) {
  auto random = freshRandom();
  for (int round = 0; round < 400; ++round) {
    int64_t rows = static_cast<int64_t>(logUniform(random, 2, 3000));
    double rate = logUniform(random, 1e-4, 0.99);
    int64_t capacity = static_cast<int64_t>(static_cast<double>(rows) * rate + logUniform(random, 1, 300));
    double mass = overflowMass(rows, rate, capacity), exact = textbookTail(rows, rate, capacity);
    EXPECT_GE(mass, exact * (1 - 1e-12)) << rows << " " << rate << " " << capacity;
    if (exact > 1e-300) {
      EXPECT_LE(mass, exact * (1 + 1e-6)) << rows << " " << rate << " " << capacity;
    }
  }
}

TEST(Tail, PoissonBoundIsAboveTheSumAndClose) {
  auto random = freshRandom();
  for (int round = 0; round < 400; ++round) {
    double mean = logUniform(random, 0.01, 5000);
    int64_t capacity = static_cast<int64_t>(mean + logUniform(random, 1, 10) * std::sqrt(mean) + 1);
    double mass = poissonOverflowMass(mean, capacity), exact = textbookPoissonTail(mean, capacity);
    EXPECT_GE(mass, exact * (1 - 1e-12)) << mean << " " << capacity;
    if (exact > 1e-300) {
      EXPECT_LE(mass, exact * (1 + 1e-6)) << mean << " " << capacity;
    }
  }
}

TEST(Tail, CapacityIsTheSmallestMultipleOfEightForAnyNumberOfRows) {
  auto random = freshRandom();
  double slowest = 0;
  for (int round = 0; round < 300; ++round) {
    int64_t expected = static_cast<int64_t>(logUniform(random, 1, static_cast<double>(kExpectedMax)));
    auto start = std::chrono::steady_clock::now();
    int64_t capacity = *capacityFor(expected);
    slowest = std::max(slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    double mean = static_cast<double>(expected);
    EXPECT_EQ(capacity % 8, 0);
    EXPECT_GE(capacity, expected + 1);
    EXPECT_LE(poissonOverflowMass(mean, capacity), kOverflowMax);
    if (capacity - 8 > expected) {
      EXPECT_GT(poissonOverflowMass(mean, capacity - 8), kOverflowMax) << expected;
    }
    // What an owner checks at its own number of rows.
    int64_t rows = std::max(expected, static_cast<int64_t>(logUniform(random, 1, static_cast<double>(kRowsMax))));
    EXPECT_LE(overflowMass(rows, *samplingRate(rows, expected), capacity), 2 * kOverflowMax) << rows << " " << expected;
  }
  RecordProperty("slowest_us", static_cast<int>(slowest * 1e6));
  EXPECT_LT(slowest, 0.02) << "1 ms on an idle machine";
}

TEST(Tail, FallsWithCapacityAndGrowsWithRate) {
  auto random = freshRandom();
  for (int round = 0; round < 300; ++round) {
    int64_t rows = static_cast<int64_t>(logUniform(random, 10, 1e12));
    double rate = logUniform(random, 1e-9, 0.9), mean = static_cast<double>(rows) * rate;
    int64_t capacity = static_cast<int64_t>(mean + logUniform(random, 1, 10) * std::sqrt(mean) + 1);
    double mass = overflowMass(rows, rate, capacity);
    EXPECT_LE(overflowMass(rows, rate, capacity + 1), mass);
    EXPECT_LE(mass, overflowMass(rows, rate * 1.0001, capacity));
  }
}

TEST(Tail, Ends) {
  EXPECT_EQ(overflowMass(100, 0.5, 100), 0);
  EXPECT_EQ(overflowMass(100, 1, 100), 0);
  EXPECT_EQ(overflowMass(100, 1, 99), 1);
  EXPECT_EQ(overflowMass(100, 0, 0), 0);
  EXPECT_EQ(overflowMass(100, 0.5, 30), 1) << "below the mean";
  expectRelative(overflowMass(100, 0.5, 99), 0x1p-100, 1e-9);
  expectRelative(overflowMass(40, 0x1p-20, 0), 40 * 0x1p-20, 1e-4);
  EXPECT_EQ(overflowMass(kRowsMax, 0.5, kRowsMax - 1), std::numeric_limits<double>::min()) << "never 0 where it is not";
  for (double bad : {-0.1, 1.1, std::nan("")}) {
    EXPECT_EQ(overflowMass(100, bad, 50), 1) << bad;
  }
  EXPECT_EQ(overflowMass(-1, 0.5, 50), 1);
  EXPECT_EQ(overflowMass(kRowsMax + 1, 0.5, 50), 1);
  EXPECT_EQ(overflowMass(100, 0.5, -1), 1);
  EXPECT_EQ(poissonOverflowMass(50, 49), 1) << "not above the mean";
  expectRelative(poissonOverflowMass(0x1p-20, 0), 0x1p-20, 1e-5);
  for (double bad : {-1.0, 0.0, 0x1p41, std::nan("")}) {
    EXPECT_EQ(poissonOverflowMass(bad, 1), 1) << bad;
  }
}

TEST(Tail, RefusesSizesThatAreNone) {
  EXPECT_EQ(samplingRate(0, 1).error(), "a sample of 0 rows, expected between 1 and 2^40 rows to draw from");
  EXPECT_EQ(capacityFor(0).error(),
            "an expected batch size of 0, expected between 1 and 2^25; give size= in that range");
  EXPECT_EQ(samplingRate(100, 101).error(),
            "an expected batch size of 101, expected between 1 and the 100 rows to draw "
            "from; give size= in that range");
  for (int64_t bad : {int64_t{-1}, int64_t{0}, kRowsMax + 1}) {
    EXPECT_FALSE(samplingRate(bad, 1)) << bad;
    EXPECT_FALSE(capacityFor(bad)) << bad;
  }
}

} // namespace

} // namespace sojourn::privacy::test
