// SPDX-License-Identifier: Apache-2.0
// Shared by the rules of the row analysis.
#ifndef SOJOURN_DIALECT_ROWS_SUPPORT_H
#define SOJOURN_DIALECT_ROWS_SUPPORT_H

#include "dialect/rows/Analysis.h"
#include "dialect/rows/Rules.h"

#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace sojourn::rows {

/// Where the elements of the op's results lie, from the ranges of its operands; unknown for ops without a rule.
Range rangeOf(mlir::Operation *op, unsigned result, Operands operands);
/// The same of a per-row result's slots that hold a row, from those of the operands; nothing where no operand is known
/// closer there. A result of a slot depends on that slot's operands and on public ones alone (Rules.h).
std::optional<Range> presentRangeOf(mlir::Operation *op, unsigned result, Operands operands);
/// The range as ops see it that flush denormal operands: numbers between 0 and the smallest normal one count as 0.
Range flushedRange(Range range, mlir::Type type);
/// The range after `convert` to another element type.
Range convertedRange(const Range &range, mlir::Type element);
/// What one row adds to a new cut, from the ranges of its operands.
Influence influenceOf(const Cut &cut);
/// The same through an op whose result is a Sum again.
Influence influenceOf(mlir::Operation *op, Operands operands);

/// For a per-row result how many elements of one slot may be other than zero.
std::optional<int64_t> nonzerosOf(mlir::Operation *op, Operands operands, const Fact &result);
/// What an element type can hold: of integers and i1 their least and greatest, of floats anything.
Range rangeOfType(mlir::Type type);

/// The fact of a per-row result whose slots lie at `place` of the result's shape.
Fact perRowAt(const Fact &operand, llvm::ArrayRef<int64_t> shape, const Place &place);
llvm::ArrayRef<int64_t> shapeOf(mlir::Value value);
/// The first Mixed operand, or null.
const Fact *firstMixed(Operands operands);
bool anyPerRow(Operands operands);
bool anyCuts(Operands operands);
/// Mixed, for the reasons that several rules have.
Fact straddles(mlir::Operation *op, Analysis &analysis, mlir::Value operand);
Fact meetsSum(mlir::Operation *op, Operands operands, Analysis &analysis);
Fact twoDraws(mlir::Operation *op, Analysis &analysis, mlir::Value operand);
/// The end of a rule where no operand is per row, or no result can be: Mixed operands prevail; sums stay sums where
/// `isLinear`, else they make derived values; and where rows meet sums, nothing is proved. True if `results` are set.
bool settled(mlir::Operation *op, Operands operands, Analysis &analysis, Results results, bool isLinear);
/// The common slots of the per-row operands, each in the shape of its operand: nothing, with the reason in `reason`,
/// where slots straddle dims, lie in different places, or belong to different draws.
std::optional<Place> commonPlace(mlir::Operation *op, Operands operands, Analysis &analysis, Fact &reason);

} // namespace sojourn::rows

#endif // SOJOURN_DIALECT_ROWS_SUPPORT_H
