// SPDX-License-Identifier: Apache-2.0
// Slices of values in parts: which rows are left, and what each role takes of its own.
#ifndef SOJOURN_PASSES_PARTIES_SLICES_H
#define SOJOURN_PASSES_PARTIES_SLICES_H

#include "dialect/LayoutOps.h"
#include "passes/parties/Where.h"

namespace sojourn::parties {

/// Rows of one segment that a slice takes: `rows` of them, from row `first` of the segment on, each `step`-th.
struct SlicedSegment {
  unsigned role;
  int64_t before; ///< rows of the role in earlier segments
  int64_t first, rows, step;
};

struct SlicedRows {
  Segments segments; ///< of the result; some may have no rows
  int64_t stride = 0;
  /// Per segment of the operand what is taken of it, where whole rows are; empty where each row stays in part.
  std::vector<SlicedSegment> taken;
};

/// Nothing where a slice takes parts of some rows and not of others.
std::optional<SlicedRows> sliceRows(SliceOp slice, const Where &parts);

} // namespace sojourn::parties

#endif // SOJOURN_PASSES_PARTIES_SLICES_H
