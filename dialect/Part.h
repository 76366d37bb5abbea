// SPDX-License-Identifier: Apache-2.0
// Parts of a table as lists of splits, and how many rows each has. Knows neither torch nor MLIR: client, both plans and
// the proof count with it.
#ifndef SOJOURN_DIALECT_PART_H
#define SOJOURN_DIALECT_PART_H

#include <cstdint>
#include <span>
#include <string>

namespace sojourn {

/// One side of a split.
struct Side {
  double fraction = 0;  ///< of the rows that the first side has, above 0 and below 1
  bool isOther = false; ///< the side of the rest
  bool operator==(const Side &) const = default;
};

/// Splits of splits, at most.
inline constexpr int64_t kSplitsMost = 64;

/// Rows of the first side of a split of `rows` rows, a number in [0, 2^40]: floor(fraction * rows + 0.5), product and
/// sum each rounded to float64.
int64_t firstSideRows(int64_t rows, double fraction);

/// Where a part lies among the rows of what was split last.
struct PartRows {
  int64_t rows = 0;   ///< of the part
  int64_t start = 0;  ///< its first position in the last split's order
  int64_t parent = 0; ///< rows of what was split last; of the table where there is no split
};

/// `sides` from the table down; the table itself where there are none.
PartRows rowsOfPart(int64_t tableRows, std::span<const Side> sides);

/// "the first part of a split at 0.8 of the other part of a split at 0.5"; "the table" where there are none.
std::string describePart(std::span<const Side> sides);

} // namespace sojourn

#endif // SOJOURN_DIALECT_PART_H
