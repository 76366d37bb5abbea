// SPDX-License-Identifier: Apache-2.0
// What stands for a private table where a step says nothing.
#ifndef SOJOURN_RUNTIME_TERMS_DEFAULTS_H
#define SOJOURN_RUNTIME_TERMS_DEFAULTS_H

#include <string>

namespace sojourn::terms {

/// The data owner's choice for a table.
struct Defaults {
  double noiseMultiplier = 1, clip = 1, metricBound = 10;
  friend bool operator==(const Defaults &, const Defaults &) = default;
};

/// Of several tables the most careful.
Defaults mostCareful(const Defaults &a, const Defaults &b);
/// What an owner may not set, with what it may; empty if nothing is wrong.
std::string problemOf(const Defaults &defaults);

} // namespace sojourn::terms

#endif // SOJOURN_RUNTIME_TERMS_DEFAULTS_H
