// SPDX-License-Identifier: Apache-2.0
// The filter: thresholds of single orders and the condition for all of them by the formulas of the proof, on a dense
// grid that no weight falls too fast as a grant grows, and what follows from that for any list of charges.
#include "runtime/privacy/Filter.h"

#include "runtime/privacy/Rdp.h"
#include "test/runtime/privacy/Support.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

namespace sojourn::privacy::test {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Weights = std::array<double, kOrders.size()>;
using WeightFunction = std::function<Weights(const Grant &)>;

/// The divergence that implies (epsilon, weight * delta)-DP; in long double, and may be negative.
long double divergenceFor(const Grant &grant, int order, double weight) {
  long double a = order;
  return grant.epsilon - logl((a - 1) / a) + (logl(weight * static_cast<long double>(grant.delta)) + logl(a)) / (a - 1);
}

/// The least slope over a dense grid of grants: in epsilon, and in log(delta) times (order - 1).
struct Slopes {
  long double epsilon = 1e9L, delta = 1e9L;
};

Slopes leastSlopes(const WeightFunction &weights) {
  Slopes least;
  auto visit = [&](const Grant &low, const Grant &high, long double &slope, bool perDelta) {
    Weights before = weights(low), after = weights(high);
    for (size_t k = 0; k < kOrders.size(); ++k) {
      long double rise = divergenceFor(high, kOrders[k], after[k]) - divergenceFor(low, kOrders[k], before[k]);
      long double run = perDelta ? logl(high.delta / low.delta) / (kOrders[k] - 1) : high.epsilon - low.epsilon;
      slope = std::min(slope, rise / run);
    }
  };
  for (double logDelta = std::log(1e-12); logDelta < std::log(1.1e-3); logDelta += std::log(10.0) / 4) {
    for (double epsilon = 0.001; epsilon < 50; epsilon *= 1.003) {
      visit({epsilon, std::exp(logDelta)}, {epsilon * 1.003, std::exp(logDelta)}, least.epsilon, false);
    }
  }
  for (double epsilon = 0.001; epsilon < 50; epsilon *= 1.05) {
    for (double logDelta = std::log(1e-12); logDelta < std::log(0.9e-3); logDelta += 0.05) {
      visit({epsilon, std::exp(logDelta)}, {epsilon, std::exp(logDelta + 0.05)}, least.delta, true);
    }
  }
  return least;
}

/// log of Delta sum_a h_a e^((a-1)x) over 1 - e^-x, the least over a fine grid of x: condition (1) of Filter.cpp holds
/// iff it is not negative.
long double leastExcess(const Grant &grant, const Charge &total) {
  Weights weights = orderWeights(grant);
  long double least = 1e9L;
  for (long double x = 9e-4L; x < 1; x *= 1.002L) {
    long double top = -1e9L, sum = 0;
    std::array<long double, kOrders.size()> logs;
    for (size_t k = 0; k < kOrders.size(); ++k) {
      long double slope = kOrders[k] - 1, left = grant.epsilon - ldexpl(static_cast<long double>(total.rdp[k]), -40);
      logs[k] = total.rdp[k] == kLost ? -1e9L : logl(weights[k]) + slope * (left + x);
      top = std::max(top, logs[k]);
    }
    for (long double log : logs) {
      sum += expl(log - top);
    }
    least = std::min(least, top + logl(sum) + logl(static_cast<long double>(grant.delta)) - logl(-expm1l(-x)));
  }
  return least;
}

/// privacy.md's first choice: half to the order whose threshold is the greatest share of its order.
Weights primaryOrder(const Grant &grant) {
  size_t primary = 0;
  long double most = -1e9L;
  for (size_t k = 0; k < kOrders.size(); ++k) {
    if (long double ratio = divergenceFor(grant, kOrders[k], 0.5) / kOrders[k]; ratio > most) {
      most = ratio;
      primary = k;
    }
  }
  Weights weights;
  weights.fill(0.1 / 12);
  weights[primary] = 0.5;
  return weights;
}

Filter filterOf(const Grant &grant) {
  Checked<Filter> filter = Filter::of(grant);
  EXPECT_TRUE(filter) << filter.error();
  return *filter;
}

/// A few charges of all kinds, from hardly anything to much.
std::vector<Charge> randomCharges(std::mt19937_64 &random) {
  std::vector<Charge> charges;
  for (uint64_t count = random() % 4 + 1; count > 0; --count) {
    uint64_t repeated = static_cast<uint64_t>(logUniform(random, 1, 5000));
    switch (random() % 4) {
    case 0: charges.push_back(gaussian(logUniform(random, 1e-5, 3))); break;
    case 1: charges.push_back(pure(logUniform(random, 1e-3, 3))); break;
    case 2: charges.push_back(failure(logUniform(random, 1e-18, 1e-6))); break;
    default: charges.push_back(repeated * sampledGaussian(logUniform(random, 1e-4, 0.3), logUniform(random, 0.03, 2)));
    }
  }
  return charges;
}

Charge sum(const std::vector<Charge> &charges) { return std::accumulate(charges.begin(), charges.end(), Charge()); }

TEST(Filter, ReferenceValueOfOneOrderWithoutSplit) {
  Charge total = uint64_t{14062} * sampledGaussian(256.0 / 60000, 0.5 / (1.1 * 1.1));
  expectRelative(bestOrderEpsilon(total, 1e-5), 2.596981179, 1e-8); // 14,062 costs rounded up to 2^-40
  // The price of the split: 14 % with equal shares.
  EXPECT_LT(smallestEpsilon(total, 1e-5), 2.596981179 * 1.06);
  EXPECT_GT(smallestEpsilon(total, 1e-5), 2.596981179 * 1.01);
}

TEST(Filter, ThresholdsAreTheFormulaRoundedDown) {
  auto random = freshRandom();
  for (int round = 0; round < 1000; ++round) {
    Grant grant{logUniform(random, 1e-4, 200), logUniform(random, 1e-14, 0.5)};
    Weights weights = orderWeights(grant);
    Charge most = filterOf(grant).thresholds();
    EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), kFailureShare), 1, 1e-12);
    for (size_t k = 0; k < kOrders.size(); ++k) {
      EXPECT_GT(weights[k], 0);
      long double bound = std::max(0.0L, divergenceFor(grant, kOrders[k], weights[k]));
      EXPECT_LE(nats(most.rdp[k]), bound);
      EXPECT_GT(nats(most.rdp[k]), bound - 4e-9) << "epsilon in steps of 2^-30";
    }
    double share = kFailureShare * grant.delta, delta = std::ldexp(static_cast<double>(most.delta), -64);
    EXPECT_LE(delta, share);
    EXPECT_GT(delta, share * (1 - 2e-9) - 0x1p-64);
  }
}

TEST(Filter, OrdersAddUpAsTheConditionSays) {
  auto random = freshRandom();
  int together = 0, rounds = 0;
  for (int attempt = 0; attempt < 1500 && rounds < 150; ++attempt) {
    Charge total = sum(randomCharges(random));
    total.rdp[random() % kOrders.size()] = kLost;
    double delta = logUniform(random, 1e-9, 1e-3), epsilon = smallestEpsilon(total, delta);
    if (epsilon < 1e-3 || epsilon == kInfinity) {
      continue;
    }
    ++rounds;
    Filter filter = filterOf({epsilon, delta});
    bool alone = false;
    for (size_t k = 0; k < kOrders.size(); ++k) {
      alone = alone || total.rdp[k] <= filter.thresholds().rdp[k];
    }
    together += !alone;
    // The grid and steps of 2^-30 hide a little.
    Grant enough{epsilon + 1e-5 * epsilon + 1e-8, delta}, less{epsilon - 1e-5 * epsilon - 1e-8, delta};
    EXPECT_GE(leastExcess(enough, total), -1e-9L) << epsilon << " " << delta;
    EXPECT_LT(leastExcess(less, total), 1e-3L) << epsilon << " " << delta;
    EXPECT_TRUE(filterOf(enough).admits(total));
    EXPECT_FALSE(filterOf(less).admits(total));
  }
  EXPECT_EQ(rounds, 150) << "lists without a price";
  EXPECT_GT(together, 100) << "a single order is hardly ever the best";
}

TEST(Filter, LostOrdersAddNothing) {
  auto random = freshRandom();
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    Charge total = sum(randomCharges(random)), before = total;
    double delta = logUniform(random, 1e-9, 1e-3), epsilon = smallestEpsilon(total, delta);
    if (epsilon == 0 || epsilon > 1e3) {
      continue;
    }
    Filter filter = filterOf({epsilon * logUniform(random, 0.99, 1.2), delta});
    for (int count = 0; count < 3; ++count) {
      total.rdp[random() % kOrders.size()] = kLost;
    }
    EXPECT_TRUE(filter.admits(before) || !filter.admits(total));
    refused += filter.admits(before) && !filter.admits(total);
    EXPECT_FALSE(isLost(total));
    total.rdp.fill(kLost);
    EXPECT_TRUE(isLost(total));
    EXPECT_FALSE(filter.admits(total));
  }
  EXPECT_GT(refused, 10) << "the order that mattered, now and then";
}

TEST(Filter, WhatIsLostStaysLost) {
  Charge part = gaussian(1), lost = part;
  lost.rdp[3] = kLost;
  for (const Charge &rest : {lost - part, lost - lost, part - lost, lost + part - part, uint64_t{7} * lost - lost}) {
    EXPECT_EQ(rest.rdp[3], kLost);
    EXPECT_NE(rest.rdp[2], kLost);
  }
  EXPECT_EQ((part + lost - lost).rdp[2], part.rdp[2]);
  EXPECT_EQ(uint64_t{3} * part - part, part + part);
  EXPECT_EQ(uint64_t{0} * lost, Charge()) << "no release costs nothing";
  Charge failing = failure(1);
  EXPECT_EQ((failing - failing).delta, kLost);
  EXPECT_TRUE(isLost(failing));
}

TEST(Filter, ThresholdsNeverFall) {
  Slopes least = leastSlopes(orderWeights);
  EXPECT_GE(least.epsilon, 0.3L);
  EXPECT_GE(least.delta, 0.2L);
  // The check finds what it is for: a primary order that switches makes other thresholds jump down.
  EXPECT_LT(leastSlopes(primaryOrder).epsilon, 0);
}

TEST(Filter, IntegerThresholdsNeverFallByRounding) {
  auto random = freshRandom();
  for (int round = 0; round < 20000; ++round) {
    Grant low{logUniform(random, 1e-4, 1e3), logUniform(random, 1e-13, 0.9)}, high = low;
    // Steps of all sizes, down to the next number.
    if (round % 2 == 0) {
      high.epsilon = std::nextafter(low.epsilon * (1 + logUniform(random, 1e-16, 1e-2)), kInfinity);
    } else {
      high.delta = std::min(0.95, std::nextafter(low.delta * (1 + logUniform(random, 1e-16, 1e-2)), kInfinity));
    }
    Charge before = filterOf(low).thresholds(), after = filterOf(high).thresholds();
    EXPECT_LE(before.delta, after.delta);
    for (size_t k = 0; k < kOrders.size(); ++k) {
      EXPECT_LE(before.rdp[k], after.rdp[k]) << low.epsilon << " " << low.delta << " order " << kOrders[k];
    }
  }
}

TEST(Filter, ALargerGrantAdmitsWhatASmallerAdmits) {
  auto random = freshRandom();
  int admitted = 0;
  for (int round = 0; round < 3000; ++round) {
    Charge total = sum(randomCharges(random));
    Grant small{logUniform(random, 0.01, 30), logUniform(random, 1e-9, 1e-3)};
    Grant large{small.epsilon * logUniform(random, 1, 3), std::min(0.5, small.delta * logUniform(random, 1, 100))};
    bool first = filterOf(small).admits(total);
    admitted += first;
    EXPECT_TRUE(!first || filterOf(large).admits(total));
  }
  EXPECT_GT(admitted, 100);
}

TEST(Filter, SmallestEpsilonIsAdmittedAndNoLess) {
  auto random = freshRandom();
  for (int round = 0; round < 2000; ++round) {
    std::vector<Charge> charges = randomCharges(random);
    Charge total = sum(charges);
    double delta = logUniform(random, 1e-9, 1e-3), epsilon = smallestEpsilon(total, delta);
    std::shuffle(charges.begin(), charges.end(), random);
    EXPECT_EQ(epsilon, smallestEpsilon(sum(charges), delta)) << "whatever the order of charges";
    if (epsilon == 0 || epsilon == kInfinity) {
      EXPECT_EQ(epsilon == kInfinity,
                total.delta > filterOf({1, delta}).thresholds().delta || !filterOf({kEpsilonMax, delta}).admits(total));
      continue;
    }
    EXPECT_TRUE(filterOf({epsilon, delta}).admits(total));
    if (epsilon > 0x1p-30) { // a large delta admits the smallest charges at the least epsilon there is
      EXPECT_FALSE(filterOf({epsilon - 0x1p-30, delta}).admits(total));
    }
    EXPECT_GE(epsilon, bestOrderEpsilon(total, delta) * (1 - 1e-12));
    EXPECT_GE(smallestEpsilon(total + charges.front(), delta), epsilon);
    EXPECT_LE(smallestEpsilon(total, std::min(0.9, 2 * delta)), epsilon);
  }
}

TEST(Filter, AdmitsByTotalsOnly) {
  Filter filter = filterOf({1, 1e-5});
  Charge most = filter.thresholds();
  for (size_t k = 0; k < kOrders.size(); ++k) {
    Charge total;
    total.rdp.fill(UINT64_MAX);
    total.rdp[k] = most.rdp[k];
    EXPECT_TRUE(filter.admits(total)) << "one order is enough";
    total.rdp[k] += 1000; // above the margins of rounding
    EXPECT_FALSE(filter.admits(total));
    total.rdp[k] = most.rdp[k];
    total.delta = most.delta;
    EXPECT_TRUE(filter.admits(total));
    total.delta += 1;
    EXPECT_FALSE(filter.admits(total));
  }
}

TEST(Filter, WhatCostsNothingIsAdmittedAlways) {
  EXPECT_TRUE(filterOf({1e-300, 1e-300}).admits(Charge()));
  EXPECT_TRUE(filterOf({1e-9, 1e-9}).admits(Charge()));
  EXPECT_FALSE(filterOf({1e-9, 1e-9}).admits(gaussian(1e-300)));
  EXPECT_EQ(smallestEpsilon(Charge(), 1e-5), 0);
  EXPECT_EQ(smallestEpsilon(failure(1e-7), 1e-5), 0);
  EXPECT_EQ(bestOrderEpsilon(Charge(), 1e-5), 0);
}

TEST(Filter, WhatIsSaturatedIsNeverAdmitted) {
  Charge rdp, delta;
  rdp.rdp.fill(UINT64_MAX);
  delta.delta = UINT64_MAX;
  for (const Grant &grant : {Grant{kEpsilonMax, std::nextafter(1.0, 0.0)}, Grant{1, 1e-5}}) {
    EXPECT_FALSE(filterOf(grant).admits(rdp));
    EXPECT_FALSE(filterOf(grant).admits(delta));
    EXPECT_EQ(smallestEpsilon(rdp, grant.delta), kInfinity);
    EXPECT_EQ(smallestEpsilon(delta, grant.delta), kInfinity);
    EXPECT_EQ(bestOrderEpsilon(rdp, grant.delta), kInfinity);
  }
  EXPECT_EQ(smallestEpsilon(failure(1e-5), 1e-5), kInfinity);
  EXPECT_EQ(bestOrderEpsilon(gaussian(0.1) + failure(1e-5), 1e-5), kInfinity);
  EXPECT_EQ(smallestEpsilon(gaussian(0.1), 0), kInfinity);
  EXPECT_EQ(smallestEpsilon(gaussian(0.1), std::nan("")), kInfinity);
}

TEST(Filter, BestOrderPaysForFailures) {
  Charge total = gaussian(0.1) + failure(4e-6);
  EXPECT_NEAR(bestOrderEpsilon(total, 1e-5), bestOrderEpsilon(gaussian(0.1), 6e-6), 1e-9);
}

TEST(Filter, BestOrderIsOfAllIntegersByChords) {
  auto random = freshRandom();
  for (int round = 0; round < 300; ++round) {
    double rho = logUniform(random, 1e-5, 10), delta = logUniform(random, 1e-9, 1e-3), exact = kInfinity;
    for (int order = 2; order <= kOrders.back(); ++order) {
      exact = std::min(exact, epsilonAtOrder(order, order * rho, std::log(delta)));
    }
    double grid = kInfinity;
    for (int order : kOrders) {
      grid = std::min(grid, epsilonAtOrder(order, order * rho, std::log(delta)));
    }
    double found = bestOrderEpsilon(gaussian(rho), delta);
    EXPECT_GE(found, std::max(exact, 0.0) * (1 - 1e-9));
    EXPECT_LE(found, std::max(grid, 0.0) * (1 + 1e-9) + 1e-9);
    EXPECT_LE(found, std::max(exact, 0.0) * 1.06 + 1e-3);
  }
}

TEST(Filter, RefusesGrantsThatAreNone) {
  auto errorOf = [](double epsilon, double delta) { return Filter::of({epsilon, delta}).error(); };
  for (double bad : {0.0, -1.0, 2 * kEpsilonMax, kInfinity, -kInfinity, std::nan("")}) {
    EXPECT_NE(errorOf(bad, 1e-5).find("epsilon is "), std::string::npos) << bad;
    EXPECT_FALSE(Filter::of({bad, 1e-5})) << bad;
  }
  for (double bad : {0.0, -1e-5, 1.0, 2.0, kInfinity, std::nan("")}) {
    EXPECT_NE(errorOf(1, bad).find("delta is "), std::string::npos) << bad;
    EXPECT_FALSE(Filter::of({1, bad})) << bad;
  }
  EXPECT_EQ(errorOf(-1, 1e-5), "epsilon is -1, expected a number above 0 and at most 1.04858e+06; between 0.1 and 10 "
                               "is usual");
  EXPECT_EQ(errorOf(1, 1), "delta is 1, expected a number above 0 and below 1; less than one in the number of rows is "
                           "usual, such as 1e-05");
  EXPECT_EQ(errorOf(1, 1e-5), "");
}

} // namespace

} // namespace sojourn::privacy::test
