// SPDX-License-Identifier: Apache-2.0
// An audit of what a sum over a part of the slots gives away of one row: with drawn rows in front, as they lay once,
// more than a sampled Gaussian does, which is what is charged; with rows in random slots no more.
#include "test/runtime/privacy/PoissonSupport.h"

#include <array>

namespace sojourn::privacy::test {

namespace {

/// Every row is 1; row 0 is -1, or null, which reads 0 as an empty slot does. Released is the sum over the first 40
/// slots with noise of deviation 1, so that a row moves it by 1 deviation, in the slots that are summed.
constexpr int64_t kRows = 1000, kExpected = 64, kCapacity = 160, kSummed = 40;

/// The events "below t" and "not below t" for t = -10, -9.5, ..., 50: fixed before anything is drawn.
constexpr size_t kThresholds = 121;
constexpr double kFirst = -10, kStep = 0.5;

/// delta at epsilon = 1 is at least what a bound says but with probability 1e-10: two kinds of events, in two
/// directions, with two rates each.
constexpr double kEpsilon = 1, kLevelOfRate = 1e-10 / (8 * kThresholds);

/// Chernoff's bound of a rate, as a proof rather than a quantile: P[Binomial(n, p) >= k] is at most exp(-n KL(k/n, p))
/// for p < k/n, and likewise below.
double rateBound(int64_t hits, int64_t runs, bool isLower) {
  const double rate = static_cast<double>(hits) / static_cast<double>(runs);
  auto far = [&](double p) {
    double divergence = rate > 0 ? rate * std::log(rate / p) : 0;
    divergence += rate < 1 ? (1 - rate) * std::log((1 - rate) / (1 - p)) : 0;
    return static_cast<double>(runs) * divergence >= -std::log(kLevelOfRate);
  };
  // What is excluded lies outside of [close, end].
  double close = rate, end = isLower ? 0 : 1;
  for (int k = 0; k < 100; ++k) {
    const double middle = (close + end) / 2;
    (far(middle) ? end : close) = middle;
  }
  return end;
}

/// How often a release fell below each threshold; the last cell has the others.
class Releases {
public:
  void add(double value) {
    const double cell = std::floor((value - kFirst) / kStep) + 1;
    ++cells[static_cast<size_t>(std::clamp(cell, 0.0, static_cast<double>(kThresholds)))];
    ++runs;
  }

  /// The largest lower bound of delta at epsilon = 1, whichever of both is the first of the pair.
  static double deltaOf(const Releases &one, const Releases &two) {
    double most = 0;
    int64_t below[2] = {0, 0};
    for (size_t t = 0; t < kThresholds; ++t) {
      below[0] += one.cells[t];
      below[1] += two.cells[t];
      for (bool isBelow : {true, false}) {
        const int64_t hits[2] = {isBelow ? below[0] : one.runs - below[0], isBelow ? below[1] : two.runs - below[1]};
        for (int first : {0, 1}) {
          most = std::max(most, rateBound(hits[first], one.runs, true) -
                                    std::exp(kEpsilon) * rateBound(hits[1 - first], two.runs, false));
        }
      }
    }
    return most;
  }

private:
  /// Cell t: values in [t - 1, t) of the thresholds.
  std::array<int64_t, kThresholds + 1> cells{};
  int64_t runs = 0;
};

double normalAbove(double x) { return std::erfc(x / std::sqrt(2.0)) / 2; }

/// delta at epsilon = 1 of a Gaussian of deviation 1 on the sum of a Poisson sample of rate q where a row moves by 1,
/// exactly: (1 - q) N(0) + q N(1) against N(0), and the other way round. Where the ratio of densities passes e^epsilon.
double claimedDelta(double q) {
  const double factor = std::exp(kEpsilon);
  double x = std::log((factor - 1 + q) / q) + 0.5;
  const double added = (1 - q) * normalAbove(x) + q * normalAbove(x - 1) - factor * normalAbove(x);
  double removed = 0;
  if (1 / factor > 1 - q) {
    x = std::log((1 / factor - 1 + q) / q) + 0.5;
    removed = normalAbove(-x) - factor * ((1 - q) * normalAbove(-x) + q * normalAbove(1 - x));
  }
  return std::max(added, removed);
}

double partOf(const std::vector<int64_t> &slots, double valueOfRow) {
  double sum = 0;
  for (size_t slot = 0; slot < kSummed; ++slot) {
    sum += slots[slot] > 0 ? 1 : slots[slot] == 0 ? valueOfRow : 0;
  }
  return sum;
}

} // namespace

TEST(PlacementAudit, BoundsOfRates) {
  // Above the deviations of the normal distribution for that level (7.5), and not by much; the ends exactly.
  const double deviation = std::sqrt(0.01 * 0.99 / 1e6), far = std::sqrt(-2 * std::log(kLevelOfRate));
  EXPECT_NEAR((0.01 - rateBound(10000, 1000000, true)) / deviation, far, 0.5);
  EXPECT_NEAR((rateBound(10000, 1000000, false) - 0.01) / deviation, far, 0.5);
  EXPECT_EQ(rateBound(0, 1000, true), 0);
  EXPECT_EQ(rateBound(1000, 1000, false), 1);
  EXPECT_NEAR(rateBound(0, 1000, false), 1 - std::pow(kLevelOfRate, 1e-3), 1e-12);
  EXPECT_NEAR(claimedDelta(0.064), 3.5e-5, 1e-6);
}

TEST(PlacementAudit, RandomSlotsHideARow) {
  // In front, "below 36.5" has rates of 2.98e-3 and 5.5e-4, so that delta is 1.48e-3. The bound from 10^6 runs is 5e-4
  // with a deviation below 9e-5, and 3.5e-5 is claimed: it misses less than once in 10^6 runs. False alarms: 1e-10.
  constexpr int64_t kRuns = 1000000;
  std::mt19937_64 random(freshSeed());
  const Coins coins = Coins::forTests(freshSeed());
  auto draw = planned(kRows, kExpected, kCapacity);
  std::normal_distribution<double> normal;
  // Of one draw both placements and both tables: a bound of a rate does not ask whether others share its runs.
  Releases ours[2], front[2];
  std::vector<int64_t> slots(kCapacity);
  for (int64_t run = 0; run < kRuns; ++run) {
    draw.draw(coins, static_cast<uint32_t>(run), slots);
    const double noise = normal(random);
    ours[0].add(partOf(slots, -1) + noise);
    ours[1].add(partOf(slots, 0) + noise);
    moveToFront(slots);
    front[0].add(partOf(slots, -1) + noise);
    front[1].add(partOf(slots, 0) + noise);
  }
  const double claimed = claimedDelta(draw.probability());
  const double inFront = Releases::deltaOf(front[0], front[1]), inRandom = Releases::deltaOf(ours[0], ours[1]);
  std::cout << "delta at epsilon 1: " << claimed << " claimed, at least " << inFront << " in front, at least "
            << inRandom << " in random slots" << std::endl;
  EXPECT_GT(inFront, claimed) << "the audit sees what it is for";
  EXPECT_LE(inRandom, claimed);
}

} // namespace sojourn::privacy::test
