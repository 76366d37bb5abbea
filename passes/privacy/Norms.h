// SPDX-License-Identifier: Apache-2.0
// What each row adds to one result of a clipped sum: its squared norm by the cheapest of several exact ways, and how
// the sum will be made.
#ifndef SOJOURN_PASSES_PRIVACY_NORMS_H
#define SOJOURN_PASSES_PRIVACY_NORMS_H

#include "passes/privacy/PerRow.h"

namespace sojourn {

struct RowShare {
  /// How the norm is made, and then the sum:
  enum class Way {
    Direct, ///< one product or one element per row: from the norms of operands; the cut again, one operand scaled
    Ghost,  ///< from products of pairs of terms; the cut again, one operand scaled
    Kept,   ///< from what each row adds, as one value; the sum over its slots, scaled
  };
  Way way = Way::Kept;
  /// [slots] f64: the squared norm of each row's share; in f32 (`isNarrow`) at least it.
  mlir::Value squares;
  /// [slots] f64: at least the squared sum of magnitudes that rounding is relative to; null where it is `squares`.
  mlir::Value mass;
  /// Terms that a number of one row is a sum of in f64, at most: what its rounding grows with.
  double terms = 0;
  /// [slots, shape of the result] of what is kept.
  mlir::Value kept;
  /// Norm and sum are made in f32 (see rows::Accumulation).
  bool isNarrow = false;
};

/// Makes norms for one clipped sum.
class RowShares {
public:
  /// `narrow`: the rows in f32; null where the sum is added up in f64.
  RowShares(PerRow &wide, PerRow *narrow, Emit &emit) : wide(wide), narrow(narrow), emit(emit) {}
  /// Of one value that the region yields.
  RowShare of(mlir::Value yielded);

private:
  PerRow &wide;
  PerRow *narrow;
  Emit &emit;
  double keptBytes = 0;
};

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_NORMS_H
