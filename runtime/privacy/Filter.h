// SPDX-License-Identifier: Apache-2.0
// Which totals of charges a grant of (epsilon, delta) admits, whatever each charge was chosen by.
#ifndef SOJOURN_RUNTIME_PRIVACY_FILTER_H
#define SOJOURN_RUNTIME_PRIVACY_FILTER_H

#include "runtime/privacy/Charge.h"
#include "runtime/privacy/Checked.h"

namespace sojourn::privacy {

/// What all releases together may cost: (epsilon, delta)-differential privacy.
struct Grant {
  double epsilon = 0; ///< in (0, kEpsilonMax]
  double delta = 0;   ///< in (0, 1)
};

inline constexpr double kEpsilonMax = 0x1p20;

/// What is wrong with a grant, naming the bound; an empty text if nothing is.
std::string grantError(const Grant &grant);

/// How a grant's delta is divided: this share for charges' own delta, the rest among the orders by
/// `orderWeights`.
inline constexpr double kFailureShare = 0x1p-4;

/// The orders' shares of a valid grant's delta; they add up to 1 - kFailureShare. Most goes to the
/// orders that are best for a training run of that epsilon.
std::array<double, kOrders.size()> orderWeights(const Grant &grant);

/// A filter of all orders together, each with a share of the delta: the proof is in Filter.cpp. What one grant admits,
/// every grant of no less epsilon and delta admits.
class Filter {
public:
  static Checked<Filter> of(const Grant &grant);

  /// Whether the total of all charges, the next one included, is within the grant. An order that is lost adds nothing;
  /// what is refused is refused with more on top (up to 2^-35 in the logarithm of delta).
  bool admits(const Charge &total) const;

  /// Per order the greatest divergence that it admits alone, whatever the others hold, and the greatest delta; rounded
  /// down.
  const Charge &thresholds() const { return most; }

private:
  friend double smallestEpsilon(const Charge &total, double delta);
  Filter(double epsilon, double delta);
  /// Where no order admits alone.
  bool admitsTogether(const Charge &total) const;

  uint64_t whole = 0; ///< epsilon in units of 2^-40
  std::array<double, kOrders.size()> logShares{};
  Charge most;
};

/// The smallest epsilon, in steps of 2^-30, whose grant at this delta admits the total; 0 where it has
/// no divergence, infinity where no grant admits it or delta is outside (0, 1). What a client is shown
/// as spent: the filter decides. About 200 us.
double smallestEpsilon(const Charge &total, double delta);

/// The epsilon that a divergence, in nats, at an order in [2, 1024] implies at a delta, by its logarithm (Canonne,
/// Kamath, Steinke 2020, proposition 12).
double epsilonAtOrder(int order, double divergence, double logDelta);

/// The epsilon of the best single integer order with all of delta, as other accountants quote it for a run fixed in
/// advance; infinity where delta is used up. Orders that are not charged are interpolated, from above: of a training
/// run Plan.h has them exactly. For information only: no upper bound for what is chosen adaptively. About
/// 80 us.
double bestOrderEpsilon(const Charge &total, double delta);

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_FILTER_H
