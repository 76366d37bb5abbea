// SPDX-License-Identifier: Apache-2.0
// What the data owner reads of a program on private tables: where rows meet, by how much one of them moves what leaves,
// and the noise on it.
#include "owner/PrivatePlan.h"

#include "owner/Text.h"
#include "runtime/Limits.h"

#include "llvm/Support/raw_ostream.h"

#include <cmath>

namespace sojourn::owner {

std::string describeSites(llvm::ArrayRef<SiteInfo> sites, const PrivateTerms &terms) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "noise multiplier " << numberText(terms.noiseMultiplier) << ", clip " << numberText(terms.clip)
      << (terms.perLayer ? " for each tensor" : "") << ", loss " << (terms.lossIsSum ? "summed" : "averaged")
      << ", metric bound " << numberText(terms.metricBound) << '\n';
  for (const SiteInfo &site : sites) {
    auto unit = [&](double grid) { return numberText(std::ldexp(grid, static_cast<int>(site.exponent))); };
    // One line each: file names come from the scientist.
    out << printableName(site.what) << ", " << site.coordinates << (site.coordinates == 1 ? " number" : " numbers")
        << ": rows are combined at " << (site.op.empty() ? "an op" : site.op)
        << (site.location.empty() ? "" : ", " + printableName(site.location)) << "\n  one row moves it by at most "
        << unit(site.sensitivity) << (site.isLaplace ? " (L1)" : " (L2)")
        << ", the contribution of a row is bounded by " << numberText(site.bound) << "; "
        << (site.isLaplace ? "Laplace noise of scale " : "Gaussian noise of standard deviation ")
        << unit(static_cast<double>(site.scale)) << ", "
        << (site.isBeside ? "charged separately" : "a part of the step's price") << '\n';
  }
  if (sites.empty()) {
    out << "no value computed from the rows leaves\n";
  }
  return printable(text, runtime::limits::kErrorTextBytes * 4);
}

} // namespace sojourn::owner
