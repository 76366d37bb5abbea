// SPDX-License-Identifier: Apache-2.0
// A role's rows of tensors: shapes, and the part of a tensor that all roles know.
#ifndef SOJOURN_PASSES_PARTIES_CUT_H
#define SOJOURN_PASSES_PARTIES_CUT_H

#include "passes/parties/Placement.h"

#include "mlir/IR/Builders.h"

namespace sojourn::parties {

/// The type of a role's rows.
mlir::RankedTensorType cutType(mlir::RankedTensorType type, const rows::Place &place, const Segments &segments,
                               unsigned role);

/// Of an operand that all roles know, of an op on rows in parts: the dim along which each role takes its rows; nothing
/// where each takes all of it.
std::optional<rows::Place> placeOfKnown(mlir::Operation *op, unsigned operand, const Placement &placement);

/// The role's rows of a value that it has as a whole.
mlir::Value cutKnown(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value, const rows::Place &place,
                     const Segments &segments, unsigned role);

mlir::Value sliced(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value, llvm::ArrayRef<int64_t> start,
                   llvm::ArrayRef<int64_t> limit, llvm::ArrayRef<int64_t> stride);

/// Values one after another along a dim; the value itself where it is one.
mlir::Value joined(mlir::OpBuilder &builder, mlir::Location location, llvm::ArrayRef<mlir::Value> values, int64_t dim);

} // namespace sojourn::parties

#endif // SOJOURN_PASSES_PARTIES_CUT_H
