// SPDX-License-Identifier: Apache-2.0
// Tests of distributions: fixed significance, fresh coins, and the seed in every failure.
#ifndef SOJOURN_TEST_RUNTIME_PRIVACY_STATISTICS_H
#define SOJOURN_TEST_RUNTIME_PRIVACY_STATISTICS_H

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <span>
#include <vector>

namespace sojourn::privacy::test {

/// A check alarms below this p-value. The suites make fewer than 500 checks, so that a false alarm comes
/// less than once in 10^6 runs even where the chi-square's far tail is ten times heavier than its limit.
inline constexpr double kAlarm = 1e-10;

/// One seed per process, printed; SOJOURN_TEST_SEED repeats it.
inline uint64_t freshSeed() {
  static const uint64_t seed = [] {
    const char *given = std::getenv("SOJOURN_TEST_SEED");
    uint64_t made = given ? std::strtoull(given, nullptr, 10)
                          : uint64_t{std::random_device()()} << 32 | uint64_t{std::random_device()()};
    std::cout << "SOJOURN_TEST_SEED=" << made << std::endl;
    return made;
  }();
  return seed;
}

/// P[chi-square with `freedom` degrees > x]: the upper incomplete gamma, by series or continued fraction.
inline double chiSquareTail(double x, double freedom) {
  long double a = freedom / 2, y = x / 2;
  if (y <= 0) {
    return 1;
  }
  long double front = std::exp(a * std::log(y) - y - std::lgamma(a));
  if (y < a + 1) {
    long double term = 1 / a, sum = term;
    for (int n = 1; n < 100000 && term > sum * 1e-19L; ++n) {
      sum += term *= y / (a + n);
    }
    return static_cast<double>(std::max(0.0L, 1 - front * sum));
  }
  long double b = y + 1 - a, c = 1e300L, d = 1 / b, result = d;
  for (int n = 1; n < 100000; ++n) {
    long double top = -n * (n - a);
    b += 2;
    d = 1 / (top * d + b);
    c = b + top / c;
    result *= c * d;
    if (std::abs(c * d - 1) < 1e-17L) {
      break;
    }
  }
  return static_cast<double>(front * result);
}

/// The p-value of counts under cell probabilities that sum to at most 1 (the rest is a cell that must
/// be empty but for `others`). Neighbours are merged until every cell expects 100.
inline double fit(std::span<const int64_t> counts, std::span<const double> probability, int64_t others = 0) {
  double total = static_cast<double>(others), known = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    total += static_cast<double>(counts[k]);
    known += probability[k];
  }
  double statistic = 0, expected = 0, found = 0;
  int cells = 0;
  auto close = [&] {
    statistic += (found - expected) * (found - expected) / expected;
    expected = found = 0;
    ++cells;
  };
  double left = total;
  for (size_t k = 0; k < counts.size(); ++k) {
    expected += probability[k] * total;
    found += static_cast<double>(counts[k]);
    left -= probability[k] * total;
    if (expected >= 100 && left >= 100) {
      close();
    }
  }
  expected += std::max(0.0, (1 - known) * total);
  found += static_cast<double>(others);
  close();
  return cells < 2 ? 1 : chiSquareTail(statistic, cells - 1);
}

/// The p-value of residues modulo m being uniform.
inline double residueFit(std::span<const int64_t> values, int64_t m) {
  std::vector<int64_t> counts(static_cast<size_t>(m));
  for (int64_t value : values) {
    ++counts[static_cast<size_t>((value % m + m) % m)];
  }
  return fit(counts, std::vector<double>(counts.size(), 1.0 / static_cast<double>(m)));
}

/// The p-value of n hits among `trials` of a small probability, both sides, by exact Poisson sums.
inline double rareFit(int64_t n, double mean) {
  long double term = std::exp(-static_cast<long double>(mean)), below = 0, at = 0;
  for (int64_t k = 0; k <= n; ++k, term *= mean / static_cast<long double>(k)) {
    below += at = term;
  }
  return static_cast<double>(std::min(1.0L, 2 * std::min(below, 1 - below + at)));
}

/// The p-value of a standard normal's value, both sides.
inline double normalFit(double z) { return std::erfc(std::abs(z) / std::sqrt(2.0)); }

} // namespace sojourn::privacy::test

#endif // SOJOURN_TEST_RUNTIME_PRIVACY_STATISTICS_H
