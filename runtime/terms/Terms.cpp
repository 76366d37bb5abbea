// SPDX-License-Identifier: Apache-2.0
// Numbers that steps ask for (see Terms.h).
#include "runtime/terms/Terms.h"

#include "runtime/privacy/Plan.h"
#include "runtime/wire/Terms.h"

#include <algorithm>
#include <cstdio>

namespace sojourn::terms {

using privacy::Checked;
using privacy::Invalid;
using wire::kBounds;
using wire::kNoiseMultipliers;
static_assert(wire::kEpsilonMost == privacy::kEpsilonMax, "what a client may ask for is what can be charged");

static std::string shortly(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", number);
  return text;
}

/// A number that a step may not choose freely; 0 where it says nothing. Above 0 it is at least `least`.
static std::string checkNumber(const char *what, double number, double most, double least = 0) {
  if (number == 0 || (number > 0 && number >= least && number <= most)) {
    return "";
  }
  return std::string(what) + " is " + shortly(number) + ", expected a number " +
         (least > 0 ? "from " + shortly(least) + " to " : "above 0 and at most ") + shortly(most);
}

Defaults mostCareful(const Defaults &a, const Defaults &b) {
  return {std::max(a.noiseMultiplier, b.noiseMultiplier), std::min(a.clip, b.clip),
          std::min(a.metricBound, b.metricBound)};
}

std::string problemOf(const Defaults &defaults) {
  struct Number {
    const char *what;
    double number;
    wire::Range range;
  };
  for (auto [what, number, range] :
       {Number{"noise multiplier", defaults.noiseMultiplier, kNoiseMultipliers}, Number{"clip", defaults.clip, kBounds},
        Number{"metric bound", defaults.metricBound, kBounds}}) {
    if (!(number >= range.least && number <= range.most)) {
      return std::string("the ") + what + " is " + shortly(number) + ", expected a number from " +
             shortly(range.least) + " to " + shortly(range.most);
    }
  }
  return "";
}

Checked<StepTerms> termsOf(const wire::Spending &asked, const Defaults &defaults) {
  StepTerms terms;
  terms.noiseMultiplier = asked.noiseMultiplier != 0 ? asked.noiseMultiplier : defaults.noiseMultiplier;
  terms.clip = asked.clip != 0 ? asked.clip : defaults.clip;
  terms.metricShare = asked.metricShare >= 0 ? asked.metricShare : terms.metricShare;
  terms.metricBound = defaults.metricBound;
  terms.perLayer = asked.perLayer;
  terms.lossIsSum = asked.lossIsSum;
  std::string error = checkNumber("the noise multiplier", terms.noiseMultiplier, kNoiseMultipliers.most);
  error = error.empty() ? checkNumber("clip", terms.clip, kBounds.most, kBounds.least) : error;
  error = error.empty() ? checkNumber("metric_share", terms.metricShare, wire::kMetricShareMost) : error;
  if (error.empty() && terms.noiseMultiplier < kNoiseMultipliers.least) {
    error = "the noise multiplier is below 2^-10, which no budget pays for";
  }
  return error.empty() ? Checked<StepTerms>(terms) : Invalid{error};
}

Checked<Release> releaseOf(const wire::ReleaseTerms &asked, const wire::ReleaseTerms *before,
                           std::optional<double> delta) {
  std::string error = checkNumber("bound", asked.bound, kBounds.most, kBounds.least);
  error = error.empty() ? checkNumber("epsilon", asked.epsilon, wire::kEpsilonMost) : error;
  error = error.empty() ? checkNumber("delta", asked.delta, wire::kDeltaMost) : error;
  if (error.empty() && asked.epsilon > 0 && delta && asked.delta > *delta) {
    error = checkNumber("delta", asked.delta, *delta);
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
    (asked.delta > 0 ? release.rho : release.laplaceEpsilon) = price ? *price : asked.epsilon;
  }
  return release;
}

PrivacyOptions optionsOf(const StepTerms &terms, llvm::ArrayRef<std::optional<unsigned>> published) {
  PrivacyOptions options;
  options.noiseMultiplier = terms.noiseMultiplier;
  options.clip = terms.clip;
  options.perLayer = terms.perLayer;
  options.lossIsMean = !terms.lossIsSum;
  options.metricShare = terms.metricShare;
  options.metricBound = terms.metricBound;
  unsigned prices = 0;
  for (unsigned result = 0; result < published.size(); ++result) {
    if (!published[result] || *published[result] >= terms.releases.size()) {
      continue;
    }
    const Release &release = terms.releases[*published[result]];
    PrivacyOptions::Publish &publish = options.publishes[result];
    prices += !release.continues;
    publish.price = prices;
    if (release.bound > 0) {
      publish.bound = release.bound;
    }
    if (release.rho > 0) {
      publish.rho = release.rho;
    }
    if (release.laplaceEpsilon > 0) {
      publish.laplaceEpsilon = release.laplaceEpsilon;
    }
  }
  return options;
}

} // namespace sojourn::terms
