// SPDX-License-Identifier: Apache-2.0
// Lower bounds of epsilon from what a mechanism released with a canary and without it. They hold for any mechanism but
// with a chance of kFalseAlarm; so one that exceeds a claim refutes it.
#ifndef SOJOURN_TEST_RUNTIME_PRIVACY_AUDIT_H
#define SOJOURN_TEST_RUNTIME_PRIVACY_AUDIT_H

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace sojourn::privacy::test {

/// The chance that one audit raises an alarm over a correct owner.
inline constexpr double kFalseAlarm = 1e-9;

/// How many times as many samples are taken: 1, or SOJOURN_AUDIT_SCALE (`tools/check --all` sets it). Controls are
/// caught at scale 1.
inline size_t auditScale() {
  const char *given = std::getenv("SOJOURN_AUDIT_SCALE");
  return given ? std::max<size_t>(1, std::strtoull(given, nullptr, 10)) : 1;
}

/// P[Binomial(n, p) >= k] for 0 < k <= n: the regularized incomplete beta function I_p(k, n - k + 1), by the continued
/// fraction of Lentz on the side where it converges fast.
inline double binomialTail(double k, double n, double p) {
  auto part = [](double a, double b, double x) {
    constexpr double kTiny = 1e-300;
    double c = 1, d = 1 / std::max(std::abs(1 - (a + b) * x / (a + 1)), kTiny), fraction = d;
    for (int m = 1; m < 100000; ++m) {
      const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
      const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
      double change = 1;
      for (double term : {even, odd}) {
        d = 1 + term * d;
        d = 1 / (std::abs(d) < kTiny ? kTiny : d);
        c = 1 + term / c;
        c = std::abs(c) < kTiny ? kTiny : c;
        fraction *= change = c * d;
      }
      if (std::abs(change - 1) < 1e-15) {
        break;
      }
    }
    const double front = std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
    return std::exp(front) * fraction / a;
  };
  if (p <= 0 || p >= 1) {
    return p <= 0 ? 0 : 1;
  }
  const double a = k, b = n - k + 1;
  return p < (a + 1) / (a + b + 2) ? part(a, b, p) : 1 - part(b, a, 1 - p);
}

/// Bounds of a rate after Clopper and Pearson (1934); each fails with a chance of at most `level`.
inline double rateAtLeast(size_t hits, size_t runs, double level) {
  double low = 0, high = hits == 0 ? 0 : 1;
  for (int k = 0; k < 120 && hits > 0; ++k) {
    const double middle = (low + high) / 2;
    (binomialTail(static_cast<double>(hits), static_cast<double>(runs), middle) < level ? low : high) = middle;
  }
  return low;
}
inline double rateAtMost(size_t hits, size_t runs, double level) { return 1 - rateAtLeast(runs - hits, runs, level); }

/// Scores of runs with the canary and without it. A high score speaks for it.
struct Scores {
  std::vector<double> with, without;
};

/// The comparison is fixed before anything is drawn: two events for each threshold, "at least t" where the canary is
/// and where it is not, and "below t" the other way round.
class Audit {
public:
  Audit(size_t runs, double delta) : runs(runs), delta(delta) {}

  /// Takes the two thresholds that would bound epsilon best for scores of this law. It is a simulation with randomness
  /// of its own, never what is audited.
  void aim(const Scores &law) {
    Scores sorted = law;
    std::sort(sorted.with.begin(), sorted.with.end());
    std::sort(sorted.without.begin(), sorted.without.end());
    std::vector<double> all = sorted.with;
    all.insert(all.end(), sorted.without.begin(), sorted.without.end());
    std::sort(all.begin(), all.end());
    std::array<double, 2> best{-1, -1}, at{all.front(), all.front()};
    for (int k = 1; k < 600; ++k) {
      // Denser at both ends, where the ratios are large.
      const double part = k < 200   ? 1e-5 * std::pow(5e2, k / 200.0)
                          : k < 400 ? 5e-3 + 0.99 * (k - 200) / 200.0
                                    : 1 - 1e-5 * std::pow(5e2, (600 - k) / 200.0);
      const double t = all[static_cast<size_t>(part * static_cast<double>(all.size() - 1))];
      const std::array<double, 2> found = boundsAt(sorted, t, runs, kFalseAlarm / 16);
      for (size_t event : {0, 1}) {
        if (found[event] > best[event]) {
          best[event] = found[event];
          at[event] = t;
        }
      }
    }
    thresholds.insert(thresholds.end(), at.begin(), at.end());
  }

  /// (epsilon, delta) is at least this.
  double epsilon(const Scores &scores) const {
    Scores sorted = scores;
    std::sort(sorted.with.begin(), sorted.with.end());
    std::sort(sorted.without.begin(), sorted.without.end());
    const double level = kFalseAlarm / static_cast<double>(4 * thresholds.size()); // two events of two rates each
    double most = 0;
    for (double t : thresholds) {
      for (double bound : boundsAt(sorted, t, 0, level)) {
        most = std::max(most, bound);
      }
    }
    return most;
  }

  const size_t runs;
  const double delta;

private:
  /// Of both events at t. With `scaled` rates are taken for those of so many runs.
  std::array<double, 2> boundsAt(const Scores &sorted, double t, size_t scaled, double level) const {
    auto below = [&](const std::vector<double> &values) {
      const auto count = static_cast<size_t>(std::lower_bound(values.begin(), values.end(), t) - values.begin());
      const double rate = static_cast<double>(count) / static_cast<double>(values.size());
      return scaled ? std::pair(static_cast<size_t>(std::llround(rate * static_cast<double>(scaled))), scaled)
                    : std::pair(count, values.size());
    };
    const auto [withBelow, withRuns] = below(sorted.with);
    const auto [withoutBelow, withoutRuns] = below(sorted.without);
    auto bound = [&](size_t hits, size_t of, size_t otherHits, size_t others) {
      const double low = rateAtLeast(hits, of, level);
      return low > delta ? std::log((low - delta) / rateAtMost(otherHits, others, level)) : 0;
    };
    return {bound(withRuns - withBelow, withRuns, withoutRuns - withoutBelow, withoutRuns),
            bound(withoutBelow, withoutRuns, withBelow, withRuns)};
  }

  std::vector<double> thresholds;
};

/// The log of the ratio of densities of a sum over a Poisson sample, with the canary over without it, where the
/// canary moves the sum by 1.
inline double sampledScore(double x, double rate, double sigma) {
  const double exponent = (x - 0.5) / (sigma * sigma);
  return rate == 1 ? exponent : std::log1p(rate * std::expm1(std::min(exponent, 600.0)));
}

/// Scores of `steps` such releases with noise `noise`, moved by `shift` by the canary.
inline Scores simulate(std::mt19937_64 &random, double rate, double sigma, double noise, double shift, size_t steps) {
  constexpr size_t kPilot = 100000;
  std::normal_distribution<double> normal(0, noise);
  std::bernoulli_distribution coin(rate);
  Scores scores;
  for (auto [values, moved] : {std::pair(&scores.with, shift), std::pair(&scores.without, 0.0)}) {
    for (size_t run = 0; run < kPilot; ++run) {
      double score = 0;
      for (size_t step = 0; step < steps; ++step) {
        score += sampledScore(normal(random) + (coin(random) ? moved : 0), rate, sigma);
      }
      values->push_back(score);
    }
  }
  return scores;
}

} // namespace sojourn::privacy::test

#endif // SOJOURN_TEST_RUNTIME_PRIVACY_AUDIT_H
