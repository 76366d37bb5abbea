// SPDX-License-Identifier: Apache-2.0
// Values of the region of a clipped sum, row by row: with the slots as dim 0, scaled per slot, and their norms.
#ifndef SOJOURN_PASSES_PRIVACY_PERROW_H
#define SOJOURN_PASSES_PRIVACY_PERROW_H

#include "dialect/rows/Analysis.h"
#include "passes/privacy/Emit.h"

#include "mlir/IR/IRMapping.h"

namespace sojourn {

/// One clipped sum that is being lowered. All values are emitted in f64 at the place of the op.
class PerRow {
public:
  PerRow(ClippedSumOp op, const rows::Analysis &analysis, Emit &emit);

  int64_t slots() const { return slots_; }
  /// The cut of an op of the region, or null.
  const rows::Cut *cutOf(mlir::Operation *op) const;
  /// What stands outside for a value of the region that no op of it made.
  mlir::Value outside(mlir::Value value) const { return outside_.lookupOrDefault(value); }

  /// x with its slots as a dim of their own, and that dim; `rows` says where they lie.
  std::pair<mlir::Value, int64_t> split(mlir::Value x, const rows::Alignment &rows);
  /// x with slot s multiplied by factor[s] (if there is one) and replaced by 0 where keep[s] does not hold.
  mlir::Value scaled(mlir::Value x, const rows::Alignment &rows, mlir::Value factor, mlir::Value keep);
  /// A vector over the slots of a part as one over all slots, 0 elsewhere.
  mlir::Value spread(mlir::Value x, const rows::Alignment &rows);

  /// Operand k of a dot as [slots, batch, terms, free], the other dims of each kind made one.
  mlir::Value matrices(const rows::Cut &cut, unsigned operand);
  /// Row numbers and updates of a put as [slots, terms] and [slots, terms, width].
  std::pair<mlir::Value, mlir::Value> scatter(const rows::Cut &cut);
  /// What each row adds to a cut: [slots, shape of the cut].
  mlir::Value blocks(const rows::Cut &cut);
  /// What each row adds to a value of the region: [slots, shape of the value].
  mlir::Value blocks(mlir::Value value);

  /// An upper bound of the squared sum of magnitudes that make a row's share of the cut: [slots].
  mlir::Value squaredMass(const rows::Cut &cut);
  /// Squares summed over all dims but the first.
  mlir::Value squares(mlir::Value x);

  /// Alignment of the slots in an operand of a cut; for a public operand where the slots of the other one fall.
  rows::Alignment alignmentOf(const rows::Cut &cut, unsigned operand) const;
  /// The slots of a cut: those of its per-row operands.
  const rows::Alignment &rowsOf(const rows::Cut &cut) const;

private:
  ClippedSumOp op_;
  const rows::Analysis &analysis_;
  Emit &emit_;
  int64_t slots_;
  mlir::IRMapping outside_;
  llvm::DenseMap<mlir::Operation *, const rows::Cut *> cuts_;
  llvm::DenseMap<mlir::Value, mlir::Value> blocksOf_;
};

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_PERROW_H
