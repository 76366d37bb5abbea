// SPDX-License-Identifier: Apache-2.0
// Values of the region of a clipped sum, row by row: with the slots as dim 0, scaled per slot, and their norms.
#ifndef SOJOURN_PASSES_PRIVACY_PERROW_H
#define SOJOURN_PASSES_PRIVACY_PERROW_H

#include "dialect/rows/Analysis.h"
#include "dialect/OwnerOps.h"
#include "passes/Emit.h"

#include "mlir/IR/IRMapping.h"

namespace sojourn {

/// One clipped sum that is being lowered. Values are emitted at the place of the op in one element type, f64 or f32; an
/// f32 value of a row is a function of that row alone, as exact as the step's own arithmetic.
class PerRow {
public:
  PerRow(ClippedSumOp op, const rows::Analysis &analysis, Emit &emit, mlir::Type element);

  int64_t slots() const { return slots_; }
  bool isWide() const { return element_.isF64(); }
  mlir::Type element() const { return element_; }
  /// The cut of an op of the region, or null.
  const rows::Cut *cutOf(mlir::Operation *op) const;
  /// What stands outside for a value of the region that no op of it made.
  mlir::Value outside(mlir::Value value) const { return outside_.lookupOrDefault(value); }
  /// Whether the value and all that the region makes it of are f32.
  bool isNarrow(mlir::Value value);

  /// x with its slots as a dim of their own, and that dim; `rows` says where they lie.
  std::pair<mlir::Value, int64_t> split(mlir::Value x, const rows::Alignment &rows);
  /// x with slot s multiplied by factor[s] (if there is one) and replaced by 0 where keep[s] does not hold.
  mlir::Value scaled(mlir::Value x, const rows::Alignment &rows, mlir::Value factor, mlir::Value keep);
  /// The same for x whose dim 0 are all slots.
  mlir::Value scaled(mlir::Value x, mlir::Value factor, mlir::Value keep);
  /// x with slots of which more than `most` elements are not zero replaced by 0.
  mlir::Value sparse(mlir::Value x, const rows::Alignment &rows, int64_t most);
  /// A vector over the slots of a part as one over all slots, 0 elsewhere.
  mlir::Value spread(mlir::Value x, const rows::Alignment &rows);

  /// Operand k of a dot as [slots, batch, terms, free], the other dims of each kind made one.
  mlir::Value matrices(const rows::Cut &cut, unsigned operand);
  /// The same without the batch: [slots, terms, free].
  mlir::Value plainMatrices(const rows::Cut &cut, unsigned operand);
  /// Row numbers and updates of a put as [slots, terms] and [slots, terms, width].
  std::pair<mlir::Value, mlir::Value> scatter(const rows::Cut &cut);
  /// What each row adds to a cut: [slots, shape of the cut].
  mlir::Value blocks(const rows::Cut &cut);
  /// What each row adds to a value of the region: [slots, shape of the value].
  mlir::Value blocks(mlir::Value value);

  /// An upper bound of the squared sum of magnitudes that make a row's share of the cut: [slots] f64.
  mlir::Value squaredMass(const rows::Cut &cut);
  /// Squares summed over all dims but the first, [slots] f64: rounded where x is f64 (its terms are told by
  /// `SquaredNorm`), at least the exact sum where it is f32.
  mlir::Value squares(mlir::Value x);

  /// Alignment of the slots in an operand of a cut; for a public operand where the slots of the other one fall.
  rows::Alignment alignmentOf(const rows::Cut &cut, unsigned operand) const;
  /// The slots of a cut: those of its per-row operands.
  const rows::Alignment &rowsOf(const rows::Cut &cut) const;

private:
  /// The part of a vector over all slots that an alignment covers.
  mlir::Value partOf(mlir::Value vector, const rows::Alignment &rows);
  mlir::Value own(mlir::Value x) { return emit_.convert(x, element_); }
  mlir::Value zero() { return emit_.constant(0, element_); }

  ClippedSumOp op_;
  const rows::Analysis &analysis_;
  Emit &emit_;
  mlir::Type element_;
  int64_t slots_;
  mlir::IRMapping outside_;
  llvm::DenseMap<mlir::Operation *, const rows::Cut *> cuts_;
  llvm::DenseMap<mlir::Value, mlir::Value> blocksOf_;
};

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_PERROW_H
