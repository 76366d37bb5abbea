// SPDX-License-Identifier: Apache-2.0
// Plans for a price and prices of plans: each the other's inverse, monotone, above what is possible
// (the exact trade-off of a Gaussian), and every refusal's text.
#include "runtime/privacy/Plan.h"

#include "runtime/privacy/Rdp.h"
#include "runtime/privacy/Tail.h"
#include "test/runtime/privacy/Support.h"

#include <chrono>
#include <limits>

namespace sojourn::privacy::test {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The exact delta of one Gaussian release at epsilon (Balle and Wang 2018): an oracle from below.
double exactDelta(double sigma, double epsilon, double sensitivity = 1) {
  auto phi = [](long double x) { return erfcl(-x / sqrtl(2)) / 2; };
  long double half = sensitivity / (2 * sigma), shift = epsilon * sigma / sensitivity;
  return static_cast<double>(phi(half - shift) - expl(epsilon) * phi(-half - shift));
}

/// The argument in [low, high] where a falling function reaches a value.
template <typename Function>
double whereFalling(Function function, double value, double low, double high) {
  for (int round = 0; round < 200; ++round) {
    double middle = (low + high) / 2;
    (function(middle) > value ? low : high) = middle;
  }
  return high;
}

double exactSigma(double epsilon, double delta, double sensitivity) {
  return whereFalling([&](double sigma) { return exactDelta(sigma, epsilon, sensitivity); }, delta, 1e-3, 1e4);
}

double exactEpsilon(double sigma, double delta) {
  return whereFalling([&](double epsilon) { return exactDelta(sigma, epsilon); }, delta, 0, 100);
}

template <typename T>
T valueOf(const Checked<T> &checked) {
  EXPECT_TRUE(checked) << checked.error();
  return checked ? *checked : T{};
}

TrainingPlan planOf(int64_t rows, int64_t size, uint64_t steps) {
  double rate = valueOf(samplingRate(rows, size));
  return {rate, steps, overflowMass(rows, rate, valueOf(capacityFor(size))), /*extraFailure=*/1e-24};
}

TrainingPlan randomPlan(std::mt19937_64 &random) {
  int64_t rows = static_cast<int64_t>(logUniform(random, 100, 1e6));
  int64_t size = static_cast<int64_t>(logUniform(random, 4, static_cast<double>(rows)));
  return planOf(rows, size, static_cast<uint64_t>(logUniform(random, 1, 20000)));
}

TEST(Plan, OracleOfTheExactGaussian) {
  expectRelative(exactSigma(0.1, 1e-5, 1), 30.749566131977, 1e-9);
  expectRelative(exactSigma(0.5, 1e-6, 1), 8.057618480725, 1e-9);
  expectRelative(exactSigma(0.5, 1e-7, 1), 8.9956815309, 1e-9);
  expectRelative(exactSigma(1, 1e-5, 1), 3.7306316348159, 1e-9);
  expectRelative(exactSigma(1, 1e-5, 3), 3 * 3.7306316348159, 1e-9);
  expectRelative(exactDelta(1, 1), 0.12693673750664, 1e-9);
  expectRelative(exactDelta(0.5, 2), 0.33189799877683, 1e-9);
  expectRelative(exactDelta(4, 0.1), 0.060337166358103, 1e-9);
  expectRelative(exactEpsilon(1, 1e-5), 4.3771780956812, 1e-9);
  expectRelative(exactEpsilon(0.5, 1e-6), 10.997151214221, 1e-9);
  expectRelative(exactEpsilon(5, 1e-5), 0.7255217508578, 1e-9);
}

TEST(Plan, OneGaussianCostsMoreThanItsExactEpsilonButNotMuch) {
  auto random = freshRandom();
  for (int round = 0; round < 200; ++round) {
    double sigma = logUniform(random, 0.5, 20), delta = logUniform(random, 1e-8, 1e-4);
    double exact = exactEpsilon(sigma, delta), price = smallestEpsilon(gaussian(0.5 / (sigma * sigma)), delta);
    EXPECT_GE(price, exact);
    EXPECT_LE(price, 1.35 * exact + 0.01) << sigma << " " << delta;
    double rho = valueOf(gaussianRhoFor({exact, delta}));
    EXPECT_LE(rho, 0.5 / (sigma * sigma)) << "less noise than the exact mechanism needs";
  }
}

TEST(Plan, ByThemselvesRunsCostTheBestOfAllOrders) {
  auto random = freshRandom();
  for (int round = 0; round < 20; ++round) {
    TrainingPlan plan = randomPlan(random);
    double noise = logUniform(random, 0.5, 20), delta = logUniform(random, 1e-9, 1e-4), rho = 0.5 / (noise * noise);
    double least = kInfinity, left = delta - static_cast<double>(plan.steps) * (plan.overflow + plan.extraFailure);
    for (int order = 2; order <= 1024; ++order) {
      double divergence = static_cast<double>(plan.steps) * sampledGaussianDivergence(order, plan.rate, rho);
      double implied = divergence + std::log1p(-1.0 / order) - (std::log(left) + std::log(order)) / (order - 1);
      least = std::min(least, implied);
    }
    double found = valueOf(plannedEpsilonOf(plan, noise, delta));
    EXPECT_NEAR(found, std::max(least, 0.0), 1e-9 * found + 1e-12) << "all orders, one by one";
    EXPECT_LE(found, valueOf(epsilonOf(plan, noise, delta)) * (1 + 1e-12));
    // Two kinds of steps, as runs have whose first step differs.
    double both = plannedEpsilon({{plan.rate, rho, 1}, {plan.rate, rho, plan.steps - 1}}, 0, delta);
    EXPECT_NEAR(both, plannedEpsilon({{plan.rate, rho, plan.steps}}, 0, delta), 1e-9 * both + 1e-12);
  }
  EXPECT_EQ(plannedEpsilon({}, 0, 1e-5), 0);
  EXPECT_EQ(plannedEpsilon({{0.5, 1, 0}, {0.5, 0, 9}}, 0, 1e-5), 0);
  EXPECT_EQ(plannedEpsilon({{0.5, 1, 1}}, 1e-5, 1e-5), kInfinity) << "failures leave nothing of delta";
  EXPECT_EQ(plannedEpsilon({{0.5, 1, 1}}, 0, 0), kInfinity);
  EXPECT_EQ(plannedEpsilon({{0.5, 1, 1}}, 0, std::nan("")), kInfinity);
  EXPECT_EQ(plannedEpsilon({{0.5, -1, 1}}, 0, 1e-5), kInfinity);
}

TEST(Plan, AMillionStepsFitAGrantOfEight) {
  TrainingPlan plan{1e-5, 1'000'000, 0x1p-60, 0x1p-70};
  Charge total = valueOf(planCharge(plan, 0.5));
  EXPECT_EQ(total.rdp.back(), kLost);
  EXPECT_FALSE(isLost(total));
  EXPECT_TRUE((*Filter::of({8, 1e-6})).admits(total));
  double epsilon = valueOf(epsilonOf(plan, 0.5, 1e-6));
  EXPECT_LT(epsilon, 3.3);
  EXPECT_GT(epsilon, valueOf(plannedEpsilonOf(plan, 0.5, 1e-6)));
  EXPECT_LT(valueOf(noiseMultiplierFor({8, 1e-6}, plan)), 0.5);
}

TEST(Plan, NoiseForAPriceAndPriceOfANoise) {
  auto random = freshRandom();
  for (int round = 0; round < 60; ++round) {
    Grant grant{logUniform(random, 0.2, 10), logUniform(random, 1e-8, 1e-4)};
    TrainingPlan plan = randomPlan(random);
    double noise = valueOf(noiseMultiplierFor(grant, plan));
    EXPECT_TRUE((*Filter::of(grant)).admits(valueOf(planCharge(plan, noise))));
    EXPECT_FALSE((*Filter::of(grant)).admits(valueOf(planCharge(plan, noise * (1 - 1e-6)))));
    double epsilon = valueOf(epsilonOf(plan, noise, grant.delta));
    EXPECT_LE(epsilon, grant.epsilon);
    EXPECT_GE(epsilon, grant.epsilon * (1 - 2e-4)) << "most of the grant is used";
  }
}

TEST(Plan, NoiseIsMonotone) {
  auto random = freshRandom();
  for (int round = 0; round < 30; ++round) {
    Grant grant{logUniform(random, 0.2, 10), logUniform(random, 1e-8, 1e-4)};
    TrainingPlan plan = randomPlan(random), longer = plan, denser = plan;
    longer.steps += 1 + plan.steps / 10;
    denser.rate = std::min(1.0, plan.rate * 1.1);
    const double close = 1 + 2e-7; // noise is found to 1e-7
    double noise = valueOf(noiseMultiplierFor(grant, plan));
    EXPECT_LE(valueOf(noiseMultiplierFor({grant.epsilon * 1.1, grant.delta}, plan)), noise * close);
    EXPECT_LE(valueOf(noiseMultiplierFor({grant.epsilon, grant.delta * 1.5}, plan)), noise * close);
    EXPECT_GE(valueOf(noiseMultiplierFor(grant, longer)) * close, noise);
    EXPECT_GE(valueOf(noiseMultiplierFor(grant, denser)) * close, noise);
    double epsilon = valueOf(epsilonOf(plan, noise, grant.delta));
    EXPECT_GE(valueOf(epsilonOf(plan, noise * 0.9, grant.delta)), epsilon);
    EXPECT_GE(valueOf(epsilonOf(longer, noise, grant.delta)), epsilon);
    EXPECT_GE(valueOf(epsilonOf(denser, noise, grant.delta)), epsilon);
  }
}

TEST(Plan, AShorterRunOfTheSamePlanCostsLess) {
  TrainingPlan plan = planOf(455, 64, 160);
  double noise = valueOf(noiseMultiplierFor({3, 1e-5}, plan)), before = 0;
  for (uint64_t steps : {uint64_t{1}, uint64_t{10}, uint64_t{80}, uint64_t{160}}) {
    plan.steps = steps;
    double epsilon = valueOf(epsilonOf(plan, noise, 1e-5));
    EXPECT_GT(epsilon, before);
    before = epsilon;
  }
  EXPECT_LE(before, 3);
  plan.steps = 161;
  EXPECT_GT(valueOf(epsilonOf(plan, noise, 1e-5)), 3) << "one step beyond the plan is too many";
}

TEST(Plan, AStepsChargeIsItsParts) {
  TrainingPlan plan{0.01, 1, 0x1p-61, 0x1p-100};
  Charge step = valueOf(stepCharge(plan, 2));
  EXPECT_EQ(step.delta, 8u + 1u);
  plan.steps = 1000;
  EXPECT_EQ(valueOf(planCharge(plan, 2)), uint64_t{1000} * step);
  for (size_t k = 0; k < kOrders.size(); ++k) {
    EXPECT_GE(step.rdp[k], sampledGaussian(0.01, 0.125).rdp[k]);
    EXPECT_LE(step.rdp[k], sampledGaussian(0.01, 0.125).rdp[k] + 1);
  }
}

TEST(Plan, SingleReleasesUseTheWholeGrant) {
  auto random = freshRandom();
  for (int round = 0; round < 100; ++round) {
    Grant grant{logUniform(random, 0.05, 20), logUniform(random, 1e-8, 1e-4)};
    double rho = valueOf(gaussianRhoFor(grant)), epsilon = valueOf(pureEpsilonFor(grant));
    EXPECT_LE(smallestEpsilon(gaussian(rho), grant.delta), grant.epsilon);
    EXPECT_GT(smallestEpsilon(gaussian(rho * (1 + 1e-7)), grant.delta), grant.epsilon - 1e-8);
    EXPECT_LE(smallestEpsilon(pure(epsilon), grant.delta), grant.epsilon);
    EXPECT_GT(smallestEpsilon(pure(epsilon * (1 + 1e-6)), grant.delta), grant.epsilon - 1e-8);
    EXPECT_GT(epsilon, grant.epsilon * 0.8 - 0.025);
  }
}

TEST(Plan, SearchesAreFast) {
  TrainingPlan plan = planOf(60000, 256, 14062);
  auto start = std::chrono::steady_clock::now();
  valueOf(noiseMultiplierFor({3, 1e-5}, plan));
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  RecordProperty("noise_us", static_cast<int>(seconds * 1e6));
  EXPECT_LT(seconds, 0.2);
}

TEST(Plan, EndsOfTheRange) {
  TrainingPlan plan{1, 1, 0, 0};
  EXPECT_GE(valueOf(noiseMultiplierFor({kEpsilonMax, 1e-5}, plan)), kNoiseMin);
  EXPECT_LT(valueOf(noiseMultiplierFor({kEpsilonMax, 1e-5}, plan)), 0.002);
  EXPECT_EQ(valueOf(epsilonOf({1, kStepsMax, 0, 0}, kNoiseMin, 1e-5)), kInfinity);
  EXPECT_GT(valueOf(noiseMultiplierFor({0.05, 1e-9}, {1, 1000000, 0, 0})), 1000);
  EXPECT_LT(valueOf(epsilonOf(plan, kNoiseMax, 1e-5)), 0.02);
}

TEST(Plan, RefusesWhatCannotBePlanned) {
  TrainingPlan plan{0.01, 1000, 0, 0};
  auto noiseError = [](const Grant &grant, const TrainingPlan &wrong) {
    return noiseMultiplierFor(grant, wrong).error();
  };
  auto expectText = [](const std::string &error, const char *begin, const char *part) {
    EXPECT_EQ(error.rfind(begin, 0), 0u) << error;
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  for (double bad : {0.0, -1.0, kInfinity, std::nan("")}) {
    expectText(noiseError({bad, 1e-5}, plan), "epsilon is ", "expected a number above 0");
    expectText(noiseError({1, bad}, plan), "delta is ", "expected a number above 0 and below 1");
    expectText(noiseError({1, 1e-5}, {bad, 10, 0, 0}), "the sampling rate is ", "above 0 and at most 1");
    expectText(stepCharge(plan, bad).error(), "the noise multiplier is ", "expected a number between");
    expectText(planCharge(plan, bad).error(), "the noise multiplier is ", "expected a number between");
    expectText(epsilonOf(plan, bad, 1e-5).error(), "the noise multiplier is ", "usual");
    expectText(plannedEpsilonOf(plan, bad, 1e-5).error(), "the noise multiplier is ", "usual");
    expectText(plannedEpsilonOf(plan, 1, bad).error(), "delta is ", "expected");
    expectText(epsilonOf(plan, 1, bad).error(), "delta is ", "expected");
    expectText(gaussianRhoFor({bad, 1e-5}).error(), "epsilon is ", "expected");
    expectText(pureEpsilonFor({1, bad}).error(), "delta is ", "expected");
  }
  expectText(noiseError({1, 1e-5}, {0.01, 0, 0, 0}), "the plan has 0 steps", "between 1 and 2^40");
  for (double bad : {-1e-9, 1.5, std::nan("")}) {
    expectText(noiseError({1, 1e-5}, {0.01, 1, bad, 0}), "the probabilities of failure", "between 0 and 1");
    expectText(noiseError({1, 1e-5}, {0.01, 1, 0, bad}), "the probabilities of failure", "between 0 and 1");
  }
  // An epsilon that not even order 1024 can show, and the one that it can.
  std::string error = noiseError({0.001, 1e-5}, plan);
  expectText(error, "epsilon is 0.001, expected at least ", "ask for a larger epsilon or delta");
  double least = std::strtod(error.c_str() + error.find("at least ") + 9, nullptr);
  EXPECT_TRUE(noiseMultiplierFor({least * 1.001, 1e-5}, plan));
  EXPECT_FALSE(noiseMultiplierFor({least * 0.999, 1e-5}, plan));
  expectText(gaussianRhoFor({0.001, 1e-5}).error(), "epsilon is 0.001, expected at least ", "delta 1e-05");
  expectText(pureEpsilonFor({0.001, 1e-5}).error(), "epsilon is 0.001, expected at least ", "delta 1e-05");
  EXPECT_EQ(noiseError({1, 1e-5}, {0.01, 1000, 1e-7, 0}), "the releases fail with probability 0.0001, expected at most "
                                                          "6.25e-07, which is 0.0625 of delta 1e-05; plan fewer "
                                                          "steps or ask for a larger delta");
}

} // namespace

} // namespace sojourn::privacy::test
