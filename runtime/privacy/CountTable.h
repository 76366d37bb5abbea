// SPDX-License-Identifier: Apache-2.0
// The binomial distribution as a table to invert, cut at a capacity.
#ifndef SOJOURN_RUNTIME_PRIVACY_COUNTTABLE_H
#define SOJOURN_RUNTIME_PRIVACY_COUNTTABLE_H

#include "runtime/privacy/WideFraction.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace sojourn::privacy {

/// How many rows a draw has: Binomial(rows, sixtyFourths / 2^64), cut at capacity.
struct CountTable {
  /// q in units of 2^-64, not 0.
  uint64_t sixtyFourths;
  /// The smallest count that can be drawn.
  int64_t first;
  /// P[count <= first + j] in units of 2^-128, for the counts below the largest that can be drawn.
  std::vector<Uint128> below;
  /// At least P[Binomial > capacity].
  double overflow;

  /// The count of 128 uniform bits. Looks at the whole table whatever the bits are.
  int64_t count(Uint128 uniform) const {
    int64_t passed = 0;
    for (const Uint128 &bound : below) {
      passed += static_cast<int64_t>(bound <= uniform);
    }
    return first + passed;
  }
};

/// From a cache of the last 32. Rows in [1, 2^40], capacity in [1, 2^26] and at least the mean.
std::shared_ptr<const CountTable> countTable(int64_t rows, uint64_t sixtyFourths, int64_t capacity);

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_COUNTTABLE_H
