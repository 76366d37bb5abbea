// SPDX-License-Identifier: Apache-2.0
// Prices of draws (see Charges.h); the mathematics is in runtime/privacy.
#include "runtime/terms/Charges.h"

#include "runtime/privacy/PoissonDraw.h"
#include "runtime/privacy/Rdp.h"
#include "runtime/privacy/Tail.h"

#include <algorithm>

namespace sojourn::terms {

privacy::Checked<DrawRate> rateOf(const Draw &draw) {
  if (!draw.isSampled) {
    return DrawRate{};
  }
  auto sampled = privacy::PoissonDraw::plan(draw.rows, draw.expected, draw.slots);
  if (auto *reason = std::get_if<std::string>(&sampled)) {
    return privacy::Invalid{"a draw of rows: " + *reason};
  }
  const auto &poisson = std::get<privacy::PoissonDraw>(sampled);
  return DrawRate{poisson.probability(), poisson.overflowMass()};
}

std::string checkSlots(const Draw &draw, const DrawRate &rate) {
  return rate.overflow > 2 * privacy::kOverflowMax
             ? "a batch of expected size " + std::to_string(draw.expected) + " of " + std::to_string(draw.rows) +
                   " rows has only " + std::to_string(draw.slots) + " slots: too many draws would not fit"
             : "";
}

double partsOf(double rho, double noiseMultiplier) {
  return std::max(1.0, rho * 2 * noiseMultiplier * noiseMultiplier);
}

double rhoOf(double parts, double noiseMultiplier) { return parts / (2 * noiseMultiplier * noiseMultiplier); }

privacy::Charge stepCharge(const DrawRate &rate, double rho) {
  return privacy::sampledGaussian(rate.rate, rho) + privacy::failure(rate.failures());
}

/// Gaussian noise where a row may become any other: not sampled, its sensitivity doubles; sampled it costs no more than
/// that, and no more than two steps by way of the null row.
static privacy::Charge replacedGaussian(double rate, double rho) {
  privacy::Charge whole = privacy::gaussian(4 * rho);
  privacy::Charge steps = privacy::replaceOne(privacy::sampledGaussian(rate, rho));
  for (size_t k = 0; k < whole.rdp.size(); ++k) {
    whole.rdp[k] = std::min(whole.rdp[k], steps.rdp[k]);
  }
  return whole;
}

DrawCharges chargesOf(const DrawRate &rate, const std::vector<SiteCost> &sites, double noiseMultiplier) {
  // Of one draw what releases cost adds up before it is amplified, also where one was chosen by another, as the second
  // of two updates is: given the sample they compose as Gaussian mechanisms do (Dong, Roth, Su 2022, corollary 3.3), so
  // both outcomes are made of one Gaussian of the summed rho, with the row or without it (Blackwell), and so are their
  // mixtures over the row's coin. Noise on the grid, in its turn, is made of continuous noise: rounded with discrete
  // noise of variance 8 around it, that of variance s^2 - 8 gives the grid's of s^2 up to a factor of 1 + 4 exp(-16
  // pi^2), less than 2^-220 (the sum of a Gaussian over a shifted grid hardly depends on the shift). Prove.cpp counts
  // the 8; the factor is far below what samplers are off by.
  DrawCharges charges;
  double stepRho = 0, besideRho = 0;
  for (const SiteCost &site : sites) {
    if (site.isLaplace) {
      charges.beside = charges.beside + privacy::pure(site.cost);
      charges.besideReplaced = charges.besideReplaced + privacy::pure(2 * site.cost);
    } else {
      (site.isBeside ? besideRho : stepRho) += site.cost;
    }
  }
  if (stepRho > 0) {
    stepRho = std::max(stepRho, rhoOf(1, noiseMultiplier));
    charges.step = stepCharge(rate, stepRho);
  }
  if (besideRho > 0) { // one batch, one charge: what the beside ones add to it
    auto added = [&](auto cost) { return cost(stepRho + besideRho) - cost(stepRho); };
    charges.beside = charges.beside + added([&](double rho) { return privacy::sampledGaussian(rate.rate, rho); });
    charges.besideReplaced =
        charges.besideReplaced + added([&](double rho) { return replacedGaussian(rate.rate, rho); });
  }
  if (charges.beside != privacy::Charge{}) {
    charges.beside = charges.beside + privacy::failure(rate.failures());
    charges.besideReplaced = charges.besideReplaced + privacy::failure(rate.failures());
  }
  return charges;
}

} // namespace sojourn::terms
