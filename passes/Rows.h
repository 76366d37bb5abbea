// SPDX-License-Identifier: Apache-2.0
// The row analysis of a whole program: which results may leave as they are, which need noise and where, and which let
// rows interact. The lattice is in dialect/rows/Fact.h, the rule of each op in dialect/rows/Rules.h.
#ifndef SOJOURN_PASSES_ROWS_H
#define SOJOURN_PASSES_ROWS_H

#include "dialect/rows/Analysis.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

#include <string>
#include <vector>

namespace sojourn {

/// What an owner knows of the arguments of @step before the walk. What is absent is private: a state of unknown label,
/// a table without bounds.
struct RowInputs {
  struct Argument {
    /// Bitwise the same whatever the private rows are: of the client, or released.
    bool isPublic = false;
    /// Of a public tensor, where its elements lie, if the owner looked.
    rows::Range range;
    /// Of a table.
    rows::TableBounds table;
  };
  std::vector<Argument> arguments;
  bool isPublic(size_t argument) const { return argument < arguments.size() && arguments[argument].isPublic; }

  /// Every argument but tables is public, every table private and without bounds.
  static RowInputs ofStep(mlir::func::FuncOp step);
};

/// Numbers of rows of the tables whose types do not say them: of each table in order, or one for all.
llvm::LogicalResult setRows(mlir::func::FuncOp step, llvm::ArrayRef<int64_t> rows, RowInputs &inputs);
/// "age=0:120" (or "*=0:120", for all) to the bounds of that column in every table.
llvm::LogicalResult parseBounds(mlir::func::FuncOp step, llvm::ArrayRef<std::string> bounds, RowInputs &inputs);

/// Walks @step; cost is linear in the number of ops and operands.
void analyseRows(mlir::func::FuncOp step, const RowInputs &inputs, rows::Analysis &analysis);

/// "mixed: runs along rows" and so on, for remarks.
std::string describe(const rows::Fact &fact);

/// A value to add noise to: the last one on the way of single uses from its cuts on which nothing is multiplied, so
/// that a learning rate never gets inside of the clip.
struct NoisePoint {
  mlir::Value value;
  /// The cuts that it sums, ascending.
  rows::CutSet cuts;
};

/// The points of all cuts that a result of @step depends on, in the order of the program. `live` says per cut whether
/// it is needed.
std::vector<NoisePoint> findNoisePoints(mlir::func::FuncOp step, const rows::Analysis &analysis);

/// Ops between the cuts of these points and the points, in the order of the program, both included.
llvm::SetVector<mlir::Operation *> chainOf(llvm::ArrayRef<NoisePoint> points, const rows::Analysis &analysis);

} // namespace sojourn

#endif // SOJOURN_PASSES_ROWS_H
