// SPDX-License-Identifier: Apache-2.0
// What the draws of a step cost the people of its tables: charged by the owner, quoted by the client.
#ifndef SOJOURN_RUNTIME_TERMS_CHARGES_H
#define SOJOURN_RUNTIME_TERMS_CHARGES_H

#include "runtime/privacy/Charge.h"
#include "runtime/privacy/Checked.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sojourn::terms {

/// What samplers are off by, at most: 2^-110 a value, 2^-109 a draw.
inline constexpr double kSamplerFailure = 0x1p-70;

/// `expected` of `rows` rows in `slots` slots; not sampled: a public list of distinct rows.
struct Draw {
  bool isSampled = false;
  int64_t rows = 0, expected = 0, slots = 0;
};

/// Probability of a row to be in the draw, and of more rows than slots.
struct DrawRate {
  double rate = 1, overflow = 0;
  double failures() const { return kSamplerFailure + overflow; }
};
/// Errors: sizes that no draw has.
privacy::Checked<DrawRate> rateOf(const Draw &draw);
/// Why an owner refuses a draw whose slots do not hold enough of its samples, or an empty text.
std::string checkSlots(const Draw &draw, const DrawRate &rate);

/// What one release costs: rho, or epsilon of Laplace noise; beside the step, or in it.
struct SiteCost {
  double cost = 0;
  bool isBeside = false, isLaplace = false;
};

struct DrawCharges {
  privacy::Charge step, beside;
  /// `beside` where a row may become any other row.
  privacy::Charge besideReplaced;
};

/// All releases over one draw at a step's noise multiplier.
DrawCharges chargesOf(const DrawRate &rate, const std::vector<SiteCost> &sites, double noiseMultiplier);

/// How many whole steps' parts a rho is, at least 1: of a step the whole part is charged, whatever it published, so
/// that its price is known before the program is.
double partsOf(double rho, double noiseMultiplier);
/// The rho of so many parts.
double rhoOf(double parts, double noiseMultiplier);
/// What the step itself costs.
privacy::Charge stepCharge(const DrawRate &rate, double rho);

} // namespace sojourn::terms

#endif // SOJOURN_RUNTIME_TERMS_CHARGES_H
