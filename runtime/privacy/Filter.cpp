// SPDX-License-Identifier: Apache-2.0
// The filter of mixed orders: its proof, its weights, its decision.
//
// Let w_D + sum_a w_a <= 1, and for a grant (E, Delta) and a total (R, D)
//   h_a = w_a e^((a-1)(E - R_a)), which is 0 where R_a is infinite.
// The total is admitted iff D <= w_D Delta and
//   1 - e^-x <= Delta sum_a h_a e^((a-1)x) for all x >= 0,                                            (1)
// or some R_a is 0, where nothing is told at all.
//
// Proof of (E, Delta)-DP. A failure is a coin that does not depend on data; let F = some coin fails,
// Pr[F] <= w_D Delta under both neighbours. M' is the interaction halted at the first failure: all of
// its charges are plain RDP. Let L be the logarithm of how much more probable its transcript is under D
// than under D'. Each charge is fixed by what came before it, and so is the mechanism that it pays for,
// of which e^((a-1) loss) has at most the mean e^((a-1) r_a). Hence e^((a-1)(L - R_a)) is a
// supermartingale under D that begins at 1 (Feldman and Zrnic 2021), for every order, and so is
//   Z = sum_a w_a e^((a-1)(L - R_a)), which begins at sum_a w_a:
// whatever each charge was chosen by and whenever it ends, E_D[Z] <= sum_a w_a. At the end (1) holds, as
// the last charge was admitted. With x = L - E the sum in (1) is Z, so that for every event S
//   Pr[M'(D) in S] - e^E Pr[M'(D') in S] <= E_D[max(0, 1 - e^-x)] <= Delta E_D[Z] <= Delta sum_a w_a,
// and Pr[M(D) in S] <= Pr[F] + Pr[M'(D) in S, no failure] <= e^E Pr[M(D') in S] + Delta.
//
// One order alone satisfies (1) iff R_a <= r_a,
//   r_a = E - log((a-1)/a) + (log(w_a Delta) + log a) / (a-1),
// the conversion of Canonne, Kamath, Steinke 2020 with a share of Delta. But neighbouring orders that
// are good for a total add up: the best one need not pay for them.
//
// The decision. log of the sum in (1) is convex in x, so it lies above its tangent at any x0 >= 0, whose
// slope m is the mean of a-1 with weights h_a e^((a-1) x0). So (1) holds if the tangent lies above
// log(1 - e^-x), that is if
//   log Delta + log sum_a h_a e^((a-1) x0) - m x0 >= max_x log(1 - e^-x) - m x = m log(m/(m+1)) - log(m+1),
// and that at x0 = log(1 + 1/m) is (1) itself. Newton's method looks for this x0; whichever it tries
// proves what it proves. Rounding: wherever no order admits by itself, all logarithms above are below
// 1500 or so small that they add nothing, and the two sides err by less than 2^-36 together; kMargin is
// four times that.
//
// The weights may be any function of the grant. A grant that grows while it is used keeps the proof if
// what was admitted still is: (1) of the last grant is asked of the total at the end. By a larger
// grant every w_a Delta e^((a-1) E) must be larger, so weights must change slowly. They are
//   w_a = (1 - w_D) ((1 - s) g_a / sum g + s v_a / sum v),  g_a = v_a exp(-kappa log(a / peak)^2),
//   peak = 1 + c sqrt(L) (sqrt(L + E) + sqrt(L)) / E, within the orders,
// where v_a is the part of the logarithms that order a stands for, half way to its neighbours,
// and peak with c = 1 is the best order of Gaussian noise (it minimises a rho + L/(a-1)); c < 1
// allows for sampling, whose divergence grows faster in a. L would be log(1/delta), but a greater delta
// must not lower a weight too fast either, so it follows only the fourth root of it. The uniform part s is
// for charges of another shape; high orders do well with a small share.
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

constexpr double kKappa = 8, kShift = 0.56, kUniform = 0.04;
/// Above the rounding of both sides of the decision.
constexpr double kMargin = 0x1p-34;
/// Grants are seen with epsilon in multiples of 2^-30 and delta with 31 bits, both rounded down: a step of
/// either moves the decision by more than its rounding error, so no larger grant admits less.
constexpr int kEpsilonBits = 30, kDeltaBits = 31;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double coarseDelta(double delta) {
  int exponent;
  double fraction = std::frexp(delta, &exponent);
  return std::ldexp(std::floor(std::ldexp(fraction, kDeltaBits)), exponent - kDeltaBits);
}

bool validDelta(double delta) { return delta > 0 && delta < 1; }

/// The part of the logarithms of orders that each one stands for.
std::array<double, kOrders.size()> parts() {
  std::array<double, kOrders.size()> logs, found;
  std::transform(kOrders.begin(), kOrders.end(), logs.begin(), [](int order) { return std::log(order); });
  for (size_t k = 0; k < logs.size(); ++k) {
    double below = k > 0 ? logs[k] - logs[k - 1] : logs[1] - logs[0];
    double above = k + 1 < logs.size() ? logs[k + 1] - logs[k] : below;
    found[k] = (below + above) / 2;
  }
  return found;
}

} // namespace

// `epsilon` and `delta` are coarse already.
Filter::Filter(double epsilon, double delta) {
  auto weights = orderWeights({epsilon, delta});
  double logDelta = std::log(delta), slack = 0x1p-47 * (16 - logDelta); // 64 u of the numbers below
  whole = static_cast<uint64_t>(std::ldexp(epsilon, 40));               // exact: at most 2^60
  for (size_t k = 0; k < kOrders.size(); ++k) {
    double order = kOrders[k];
    logShares[k] = std::log(weights[k]) + logDelta;
    double rest = -std::log1p(-1 / order) + (logShares[k] + std::log(order)) / (order - 1) - slack;
    int64_t bound = static_cast<int64_t>(whole) + static_cast<int64_t>(std::floor(std::ldexp(rest, 40)));
    most.rdp[k] = static_cast<uint64_t>(std::max<int64_t>(bound, 0));
  }
  most.delta = static_cast<uint64_t>(std::ldexp(kFailureShare * (1 - 0x1p-50) * delta, 64));
}

bool Filter::admits(const Charge &total) const {
  if (total.delta > most.delta) {
    return false;
  }
  for (size_t k = 0; k < kOrders.size(); ++k) {
    if (total.rdp[k] <= most.rdp[k]) {
      return true;
    }
  }
  return admitsTogether(total);
}

bool Filter::admitsTogether(const Charge &total) const {
  std::array<double, kOrders.size()> heights; // log(Delta h_a)
  double x = 1, best = -kInfinity;
  for (size_t k = 0; k < kOrders.size(); ++k) {
    double slope = kOrders[k] - 1, left = total.rdp[k] > whole
                                              ? -std::ldexp(static_cast<double>(total.rdp[k] - whole), -40)
                                              : std::ldexp(static_cast<double>(whole - total.rdp[k]), -40);
    heights[k] = total.rdp[k] == kLost ? -kInfinity : logShares[k] + slope * left;
    double alone = heights[k] + slope * std::log1p(1 / slope) + std::log1p(slope);
    if (alone > best) {
      best = alone;
      x = std::log1p(1 / slope);
    }
  }
  if (best == -kInfinity) {
    return false;
  }
  double low = std::log1p(1.0 / (kOrders.back() - 1)), high = std::log(2.0);
  for (int round = 0; round < 64; ++round) {
    double top = -kInfinity, sum = 0, mean = 0, square = 0;
    for (size_t k = 0; k < kOrders.size(); ++k) {
      top = std::max(top, heights[k] + (kOrders[k] - 1) * x);
    }
    for (size_t k = 0; k < kOrders.size(); ++k) {
      double slope = kOrders[k] - 1, part = std::exp(heights[k] + slope * x - top);
      sum += part;
      mean += part * slope;
      square += part * slope * slope;
    }
    mean /= sum;
    double height = top + std::log(sum);
    if (height - mean * (x - std::log1p(1 / mean)) + std::log1p(mean) >= kMargin) {
      return true;
    }
    if (height < std::log(-std::expm1(-x))) {
      return false; // (1) does not hold at x
    }
    double off = std::log1p(1 / mean) - x;
    (off > 0 ? low : high) = x;
    double variance = std::max(square / sum - mean * mean, 0.0);
    double next = x + off / (1 + variance / (mean * (mean + 1)));
    next = next > low && next < high ? next : (low + high) / 2;
    if (std::fabs(next - x) <= 0x1p-40 * x) {
      return false;
    }
    x = next;
  }
  return false;
}

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
  static const std::array<double, kOrders.size()> stands = parts();
  std::array<double, kOrders.size()> weights;
  double sum = 0, all = 0;
  for (size_t k = 0; k < kOrders.size(); ++k) {
    double distance = std::log(kOrders[k]) - at;
    weights[k] = stands[k] * std::exp(-kKappa * distance * distance);
    sum += weights[k];
    all += stands[k];
  }
  for (size_t k = 0; k < kOrders.size(); ++k) {
    weights[k] = (1 - kFailureShare) * ((1 - kUniform) * weights[k] / sum + kUniform * stands[k] / all);
  }
  return weights;
}

Checked<Filter> Filter::of(const Grant &grant) {
  if (std::string error = grantError(grant); !error.empty()) {
    return Invalid{error};
  }
  double epsilon = std::ldexp(std::floor(std::ldexp(grant.epsilon, kEpsilonBits)), -kEpsilonBits);
  return Filter(epsilon, coarseDelta(grant.delta));
}

double smallestEpsilon(const Charge &total, double delta) {
  if (!validDelta(delta)) {
    return kInfinity;
  }
  delta = coarseDelta(delta);
  auto admitted = [&](uint64_t units) {
    return Filter(std::ldexp(static_cast<double>(units), -kEpsilonBits), delta).admits(total);
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

double epsilonAtOrder(int order, double divergence, double logDelta) {
  return divergence + std::log1p(-1.0 / order) - (logDelta + std::log(order)) / (order - 1);
}

double bestOrderEpsilon(const Charge &total, double delta) {
  double best = kInfinity;
  double left = validDelta(delta) ? delta - std::ldexp(static_cast<double>(total.delta), -64) : 0;
  if (!(left > 0)) {
    return best;
  }
  double logDelta = std::log(left);
  auto scaled = [&](size_t k) { return (kOrders[k] - 1) * std::ldexp(static_cast<double>(total.rdp[k]), -40); };
  for (size_t k = 0; k < kOrders.size() && total.rdp[k] != kLost; ++k) {
    if (total.rdp[k] == 0) {
      return 0;
    }
    best = std::min(best, epsilonAtOrder(kOrders[k], scaled(k) / (kOrders[k] - 1), logDelta));
    // In between (a-1) R_a lies below its chord: it is convex in a, as every logarithm of moments.
    for (int order = k > 0 ? kOrders[k - 1] + 1 : kOrders[k]; order < kOrders[k]; ++order) {
      double share = static_cast<double>(order - kOrders[k - 1]) / (kOrders[k] - kOrders[k - 1]);
      double chord = (1 - share) * scaled(k - 1) + share * scaled(k);
      best = std::min(best, epsilonAtOrder(order, chord / (order - 1), logDelta));
    }
  }
  return std::max(best, 0.0);
}

} // namespace sojourn::privacy
