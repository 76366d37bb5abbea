// SPDX-License-Identifier: Apache-2.0
// Per-row values around the middle of their range, which move a sum by less.
#ifndef SOJOURN_PASSES_PRIVACY_MIDDLE_H
#define SOJOURN_PASSES_PRIVACY_MIDDLE_H

#include "dialect/rows/Analysis.h"
#include "passes/Rows.h"
#include "passes/Emit.h"

#include <optional>

namespace sojourn {

/// x = centred * scale + middle, with public numbers for the middle of the range that is proved for the rows.
struct Centred {
  /// f64, of x's shape.
  mlir::Value centred;
  /// f64, of rank 0 or of x's shape without the dim of rows.
  mlir::Value middle;
  /// f64, of x's shape without the dim of rows; null is 1.
  mlir::Value scale;
};

/// How many columns of a step may still be taken one by one: each costs a few ops, and a stranger may sum many columns
/// many times. Beyond that columns share the middle of all.
struct ColumnBudget {
  size_t left = size_t{1} << 14;
};

/// For statistics whose number of rows is public: whole tables and parts of them. A sum over n rows is
///
///     sum_i x_i = sum_i (x_i - c) + n c
///
/// and of ages in [18, 100] a row moves the first term by 41 and not by 100. A row that is gone counts as c, the same
/// for everybody, where it counted as 0: under null_one the sum is another one on tables with a row less, and the same
/// on those that there are. Not for an owner's draw, where n is secret.
///
/// Nothing where the middle lowers no bound (a range around 0, or unknown, or values most of which are 0), and where n
/// is no public number. Columns that stand beside each other have a middle each. With `mayScale` each is also brought
/// to the width of the widest, since one noise serves them all: then it is the width of its own that a column pays for.
/// Ops are made where `emit` stands; no proof rests on them.
std::optional<Centred> centredAt(mlir::Value x, bool mayScale, const rows::Analysis &analysis, Emit &emit,
                                 ColumnBudget &budget);

/// Centres what is summed on the way to each of these points of a step: it becomes a sum of centred values, whose noise
/// point comes before the public term is added. Returns whether any changed, and the analysis is stale then.
bool centrePoints(llvm::ArrayRef<NoisePoint> points, const rows::Analysis &analysis);

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_MIDDLE_H
