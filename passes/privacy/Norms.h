// SPDX-License-Identifier: Apache-2.0
// Squared norms of what each row adds to the results of a clipped sum, by the cheapest of several exact ways.
#ifndef SOJOURN_PASSES_PRIVACY_NORMS_H
#define SOJOURN_PASSES_PRIVACY_NORMS_H

#include "passes/privacy/PerRow.h"

namespace sojourn {

struct SquaredNorm {
  /// [slots] f64: at least the squared norm of each row's share, computed in f64.
  mlir::Value squares;
  /// [slots] f64: at least the squared sum of magnitudes that rounding is relative to; null where it is `squares`.
  mlir::Value mass;
  /// Terms that a number of one row is a sum of, at most: what its rounding grows with.
  double terms = 0;
  /// Which way was taken, for reports and tests: "direct", "ghost", "materialised".
  llvm::StringRef way;
};

/// Of one value that the region yields.
SquaredNorm squaredNorm(mlir::Value yielded, PerRow &per, Emit &emit);

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_NORMS_H
