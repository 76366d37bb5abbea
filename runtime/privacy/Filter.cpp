// SPDX-License-Identifier: Apache-2.0
// The portfolio filter: its proof, its weights, its thresholds.
//
// Let w_D + sum_a w_a <= 1, and for a grant (E, Delta)
//   r_a = E - log((a-1)/a) + (log(w_a Delta) + log a) / (a-1),
// so that Renyi divergence r_a at order a implies (E, w_a Delta)-DP (Canonne, Kamath, Steinke 2020).
// A total (R, D) is admitted iff D <= w_D Delta and R_a <= r_a for SOME a. Where r_a < 0 the threshold
// is 0: a divergence of 0 is (E, 0)-DP.
//
// Proof of (E, Delta)-DP. A failure is a coin that does not depend on data; let F = some coin fails,
// Pr[F] <= w_D Delta under both neighbours. M' is the interaction halted at the first failure: all of
// its charges are plain RDP. M'_a is M' stopped before R_a would exceed r_a: (a, r_a)-RDP although each
// charge is chosen by what came before (Feldman and Zrnic 2021), hence (E, w_a Delta)-DP. Charges are
// not negative, so a transcript that ends within filter a was within it all along and is as probable
// under M'_a as under M'. Part the transcripts by the first filter that holds at their end:
//   Pr[M(D) in S] <= Pr[F] + sum_a Pr[M'_a(D) in S, part a]
//                 <= w_D Delta + sum_a (e^E Pr[M'_a(D') in S, part a] + w_a Delta)
//                 <= e^E Pr[M(D') in S] + Delta.
// The weights may be any function of the grant. A grant that grows while it is used keeps the proof if
// no threshold falls: then whatever was admitted was within the last grant's filters too. So weights
// must change slowly. They are
//   w_a = (1 - w_D) ((1 - s) g_a / sum g + s / 13),  g_a = exp(-kappa log(a / peak)^2),
//   peak = 1 + c sqrt(L) (sqrt(L + E) + sqrt(L)) / E, within the orders,
// where peak with c = 1 is the best order of Gaussian noise (it minimises a rho + L/(a-1)) and c < 1
// allows for sampling, whose divergence grows faster in a. L would be log(1/delta), but a greater delta
// must not lower a threshold either, so it follows only the fourth root of it. The uniform part s is for
// charges of another shape; high orders do well with a small share.
// FilterTest.cpp, ThresholdsNeverFall, goes over a dense grid of both: d r_a/dE >= 0.3 and
// (a-1) d r_a/d log(delta) >= 0.2 (E in [0.001, 50], delta in [1e-12, 1e-3]; the weights are constant
// in E and in delta beyond).
#include "runtime/privacy/Filter.h"

#include "runtime/privacy/Text.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sojourn::privacy {

namespace {

constexpr double kKappa = 8, kShift = 0.62, kUniform = 0.04;
/// Thresholds see epsilon in multiples of 2^-30 and delta with 31 bits, both rounded down: a step of
/// either raises a threshold by a hundred times its rounding error, so none falls by rounding.
constexpr int kEpsilonBits = 30, kDeltaBits = 31;

double coarseDelta(double delta) {
  int exponent;
  double fraction = std::frexp(delta, &exponent);
  return std::ldexp(std::floor(std::ldexp(fraction, kDeltaBits)), exponent - kDeltaBits);
}

bool validDelta(double delta) { return delta > 0 && delta < 1; }

/// What a grant admits; `epsilon` and `delta` coarse already.
Charge thresholdsOf(double epsilon, double delta) {
  Charge most;
  auto weights = orderWeights({epsilon, delta});
  double logDelta = std::log(delta), slack = 0x1p-47 * (16 - logDelta); // 64 u of the numbers below
  auto whole = static_cast<int64_t>(std::ldexp(epsilon, 40));           // exact: at most 2^60
  for (size_t k = 0; k < kOrders.size(); ++k) {
    double order = kOrders[k];
    double rest = -std::log1p(-1 / order) + (std::log(weights[k]) + logDelta + std::log(order)) / (order - 1) - slack;
    int64_t bound = whole + static_cast<int64_t>(std::floor(std::ldexp(rest, 40)));
    most.rdp[k] = static_cast<uint64_t>(std::max<int64_t>(bound, 0));
  }
  most.delta = static_cast<uint64_t>(std::ldexp(kFailureShare * (1 - 0x1p-50) * delta, 64));
  return most;
}

bool within(const Charge &total, const Charge &most) {
  if (total.delta > most.delta) {
    return false;
  }
  for (size_t k = 0; k < kOrders.size(); ++k) {
    if (total.rdp[k] <= most.rdp[k]) {
      return true;
    }
  }
  return false;
}

} // namespace

std::string grantError(const Grant &grant) {
  if (!(grant.epsilon > 0) || grant.epsilon > kEpsilonMax) {
    return "epsilon is " + shortText(grant.epsilon) + ", expected a number above 0 and at most " +
           shortText(kEpsilonMax) + "; between 0.1 and 10 is usual";
  }
  if (!validDelta(grant.delta)) {
    return "delta is " + shortText(grant.delta) +
           ", expected a number above 0 and below 1; less than one in the number of rows is usual, such as 1e-05";
  }
  return "";
}

std::array<double, kOrders.size()> orderWeights(const Grant &grant) {
  const double usual = std::log(1e6);
  double range = std::clamp(-std::log(grant.delta), std::log(1e3), std::log(1e12));
  double length = usual * std::sqrt(std::sqrt(range / usual));
  double root = std::sqrt(length), epsilon = std::max(grant.epsilon, 0x1p-30);
  double peak = 1 + kShift * root * (std::sqrt(length + epsilon) + root) / epsilon;
  double at = std::log(std::clamp<double>(peak, kOrders.front(), kOrders.back()));
  std::array<double, kOrders.size()> weights;
  double sum = 0;
  for (size_t k = 0; k < kOrders.size(); ++k) {
    double distance = std::log(kOrders[k]) - at;
    weights[k] = std::exp(-kKappa * distance * distance);
    sum += weights[k];
  }
  for (double &weight : weights) {
    weight = (1 - kFailureShare) * ((1 - kUniform) * weight / sum + kUniform / kOrders.size());
  }
  return weights;
}

Checked<Filter> Filter::of(const Grant &grant) {
  if (std::string error = grantError(grant); !error.empty()) {
    return Invalid{error};
  }
  double epsilon = std::ldexp(std::floor(std::ldexp(grant.epsilon, kEpsilonBits)), -kEpsilonBits);
  return Filter(thresholdsOf(epsilon, coarseDelta(grant.delta)));
}

bool Filter::admits(const Charge &total) const { return within(total, most); }

double smallestEpsilon(const Charge &total, double delta) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!validDelta(delta)) {
    return kInfinity;
  }
  delta = coarseDelta(delta);
  auto admitted = [&](uint64_t units) {
    return within(total, thresholdsOf(std::ldexp(static_cast<double>(units), -kEpsilonBits), delta));
  };
  uint64_t refused = 0, enough = static_cast<uint64_t>(std::ldexp(kEpsilonMax, kEpsilonBits));
  if (!admitted(enough)) {
    return kInfinity;
  }
  if (std::all_of(total.rdp.begin(), total.rdp.end(), [](uint64_t cost) { return cost == 0; })) {
    return 0;
  }
  while (enough - refused > 1) {
    uint64_t middle = refused + (enough - refused) / 2;
    (admitted(middle) ? enough : refused) = middle;
  }
  return std::ldexp(static_cast<double>(enough), -kEpsilonBits);
}

double bestOrderEpsilon(const Charge &total, double delta) {
  double best = std::numeric_limits<double>::infinity();
  double left = validDelta(delta) ? delta - std::ldexp(static_cast<double>(total.delta), -64) : 0;
  if (!(left > 0)) {
    return best;
  }
  for (size_t k = 0; k < kOrders.size(); ++k) {
    if (total.rdp[k] == 0) {
      return 0;
    }
    if (total.rdp[k] != UINT64_MAX) {
      double order = kOrders[k], divergence = std::ldexp(static_cast<double>(total.rdp[k]), -40);
      best = std::min(best, divergence + std::log1p(-1 / order) - (std::log(left) + std::log(order)) / (order - 1));
    }
  }
  return std::max(best, 0.0);
}

} // namespace sojourn::privacy
