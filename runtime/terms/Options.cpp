// SPDX-License-Identifier: Apache-2.0
// Options of the passes (see Options.h).
#include "runtime/terms/Options.h"

namespace sojourn::terms {

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
