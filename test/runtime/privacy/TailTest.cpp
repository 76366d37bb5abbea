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

TEST(Tail, CapacitiesAreThoseOfExactArithmetic) {
  struct Size {
    int64_t rows, expected, capacity;
  };
  const int64_t many = int64_t{1} << 40;
  const Size sizes[] = {{60000, 256, 408},   {455, 64, 144},   {1437, 64, 144},  {1000000, 64, 152},
                        {7, 3, 8},           {8, 8, 8},        {9, 1, 16},       {100, 1, 24},
                        {1000, 1, 24},       {many, 1, 24},    {many, 256, 416}, {many, 4096, 4672},
                        {50000, 2048, 2448}, {1000, 500, 640}, {16, 8, 16},      {1000000000, 1024, 1320},
                        {569, 569, 576},     {200, 199, 200},  {1, 1, 8}};
  for (const Size &size : sizes) {
    Checked<int64_t> capacity = capacityFor(size.rows, size.expected);
    ASSERT_TRUE(capacity) << capacity.error();
    EXPECT_EQ(*capacity, size.capacity) << size.rows << " " << size.expected;
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

TEST(Tail, CapacityIsTheSmallestMultipleOfEight) {
  auto random = freshRandom();
  double slowest = 0;
  for (int round = 0; round < 300; ++round) {
    int64_t rows = static_cast<int64_t>(logUniform(random, 1, static_cast<double>(kRowsMax)));
    int64_t expected =
        std::clamp<int64_t>(static_cast<int64_t>(logUniform(random, 1, static_cast<double>(rows))), 1, rows);
    auto start = std::chrono::steady_clock::now();
    int64_t capacity = *capacityFor(rows, expected);
    slowest = std::max(slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    double rate = *samplingRate(rows, expected);
    EXPECT_EQ(capacity % 8, 0);
    EXPECT_GE(capacity, 8);
    EXPECT_LT(capacity, rows + 8);
    EXPECT_LE(overflowMass(rows, rate, capacity), kOverflowMax);
    if (capacity > 8) {
      EXPECT_GT(overflowMass(rows, rate, capacity - 8), kOverflowMax) << rows << " " << expected;
    }
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
}

TEST(Tail, RefusesSizesThatAreNone) {
  EXPECT_EQ(capacityFor(0, 1).error(), "a sample of 0 rows, expected between 1 and 2^40 rows to draw from");
  EXPECT_EQ(capacityFor(100, 101).error(), "an expected batch size of 101, expected between 1 and the 100 rows to draw "
                                           "from; give size= in that range");
  for (int64_t bad : {int64_t{-1}, int64_t{0}, kRowsMax + 1}) {
    EXPECT_FALSE(samplingRate(bad, 1)) << bad;
    EXPECT_FALSE(capacityFor(bad, 1)) << bad;
    EXPECT_FALSE(capacityFor(kRowsMax, bad)) << bad;
  }
}

} // namespace

} // namespace sojourn::privacy::test
