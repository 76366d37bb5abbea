// SPDX-License-Identifier: Apache-2.0
// The tail in double precision. u = 2^-53; exp, log and log1p of the C library err by at most 4 u.
#include "runtime/privacy/Tail.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace sojourn::privacy {

/// h(t) = (1 + t) log(1 + t) - t for t > -1, with a relative error below 128 u: a series where the
/// two parts cancel.
static double relativeEntropy(double t) {
  if (std::fabs(t) >= 0.125) {
    return (1 + t) * std::log1p(t) - t;
  }
  double sum = 0; // of (-t)^j / ((j+1)(j+2)); what is left out is below 2^-60 of the first term
  for (int j = 18; j >= 0; --j) {
    sum = 1.0 / ((j + 1) * (j + 2)) - t * sum;
  }
  return t * t * sum;
}

/// A lower bound of s(n) = log(n!) - log(sqrt(2 pi n) (n/e)^n) for n >= 1, within 1e-9: its series
/// envelops it from 16 on, below that s(n) - s(n+1) = (n + 1/2) log(1 + 1/n) - 1.
static double stirlingBelow(double n) {
  double sum = 0;
  for (; n < 16; ++n) {
    sum += (n + 0.5) * std::log1p(1 / n) - 1;
  }
  return sum + 1 / (12 * n) - 1 / (360 * n * n * n);
}
static double stirlingAbove(double n) {
  double least = std::max(n, 16.0);
  return stirlingBelow(n) + 1 / (1260 * least * least * least * least * least);
}

/// An upper bound of P[Binomial(n, q) = k], 0 < k <= n <= 2^40, 0 < q < 1. Loader's form (2000):
/// log P = log(n / (2 pi k (n-k))) / 2 + s(n) - s(k) - s(n-k) - nq h(d/nq) - np h(-d/np), d = k - nq,
/// where nothing cancels: both deviances are positive, and d is rounded once. Their relative error
/// stays below 200 u, and that of the rest, absolute, below 128 u.
static double pointAbove(double n, double k, double q) {
  if (k == n) {
    return std::exp(n * std::log(q) * (1 - 0x1p-49)) * (1 + 0x1p-49);
  }
  double difference = std::fma(-n, q, k), drawn = n * q, left = n * (1 - q);
  double deviance = drawn * relativeEntropy(difference / drawn) + left * relativeEntropy(-difference / left);
  double factor = stirlingAbove(n) - stirlingBelow(k) - stirlingBelow(n - k);
  double exponent = factor - deviance * (1 - 0x1p-44) + 0x1p-45;
  return std::sqrt(n / (2 * std::numbers::pi * k * (n - k))) * std::exp(exponent);
}

static std::string sizeError(int64_t rows, int64_t expected) {
  if (rows < 1 || rows > kRowsMax) {
    return "a sample of " + std::to_string(rows) + " rows, expected between 1 and 2^40 rows to draw from";
  }
  if (expected < 1 || expected > rows) {
    return "an expected batch size of " + std::to_string(expected) + ", expected between 1 and the " +
           std::to_string(rows) + " rows to draw from; give size= in that range";
  }
  return "";
}

Checked<double> samplingRate(int64_t rows, int64_t expected) {
  if (std::string error = sizeError(rows, expected); !error.empty()) {
    return Invalid{error};
  }
  return static_cast<double>(expected) / static_cast<double>(rows);
}

/// An upper bound of the terms from `k` on, `last` the last of them: some as they are, then a geometric series, for the
/// ratio of neighbours falls with k. 1 where it does not fall below 1.
template <class Ratio>
static double tailFrom(double term, double k, double last, Ratio ratioAt) {
  double sum = term;
  for (int count = 0; k < last; ++count) {
    double ratio = ratioAt(k) * (1 + 0x1p-50);
    if (ratio >= 1) {
      return 1;
    }
    double rest = term * ratio / (1 - ratio);
    if (count == 512 || rest <= sum * 0x1p-24) {
      sum += rest;
      break;
    }
    term *= ratio;
    sum += term;
    ++k;
  }
  // Above the rounding of 512 products and sums, and what underflowed.
  return std::clamp(sum * (1 + 0x1p-40), std::numeric_limits<double>::min(), 1.0);
}

double overflowMass(int64_t rows, double rate, int64_t capacity) {
  if (rows < 0 || rows > kRowsMax || !(rate >= 0) || rate > 1 || capacity < 0) {
    return 1;
  }
  if (capacity >= rows || rate == 0) {
    return 0;
  }
  double n = static_cast<double>(rows), k = static_cast<double>(capacity) + 1;
  if (rate == 1 || k <= n * rate) {
    return 1;
  }
  double odds = rate / (1 - rate);
  return tailFrom(pointAbove(n, k, rate), k, n, [&](double at) { return (n - at) / (at + 1) * odds; });
}

double poissonOverflowMass(double mean, int64_t capacity) {
  double k = static_cast<double>(capacity) + 1;
  if (!(mean > 0) || mean > static_cast<double>(kRowsMax) || capacity < 0 || k <= mean) {
    return 1;
  }
  // log P[X = k] = -log(2 pi k) / 2 - s(k) - mean h((k - mean) / mean): Stirling's n! in mean^k e^-mean / k!.
  double deviance = mean * relativeEntropy((k - mean) / mean);
  double exponent = -stirlingBelow(k) - deviance * (1 - 0x1p-44) + 0x1p-45;
  double term = std::exp(exponent) / std::sqrt(2 * std::numbers::pi * k);
  return tailFrom(term, k, std::numeric_limits<double>::infinity(), [&](double at) { return mean / (at + 1); });
}

Checked<int64_t> capacityFor(int64_t expected) {
  if (expected < 1 || expected > kExpectedMax) {
    return Invalid{"an expected batch size of " + std::to_string(expected) +
                   ", expected between 1 and 2^25; give size= in that range"};
  }
  int64_t refused = 0, enough = expected / 4 + 32; // in eights: twice the size and 256
  while (enough - refused > 1) {
    int64_t middle = refused + (enough - refused) / 2;
    (poissonOverflowMass(static_cast<double>(expected), 8 * middle) <= kOverflowMax ? enough : refused) = middle;
  }
  return 8 * enough;
}

} // namespace sojourn::privacy
