// SPDX-License-Identifier: Apache-2.0
// Numbers that steps ask for (see StepTerms.h).
#include "runtime/terms/StepTerms.h"

#include "runtime/privacy/Plan.h"
#include "runtime/wire/Terms.h"

#include <algorithm>

namespace sojourn::terms {

using privacy::Checked;
using privacy::Invalid;
static_assert(wire::kEpsilon.most == privacy::kEpsilonMax,
              "the largest epsilon of a request must be the largest that can be charged");

/// What is wrong with a number; empty where nothing is.
static std::string problemOf(const char *what, double number, const wire::Interval &interval) {
  return interval.admits(number)
             ? ""
             : std::string(what) + " is " + wire::shortNumber(number) + ", expected " + interval.expected();
}

/// Likewise, of a number that is 0 where the step says nothing.
static std::string problemOfAsked(const char *what, double number, const wire::Interval &interval) {
  return number == 0 ? "" : problemOf(what, number, interval);
}

Defaults mostCareful(const Defaults &a, const Defaults &b) {
  return {std::max(a.noiseMultiplier, b.noiseMultiplier), std::min(a.clip, b.clip),
          std::min(a.metricBound, b.metricBound)};
}

std::string problemOf(const Defaults &defaults) {
  std::string error = problemOf("the noise multiplier", defaults.noiseMultiplier, wire::kNoiseMultiplier);
  error = error.empty() ? problemOf("the clip", defaults.clip, wire::kBound) : error;
  return error.empty() ? problemOf("the metric bound", defaults.metricBound, wire::kBound) : error;
}

Checked<StepTerms> termsOf(const wire::Spending &asked, const Defaults &defaults) {
  StepTerms terms;
  terms.noiseMultiplier = asked.noiseMultiplier != 0 ? asked.noiseMultiplier : defaults.noiseMultiplier;
  terms.clip = asked.clip != 0 ? asked.clip : defaults.clip;
  terms.metricShare = asked.metricShare >= 0 ? asked.metricShare : terms.metricShare;
  terms.metricBound = defaults.metricBound;
  terms.perLayer = asked.perLayer;
  terms.lossIsSum = asked.lossIsSum;
  std::string error = problemOf("the noise multiplier", terms.noiseMultiplier, wire::kNoiseMultiplier);
  error = error.empty() ? problemOf("clip", terms.clip, wire::kBound) : error;
  error = error.empty() ? problemOf("metric_share", terms.metricShare, wire::kMetricShare) : error;
  return error.empty() ? Checked<StepTerms>(terms) : Invalid{error};
}

Checked<Release> releaseOf(const wire::ReleaseTerms &asked, const wire::ReleaseTerms *before,
                           std::optional<double> delta) {
  std::string error = problemOfAsked("bound", asked.bound, wire::kBound);
  error = error.empty() ? problemOfAsked("epsilon", asked.epsilon, wire::kEpsilon) : error;
  error = error.empty() ? problemOfAsked("delta", asked.delta, wire::kDelta) : error;
  if (error.empty() && asked.epsilon > 0 && delta) {
    error = problemOfAsked("delta", asked.delta, {0, *delta, /*openBelow=*/true});
  }
  if (!error.empty()) {
    return Invalid{error};
  }
  Release release;
  release.bound = asked.bound;
  release.continues = asked.continues && before && before->epsilon == asked.epsilon && before->delta == asked.delta;
  if (asked.epsilon > 0) {
    // With a delta of its own the price is still that of the grant's: the smallest grant that admits it.
    privacy::Grant grant{asked.epsilon, delta.value_or(asked.delta)};
    auto price = asked.delta > 0 ? privacy::gaussianRhoFor(grant) : privacy::pureEpsilonFor(grant);
    if (!price && delta) {
      return Invalid{price.error()};
    }
    // Only a client that forecasts a step has no delta here: its noise is not drawn, but must be one that could be.
    (asked.delta > 0 ? release.rho : release.laplaceEpsilon) = price ? *price : std::max(asked.epsilon, 0x1p-20);
  }
  return release;
}

} // namespace sojourn::terms
