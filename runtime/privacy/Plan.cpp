// SPDX-License-Identifier: Apache-2.0
// Searches over noise: every cost falls as noise grows, and the filter admits less cost wherever it
// admits more, so bisection finds the boundary. What is returned was admitted itself.
#include "runtime/privacy/Plan.h"

#include "runtime/privacy/Rdp.h"
#include "runtime/privacy/Text.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sojourn::privacy {

static bool isProbability(double value) { return value >= 0 && value <= 1; }

static std::string planError(const TrainingPlan &plan) {
  if (!(plan.rate > 0 && plan.rate <= 1)) {
    return "the sampling rate is " + shortText(plan.rate) +
           ", expected a number above 0 and at most 1: the expected batch size over the number of rows";
  }
  if (plan.steps < 1 || plan.steps > kStepsMax) {
    return "the plan has " + std::to_string(plan.steps) +
           " steps, expected between 1 and 2^40: epochs times the rows over the batch size";
  }
  if (!isProbability(plan.overflow) || !isProbability(plan.extraFailure)) {
    return "the probabilities of failure per step are " + shortText(plan.overflow) + " and " +
           shortText(plan.extraFailure) + ", expected numbers between 0 and 1";
  }
  return "";
}

/// Raised above the rounding of two operations.
static double rhoOf(double noiseMultiplier) { return 0.5 / (noiseMultiplier * noiseMultiplier) * (1 + 0x1p-50); }

Checked<Charge> stepCharge(const TrainingPlan &plan, double noiseMultiplier) {
  if (std::string error = planError(plan); !error.empty()) {
    return Invalid{error};
  }
  if (!(noiseMultiplier >= kNoiseMin && noiseMultiplier <= kNoiseMax)) {
    return Invalid{"the noise multiplier is " + shortText(noiseMultiplier) + ", expected a number between " +
                   shortText(kNoiseMin) + " and " + shortText(kNoiseMax) + "; between 0.5 and 10 is usual"};
  }
  return sampledGaussian(plan.rate, rhoOf(noiseMultiplier)) + failure(plan.overflow) + failure(plan.extraFailure);
}

Checked<Charge> planCharge(const TrainingPlan &plan, double noiseMultiplier) {
  Checked<Charge> step = stepCharge(plan, noiseMultiplier);
  if (!step) {
    return step;
  }
  return plan.steps * *step;
}

Checked<double> epsilonOf(const TrainingPlan &plan, double noiseMultiplier, double delta) {
  Checked<Charge> total = planCharge(plan, noiseMultiplier);
  if (!total) {
    return Invalid{total.error()};
  }
  if (std::string error = grantError({/*epsilon=*/1, delta}); !error.empty()) {
    return Invalid{error};
  }
  return smallestEpsilon(*total, delta);
}

// What an order implies falls and then grows with it: epsilon is at least what is implied iff
// (a-1) R_a + (a-1) log(a-1) - a log a - log(delta) - (a-1) epsilon <= 0, which is convex in a. So the best order is
// next to the best of kOrders, and neighbours tell on which side.
double plannedEpsilon(const std::vector<PlannedSteps> &steps, double failures, double delta) {
  double left = delta > 0 && delta < 1 ? delta - failures : 0;
  if (!(left > 0)) {
    return std::numeric_limits<double>::infinity();
  }
  if (std::all_of(steps.begin(), steps.end(), [](const PlannedSteps &each) { return each.rho == 0 || !each.count; })) {
    return 0;
  }
  double logDelta = std::log(left);
  auto implied = [&](int order) {
    double divergence = 0;
    for (const PlannedSteps &each : steps) {
      divergence += static_cast<double>(each.count) * sampledGaussianDivergence(order, each.rate, each.rho);
    }
    return epsilonAtOrder(order, divergence * (1 + 0x1p-45), logDelta);
  };
  size_t best = 0;
  double least = implied(kOrders[0]);
  for (size_t k = 1; k < kOrders.size(); ++k) {
    if (double epsilon = implied(kOrders[k]); epsilon < least) {
      least = epsilon;
      best = k;
    }
  }
  int low = kOrders[best > 0 ? best - 1 : 0], high = kOrders[std::min(best + 1, kOrders.size() - 1)];
  while (low < high) {
    int middle = low + (high - low) / 2;
    double here = implied(middle), next = implied(middle + 1);
    least = std::min({least, here, next});
    here <= next ? high = middle : low = middle + 1;
  }
  return std::max(least, 0.0);
}

Checked<double> plannedEpsilonOf(const TrainingPlan &plan, double noiseMultiplier, double delta) {
  if (Checked<Charge> step = stepCharge(plan, noiseMultiplier); !step) {
    return Invalid{step.error()};
  }
  if (std::string error = grantError({/*epsilon=*/1, delta}); !error.empty()) {
    return Invalid{error};
  }
  double failures = static_cast<double>(plan.steps) * (plan.overflow + plan.extraFailure);
  return plannedEpsilon({{plan.rate, rhoOf(noiseMultiplier), plan.steps}}, failures, delta);
}

/// Why a grant does not admit even `least`, the cost of the same releases under the most noise.
static Invalid tooSmall(const Grant &grant, const Charge &least) {
  Charge divergence = least;
  divergence.delta = 0;
  if (double failures = std::ldexp(static_cast<double>(least.delta), -64);
      least.delta > 0 && smallestEpsilon(least, grant.delta) > kEpsilonMax &&
      smallestEpsilon(divergence, grant.delta) <= kEpsilonMax) {
    return {"the releases fail with probability " + shortText(failures) + ", expected at most " +
            shortText(kFailureShare * grant.delta) + ", which is " + shortText(kFailureShare) + " of delta " +
            shortText(grant.delta) + "; plan fewer steps or ask for a larger delta"};
  }
  return {"epsilon is " + shortText(grant.epsilon) + ", expected at least " +
          shortText(smallestEpsilon(divergence, grant.delta)) + " at delta " + shortText(grant.delta) +
          ", the smallest that can be proved for these releases with any noise; ask for a larger epsilon or delta"};
}

Checked<double> noiseMultiplierFor(const Grant &grant, const TrainingPlan &plan) {
  Checked<Filter> filter = Filter::of(grant);
  if (!filter) {
    return Invalid{filter.error()};
  }
  Checked<Charge> least = planCharge(plan, kNoiseMax);
  if (!least) {
    return Invalid{least.error()};
  }
  if (!filter->admits(*least)) {
    return tooSmall(grant, *least);
  }
  auto admitted = [&](double noise) { return filter->admits(*planCharge(plan, noise)); };
  double enough = 1;
  while (!admitted(enough)) {
    enough *= 2; // ends at kNoiseMax, a power of two
  }
  while (enough > kNoiseMin && admitted(enough / 2)) {
    enough /= 2;
  }
  double refused = std::max(enough / 2, kNoiseMin);
  while (enough - refused > 1e-7 * refused) {
    double middle = refused + (enough - refused) / 2;
    (admitted(middle) ? enough : refused) = middle;
  }
  return enough;
}

/// The greatest positive argument of a cost that grows with it and that the grant admits, to 2^-40.
static Checked<double> greatest(const Grant &grant, Charge (*cost)(double)) {
  Checked<Filter> filter = Filter::of(grant);
  if (!filter) {
    return Invalid{filter.error()};
  }
  double admitted = 0x1p-60, refused = 2 * kEpsilonMax;
  if (!filter->admits(cost(admitted))) {
    return tooSmall(grant, cost(admitted));
  }
  while (refused - admitted > 0x1p-40 * admitted) {
    double middle = refused > 4 * admitted ? std::sqrt(admitted * refused) : admitted + (refused - admitted) / 2;
    (filter->admits(cost(middle)) ? admitted : refused) = middle;
  }
  return admitted;
}

Checked<double> gaussianRhoFor(const Grant &grant) { return greatest(grant, gaussian); }
Checked<double> pureEpsilonFor(const Grant &grant) { return greatest(grant, pure); }

} // namespace sojourn::privacy
