// SPDX-License-Identifier: Apache-2.0
// Names and arguments of recorded ATen calls, for the passes that rewrite one call into others.
#ifndef SOJOURN_PASSES_ATEN_H
#define SOJOURN_PASSES_ATEN_H

#include "dialect/CapturedOps.h"
#include "dialect/elements/OperatorName.h"

namespace sojourn {

/// A unit attribute of functional calls whose argument A was row-major without gaps: for its determinant ATen factors
/// the transposed matrix then, and the gradient counts on it.
inline constexpr llvm::StringLiteral kRowMajorAttr = "sojourn.row_major";

/// Discardable attribute of a functional call: indices of the results that replace the contents of an operand, and so
/// have its type, whatever the operator would return. Promotion resolves and removes it.
inline constexpr llvm::StringLiteral kMutatedAttr = "sojourn.mutated";

/// Gives `to` the promotion rules and the default dtype that `from` has of its own.
void copyTypeRules(mlir::Operation *from, mlir::Operation *to);

/// The value that one element of `args` refers to; null for literals and unit.
mlir::Value operandOf(AtenOp op, mlir::Attribute argument);

/// Collects the arguments of a new call.
class AtenBuilder {
public:
  AtenBuilder(mlir::OpBuilder &builder, mlir::Location loc, llvm::StringRef base)
      : builder(builder), loc(loc), name(("aten." + base).str()) {}

  AtenBuilder &arg(llvm::StringRef argument, mlir::Value value);
  AtenBuilder &arg(llvm::StringRef argument, int64_t value);
  /// Copies an argument of another call: a literal, one operand or a list of both. `map`, if given, says which value
  /// stands for an operand here.
  AtenBuilder &arg(llvm::StringRef argument, AtenOp from, mlir::Attribute attribute,
                   llvm::function_ref<mlir::Value(mlir::Value)> map = nullptr);
  AtenOp build(mlir::TypeRange results);
  /// The call's one result.
  mlir::Value value(mlir::Type result) { return build(result)->getResult(0); }

private:
  mlir::Attribute reference(mlir::Value value);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  std::string name;
  llvm::SmallVector<mlir::Value> inputs;
  llvm::SmallVector<mlir::Attribute> args, names;
};

} // namespace sojourn

#endif // SOJOURN_PASSES_ATEN_H
