// SPDX-License-Identifier: Apache-2.0
// Type promotion as functions of types alone, by torch's and by NumPy's rules, and the table of what promotes where.
#ifndef SOJOURN_PASSES_PROMOTIONRULES_H
#define SOJOURN_PASSES_PROMOTIONRULES_H

#include "dialect/Dialect.h"

namespace sojourn {

enum class PromotionRules : uint8_t { Torch, Numpy };

/// What takes part in a promotion. A Number is a Python scalar (i1, i64 or f64): it counts by its category only.
/// NumPy makes no difference between ZeroDim and Tensor.
struct PromotionOperand {
  enum Kind : uint8_t { Tensor, ZeroDim, Number };
  mlir::Type element;
  Kind kind;
};

/// The type in which a call on these operands computes. `defaultFloat` is torch's default dtype (NumPy's is f64).
mlir::Type resultType(PromotionRules rules, llvm::ArrayRef<PromotionOperand> operands, mlir::Type defaultFloat);

/// Of two tensors' elements; the base of `resultType`.
mlir::Type promoteTypes(PromotionRules rules, mlir::Type a, mlir::Type b);

/// The type in which an operator with a floating-point result computes on this element: `exp` of integers, or their
/// true division.
mlir::Type floatResult(PromotionRules rules, mlir::Type element, bool division, mlir::Type defaultFloat);

/// The type in which a sum or product of elements accumulates and which it returns.
mlir::Type sumResult(PromotionRules rules, mlir::Type element);

/// How an operator finds the type it computes in.
enum class Computes : uint8_t {
  Common,      ///< the common type of `operands`; the result has it
  CommonFloat, ///< the same, integers become floats
  Predicate,   ///< the common type; the result is i1
  Truth,       ///< each operand as i1; the result is i1
  Sum,         ///< `dtype` if given, else sumResult of the operand
  Dtype,       ///< `dtype` if given, else the operand's own type
  Self,        ///< the type of `self`, to which `operands` are converted
  IntoSelf,    ///< the common type of `operands`; the result has the type of `self`
  IntoTarget,  ///< the common type of `operands`; the result has the type of `target`
};

/// One row of the table: the base name and the schema arguments that take part, separated by commas.
struct PromotionRow {
  llvm::StringLiteral base;
  Computes computes;
  llvm::StringLiteral operands;
};

/// The row of an operator; null when its operands do not promote (each keeps its type, numbers stay f64).
const PromotionRow *findPromotionRow(llvm::StringRef base);

} // namespace sojourn

#endif // SOJOURN_PASSES_PROMOTIONRULES_H
