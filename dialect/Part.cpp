// SPDX-License-Identifier: Apache-2.0
// Counts of parts (see Part.h). Compiled without fused products and sums: every machine counts alike.
#include "dialect/Part.h"

#include <cmath>
#include <cstdio>

namespace sojourn {

int64_t firstSideRows(int64_t rows, double fraction) {
  double product = fraction * static_cast<double>(rows);
  return static_cast<int64_t>(std::floor(product + 0.5));
}

PartRows rowsOfPart(int64_t tableRows, std::span<const Side> sides) {
  PartRows part{tableRows, 0, tableRows};
  for (const Side &side : sides) {
    int64_t first = firstSideRows(part.rows, side.fraction);
    part = {side.isOther ? part.rows - first : first, side.isOther ? first : 0, part.rows};
  }
  return part;
}

std::string describePart(std::span<const Side> sides) {
  std::string text;
  for (size_t k = sides.size(); k-- > 0;) {
    char fraction[32];
    std::snprintf(fraction, sizeof(fraction), "%g", sides[k].fraction);
    text += std::string(text.empty() ? "" : " of ") + "the " + (sides[k].isOther ? "other" : "first") +
            " part of a split at " + fraction;
  }
  return text.empty() ? "the table" : text;
}

} // namespace sojourn
