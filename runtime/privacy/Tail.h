// SPDX-License-Identifier: Apache-2.0
// How many slots a Poisson sample needs: upper bounds of a binomial's tail.
#ifndef SOJOURN_RUNTIME_PRIVACY_TAIL_H
#define SOJOURN_RUNTIME_PRIVACY_TAIL_H

#include "runtime/privacy/Checked.h"

#include <cstdint>

namespace sojourn::privacy {

/// Greatest number of rows that a sample can be drawn from.
inline constexpr int64_t kRowsMax = int64_t{1} << 40;
/// Capacity is chosen so that a sample exceeds it with no greater probability.
inline constexpr double kOverflowMax = 0x1p-60;

/// Greatest expected size of a sample: its slots can then still be drawn (kDrawCapacityMax).
inline constexpr int64_t kExpectedMax = int64_t{1} << 25;

/// The rate at which each of `rows` rows is drawn so that `expected` are on average. Errors: rows
/// outside [1, kRowsMax], expected outside [1, rows].
Checked<double> samplingRate(int64_t rows, int64_t expected);

/// An upper bound of P[Binomial(rows, rate) > capacity], above it by less than 2 % where it is below
/// 1e-6 (1e-6 of it where a standard deviation is below 50 rows), and at least the smallest normal double; 0 where
/// capacity >= rows, 1 where capacity is not above the mean or an argument is out of its range. Less than 5 us.
double overflowMass(int64_t rows, double rate, int64_t capacity);

/// An upper bound of P[Poisson(mean) > capacity], above it by less than 1e-6 of it; 1 where capacity is not above the
/// mean or an argument is out of its range. It bounds that of every binomial with this mean from a capacity of
/// mean + 1 on (Anderson and Samuels, 1967). Less than 5 us.
double poissonOverflowMass(double mean, int64_t capacity);

/// The smallest multiple of 8 whose overflow is at most kOverflowMax whatever the number of rows. Errors: expected
/// outside [1, kExpectedMax]. Less than 1 ms.
Checked<int64_t> capacityFor(int64_t expected);

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_TAIL_H
