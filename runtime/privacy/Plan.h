// SPDX-License-Identifier: Apache-2.0
// Prices of what is planned, and plans for a price: training runs and single releases.
#ifndef SOJOURN_RUNTIME_PRIVACY_PLAN_H
#define SOJOURN_RUNTIME_PRIVACY_PLAN_H

#include "runtime/privacy/Charge.h"
#include "runtime/privacy/Checked.h"
#include "runtime/privacy/Filter.h"

#include <vector>

namespace sojourn::privacy {

/// A training run: each step adds Gaussian noise to sums over a fresh Poisson sample of the rows.
struct TrainingPlan {
  double rate = 1;         ///< probability of each row to be in a step's sample, in (0, 1]
  uint64_t steps = 1;      ///< in [1, kStepsMax]
  double overflow = 0;     ///< probability per step that the sample exceeds its capacity (Tail.h)
  double extraFailure = 0; ///< other probability of failure per step: distances of samplers
};

inline constexpr uint64_t kStepsMax = uint64_t{1} << 40;
/// Noise multipliers that plans may have.
inline constexpr double kNoiseMin = 0x1p-12, kNoiseMax = 0x1p40;

/// What one step costs at a noise multiplier in [kNoiseMin, kNoiseMax]: the standard deviation over
/// the L2 sensitivity of all sums of the step together (1/z^2 adds up over several sums of
/// multipliers z). Errors name the field at fault.
Checked<Charge> stepCharge(const TrainingPlan &plan, double noiseMultiplier);

/// What the whole run costs.
Checked<Charge> planCharge(const TrainingPlan &plan, double noiseMultiplier);

/// The smallest noise multiplier, to 1e-7 of it, whose whole run the grant admits alone. Errors where
/// none is: the grant's epsilon is less than orders up to 1024 can show, or failures need more
/// than their share of delta. About 4 ms.
Checked<double> noiseMultiplierFor(const Grant &grant, const TrainingPlan &plan);

/// The inverse: the smallest epsilon at this delta whose grant admits the whole run alone. Infinity
/// where none does.
Checked<double> epsilonOf(const TrainingPlan &plan, double noiseMultiplier, double delta);

/// Steps that are fixed in advance, all alike: noise of `rho` = S^2 / (2 sigma^2) on sums over a Poisson sample.
struct PlannedSteps {
  double rate = 1, rho = 0;
  uint64_t count = 1;
};

/// What they cost together at this delta if nothing else is asked, by the best of all integer orders from 2 to 1024
/// with all of delta that `failures`, their probability of failure, leaves: as other accountants quote a run. Infinity
/// where nothing is left. A grant asks for a little more, as it admits whatever is chosen by what came before. About
/// 1 ms.
double plannedEpsilon(const std::vector<PlannedSteps> &steps, double failures, double delta);
Checked<double> plannedEpsilonOf(const TrainingPlan &plan, double noiseMultiplier, double delta);

/// The greatest rho = S^2 / (2 sigma^2) of one Gaussian release that the grant admits alone.
Checked<double> gaussianRhoFor(const Grant &grant);

/// The greatest epsilon of one pure release (discrete Laplace) that the grant admits alone.
Checked<double> pureEpsilonFor(const Grant &grant);

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_PLAN_H
