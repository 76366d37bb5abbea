// SPDX-License-Identifier: Apache-2.0
// Terms that a step on private tables asks for, within what may be asked. The owner charges by them, the client judges
// and quotes by them; neither has others. Options.h makes options of the passes of them.
#ifndef SOJOURN_RUNTIME_TERMS_STEPTERMS_H
#define SOJOURN_RUNTIME_TERMS_STEPTERMS_H

#include "passes/privacy/MetricShare.h"
#include "runtime/privacy/Checked.h"
#include "runtime/terms/Defaults.h"
#include "runtime/wire/Step.h"

#include <optional>
#include <vector>

namespace sojourn::terms {

/// Of a published value: bound 0 where nothing is said of it; of a price of its own either rho or the epsilon of
/// Laplace noise.
struct Release {
  double bound = 0, rho = 0, laplaceEpsilon = 0;
  bool continues = false; ///< it shares the price of the one before
};

/// The numbers of a step; those of its tables where it states none.
struct StepTerms : Defaults {
  double metricShare = kMetricShare;
  bool perLayer = false, lossIsSum = false;
  std::vector<Release> releases; ///< per published value, as far as the step says something of them
};

/// The numbers of a step, without its releases. Errors name the number that no step may ask for.
privacy::Checked<StepTerms> termsOf(const wire::Spending &asked, const Defaults &defaults);

/// A release at the delta of the grants that pay for it, the smallest of several; none where that is not known: a price
/// is then looked up at its own delta, and any stands for one that has none. `before`: the release before, if any.
privacy::Checked<Release> releaseOf(const wire::ReleaseTerms &asked, const wire::ReleaseTerms *before,
                                    std::optional<double> delta);

} // namespace sojourn::terms

#endif // SOJOURN_RUNTIME_TERMS_STEPTERMS_H
