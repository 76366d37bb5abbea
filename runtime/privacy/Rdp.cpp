// SPDX-License-Identifier: Apache-2.0
// Divergences in double precision, with slack above all rounding. u = 2^-53 bounds the relative error
// of one operation; exp, log, log1p and expm1 of the C library are taken to err by at most 4 u.
#include "runtime/privacy/Rdp.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sojourn::privacy {

static constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Above 64 u: the error of a sum of a few numbers, relative to the sum of their magnitudes.
static constexpr double kRelative = 0x1p-47;
/// Above the errors that do not shrink with the logarithm they are in, 8,192 u: 2,046 u of a binomial
/// coefficient, 1,023 u of a sum of positive numbers, and 745 u each of an exponent and of the whole.
static constexpr double kLog = 0x1p-40;

/// A bound of a positive divergence is positive, whatever underflowed, and so costs a unit.
static double raised(double bound) { return std::max(bound * (1 + kRelative), std::numeric_limits<double>::min()); }

/// log(1 + e^x), also where e^x overflows.
static double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

double gaussianDivergence(int order, double rho) {
  if (!(rho >= 0)) {
    return kInfinity;
  }
  return rho == 0 ? 0 : raised(order * rho);
}

// The a-th moment is sum_k C(a,k) (1-q)^(a-k) q^k e^(k(k-1)rho). Binomial weights sum to one and the
// exponent is 0 for k < 2, so the moment is 1 + sum_(k>=2) C(a,k) (1-q)^(a-k) q^k expm1(k(k-1)rho):
// positive terms only, hence a small relative error also where the divergence is tiny. Each term's
// logarithm is a sum of four numbers of relative error below 16 u: it is raised by kRelative of their
// magnitudes. (The direction that divides by the sampled mixture is no greater: theorem 5 there.)
double sampledGaussianDivergence(int order, double q, double rho) {
  if (!(rho >= 0) || !(q >= 0) || q > 1) {
    return kInfinity;
  }
  double whole = gaussianDivergence(order, rho);
  if (q == 0 || q == 1 || rho == 0 || whole == kInfinity) {
    return q == 0 ? 0 : whole;
  }
  double terms[kOrders.back() + 1];
  double absent = -std::log1p(-q), present = -std::log(q), greatest = -kInfinity;
  double binomial = order; // C(1024, 512) < 2^1024: all are finite
  for (int k = 2; k <= order; ++k) {
    binomial *= static_cast<double>(order - k + 1) / k;
    double gain = static_cast<double>(k) * (k - 1) * rho, ways = std::log(binomial);
    // log(expm1(gain)) = gain + log(1 - e^-gain); the second is negligible from 40 on.
    double shortfall = gain < 40 ? -std::log(-std::expm1(-gain)) : 0;
    double unlikely = (order - k) * absent + k * present;
    terms[k] = ways + gain - unlikely - shortfall + kRelative * (ways + gain + unlikely + std::fabs(shortfall));
    greatest = std::max(greatest, terms[k]);
  }
  if (greatest == kInfinity) {
    return whole;
  }
  double sum = 0;
  for (int k = 2; k <= order; ++k) {
    sum += std::exp(terms[k] - greatest);
  }
  double bound = softplus(greatest + std::log(sum) + kLog) / (order - 1);
  // Sampling never costs more than none (joint quasi-convexity).
  return std::min(raised(bound), whole);
}

// With p = e^eps / (1 + e^eps) the a-th moment is (e^(a eps) + e^((1-a) eps)) / (1 + e^eps), which is
// 1 + expm1(a eps) (1 - e^(-(a-1) eps)) / (1 + e^eps): again no cancellation.
double pureDivergence(int order, double epsilon) {
  if (!(epsilon >= 0)) {
    return kInfinity;
  }
  if (epsilon == 0 || epsilon == kInfinity) {
    return epsilon;
  }
  double gain = (order - 1) * epsilon;
  double shortfall = -std::log(-std::expm1(-order * epsilon)) - std::log(-std::expm1(-gain));
  double other = std::log1p(std::exp(-epsilon));
  double slack = kRelative * (gain + std::fabs(shortfall) + other) + kLog;
  return std::min(raised(softplus(gain - shortfall - other + slack) / (order - 1)), epsilon);
}

/// `value` in units of 2^-bits, rounded up; the maximum for what is negative, NaN or too great.
static uint64_t roundedUp(double value, int bits) {
  double units = std::ceil(std::ldexp(value, bits));
  return value >= 0 && units < 0x1p64 ? static_cast<uint64_t>(units) : kLost;
}

template <typename Divergence>
static Charge chargeOf(Divergence divergence) {
  Charge charge;
  for (size_t k = 0; k < kOrders.size(); ++k) {
    charge.rdp[k] = roundedUp(divergence(kOrders[k]), 40);
  }
  return charge;
}

Charge gaussian(double rho) {
  return chargeOf([&](int order) { return gaussianDivergence(order, rho); });
}

Charge sampledGaussian(double q, double rho) {
  return chargeOf([&](int order) { return sampledGaussianDivergence(order, q, rho); });
}

Charge pure(double epsilon) {
  return chargeOf([&](int order) { return pureDivergence(order, epsilon); });
}

Charge replaceOne(const Charge &nullOne) {
  Charge charge;
  for (size_t k = 0; k < kOrders.size(); ++k) {
    auto order = static_cast<uint64_t>(kOrders[k]);
    size_t next = k; // divergences grow with the order
    while (next < kOrders.size() && static_cast<uint64_t>(kOrders[next]) < 2 * order) {
      ++next;
    }
    if (next == kOrders.size()) {
      charge.rdp[k] = kLost;
      continue;
    }
    // (2a - 1) / (2a - 2) = 1 + 1 / (2a - 2)
    uint64_t part = nullOne.rdp[next], more = part / (2 * order - 2) + 1;
    charge.rdp[k] = saturatingAdd(saturatingAdd(part, part), part == 0 ? 0 : more);
  }
  charge.delta = nullOne.delta; // coins that fail are no matter of the rows
  return charge;
}

Charge failure(double mass) {
  Charge charge;
  charge.delta = mass <= 1 ? roundedUp(mass, 64) : kLost;
  return charge;
}

} // namespace sojourn::privacy
