// SPDX-License-Identifier: Apache-2.0
// Costs of single mechanisms: against reference values, against the textbook sums in long double, and
// at the ends of their ranges. test_accounting.py compares them with mpmath and dp-accounting.
#include "runtime/privacy/Rdp.h"

#include "test/runtime/privacy/Support.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace sojourn::privacy::test {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The divergence as its definition has it; exact to 1e-14 absolute, so poor where it is tiny.
double textbookSampled(int order, double q, double rho) {
  long double sum = 0, shift = 0;
  for (int pass = 0; pass < 2; ++pass) {
    sum = 0;
    long double most = -1e300L;
    for (int k = 0; k <= order; ++k) {
      long double term = lgammal(order + 1.0L) - lgammal(k + 1.0L) - lgammal(order - k + 1.0L) +
                         (order - k) * log1pl(-static_cast<long double>(q)) + k * logl(q) +
                         static_cast<long double>(k) * (k - 1) * rho;
      most = std::max(most, term);
      sum += expl(term - shift);
    }
    shift = pass == 0 ? most : shift;
  }
  return static_cast<double>((logl(sum) + shift) / (order - 1));
}

double textbookPure(int order, double epsilon) {
  long double p = 1 / (1 + expl(-static_cast<long double>(epsilon))), q = 1 - p;
  return static_cast<double>(logl(powl(p, order) * powl(q, 1 - order) + powl(q, order) * powl(p, 1 - order)) /
                             (order - 1));
}

bool saturated(const Charge &charge) {
  return std::all_of(charge.rdp.begin(), charge.rdp.end(), [](uint64_t cost) { return cost == UINT64_MAX; });
}

TEST(Rdp, ReferenceValues) {
  expectRelative(sampledGaussianDivergence(2, 0.01, 0.5), 1.7181342207455e-4, 1e-9);
  expectRelative(sampledGaussianDivergence(8, 0.01, 0.5), 8.9364390760603e-4, 1e-9);
  expectRelative(sampledGaussianDivergence(32, 0.01, 0.5), 11.246275937048, 1e-9);
  expectRelative(14062 * sampledGaussianDivergence(8, 256.0 / 60000, 0.5 / (1.1 * 1.1)), 1.38287201075, 1e-9);
  expectRelative(gaussianDivergence(8, 0.25), 2, 1e-12);
}

TEST(Rdp, SampledGaussianIsTheTextbookSum) {
  auto random = freshRandom();
  for (int round = 0; round < 300; ++round) {
    double q = logUniform(random, 1e-5, 1), rho = logUniform(random, 1e-4, 50);
    for (int order : kOrders) {
      double expected = textbookSampled(order, q, rho), found = sampledGaussianDivergence(order, q, rho);
      EXPECT_NEAR(found, expected, 1e-9 * expected + 1e-13) << order << " " << q << " " << rho;
      EXPECT_LE(found, order * rho * (1 + 1e-12));
    }
  }
}

TEST(Rdp, PureIsTheTextbookForm) {
  auto random = freshRandom();
  for (int round = 0; round < 300; ++round) {
    double epsilon = logUniform(random, 1e-3, 8);
    for (int order : kOrders) {
      double found = pureDivergence(order, epsilon);
      EXPECT_LE(found, epsilon);
      if (order * epsilon < 5000) {
        double expected = textbookPure(order, epsilon);
        EXPECT_NEAR(found, expected, 1e-11 * expected + 1e-15) << order << " " << epsilon;
      }
    }
  }
  // Small epsilon: order epsilon^2 / 2 to the leading order.
  expectRelative(pureDivergence(2, 1e-6), 1e-12, 1e-6);
  expectRelative(pureDivergence(16, 1e-100), 8e-200, 1e-6);
}

TEST(Rdp, CostsAreRoundedUp) {
  auto random = freshRandom();
  for (int round = 0; round < 300; ++round) {
    double q = logUniform(random, 1e-9, 1), rho = logUniform(random, 1e-6, 50), epsilon = logUniform(random, 1e-9, 20);
    Charge whole = gaussian(rho), sampled = sampledGaussian(q, rho), exact = pure(epsilon);
    for (size_t k = 0; k < kOrders.size(); ++k) {
      auto expectUp = [](uint64_t units, double divergence) {
        EXPECT_GE(nats(units), divergence);
        EXPECT_LT(nats(units) - divergence, 0x1p-39 + 1e-12 * divergence);
      };
      expectUp(whole.rdp[k], kOrders[k] * rho);
      expectUp(sampled.rdp[k], sampledGaussianDivergence(kOrders[k], q, rho));
      expectUp(exact.rdp[k], pureDivergence(kOrders[k], epsilon));
    }
    EXPECT_EQ(whole.delta + sampled.delta + exact.delta, 0u);
  }
}

TEST(Rdp, GrowsWithRateAndWithRho) {
  auto random = freshRandom();
  for (int round = 0; round < 200; ++round) {
    double q = logUniform(random, 1e-6, 0.9), rho = logUniform(random, 1e-4, 20);
    Charge base = sampledGaussian(q, rho), denser = sampledGaussian(q * 1.001, rho),
           louder = sampledGaussian(q, rho * 1.001), whole = gaussian(rho), full = sampledGaussian(1, rho);
    EXPECT_EQ(full, whole);
    for (size_t k = 0; k < kOrders.size(); ++k) {
      EXPECT_LE(base.rdp[k], denser.rdp[k]);
      EXPECT_LE(base.rdp[k], louder.rdp[k]);
      EXPECT_LE(base.rdp[k], whole.rdp[k]);
    }
  }
}

TEST(Rdp, OneBatchForTwoNoisesCostsMoreThanTwoBatches) {
  // Amplified apart the two would cost far too little: rho is summed before the sampling.
  double q = 0.01, rho = 2;
  Charge together = sampledGaussian(q, 2 * rho), apart = sampledGaussian(q, rho) + sampledGaussian(q, rho);
  EXPECT_GT(nats(together.rdp[0]), 20 * nats(apart.rdp[0]));
}

TEST(Rdp, NothingCostsNothing) {
  EXPECT_EQ(gaussian(0), Charge());
  EXPECT_EQ(sampledGaussian(0, 3), Charge());
  EXPECT_EQ(sampledGaussian(0, 0), Charge());
  EXPECT_EQ(sampledGaussian(0.5, 0), Charge());
  EXPECT_EQ(sampledGaussian(1, 0), Charge());
  EXPECT_EQ(pure(0), Charge());
  EXPECT_EQ(failure(0), Charge());
}

TEST(Rdp, TheLeastCostsAUnit) {
  const double tiny = std::numeric_limits<double>::denorm_min();
  for (const Charge &charge : {gaussian(tiny), sampledGaussian(tiny, 0.1), sampledGaussian(0.5, tiny), pure(tiny)}) {
    for (uint64_t cost : charge.rdp) {
      EXPECT_EQ(cost, 1u);
    }
  }
  EXPECT_EQ(failure(tiny).delta, 1u);
}

TEST(Rdp, TheGreatestSaturates) {
  for (double rho : {1e9, 1e300, std::numeric_limits<double>::max(), kInfinity}) {
    EXPECT_TRUE(saturated(gaussian(rho))) << rho;
    EXPECT_TRUE(saturated(sampledGaussian(1, rho))) << rho;
    EXPECT_TRUE(saturated(sampledGaussian(1e-6, rho))) << rho;
  }
  EXPECT_TRUE(saturated(pure(1e8)));
  EXPECT_TRUE(saturated(pure(kInfinity)));
  EXPECT_EQ(failure(1).delta, UINT64_MAX);
  EXPECT_TRUE(saturated(UINT64_MAX * gaussian(1e6)));
  EXPECT_TRUE(saturated(gaussian(1e9) + gaussian(1)));
}

TEST(Rdp, WhatIsOutOfRangeCostsTheMaximum) {
  for (double bad : {-1.0, -1e-300, -kInfinity, kNan}) {
    EXPECT_TRUE(saturated(gaussian(bad))) << bad;
    EXPECT_TRUE(saturated(pure(bad))) << bad;
    EXPECT_TRUE(saturated(sampledGaussian(bad, 1))) << bad;
    EXPECT_TRUE(saturated(sampledGaussian(0.5, bad))) << bad;
    EXPECT_EQ(failure(bad).delta, UINT64_MAX) << bad;
  }
  EXPECT_TRUE(saturated(sampledGaussian(1.0000001, 1)));
  EXPECT_EQ(failure(1.0000001).delta, UINT64_MAX);
}

TEST(Rdp, FailuresAreRoundedUp) {
  EXPECT_EQ(failure(0x1p-60).delta, 16u);
  EXPECT_EQ(failure(0x1p-60 * (1 + 0x1p-52)).delta, 17u);
  EXPECT_EQ(failure(0x1p-100).delta, 1u);
  EXPECT_EQ(failure(0.5).delta, uint64_t{1} << 63);
}

} // namespace

} // namespace sojourn::privacy::test
