// SPDX-License-Identifier: Apache-2.0
// The dialect without its op classes: types, attributes, traits; names and the predicate of core form: CoreForm.h.
// What works on any op needs no more; the op classes lie in a header per family, so that an edit of one op compiles
// what uses its family and nothing else.
#ifndef SOJOURN_DIALECT_BASE_H
#define SOJOURN_DIALECT_BASE_H

#include "dialect/Cost.h"
#include "dialect/Support.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <type_traits>

#include "dialect/Dialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/Attrs.h.inc"

namespace sojourn {
namespace rows {
struct Fact;
class Analysis;
} // namespace rows
namespace detail {
struct TableTypeStorage;
} // namespace detail
} // namespace sojourn
#define GET_TYPEDEF_CLASSES
#include "dialect/Types.h.inc"

namespace sojourn {

namespace detail {
/// Static shapes, bounded rank and number of elements, for every tensor of a core op.
llvm::LogicalResult verifyCoreTensors(mlir::Operation *op);
/// Shared shape, splats and element type of an elementwise op.
llvm::LogicalResult inferSplat(mlir::MLIRContext *context, std::optional<mlir::Location> location,
                               mlir::ValueRange operands, bool skipFirstElement, bool boolResult,
                               llvm::SmallVectorImpl<mlir::Type> &results);
} // namespace detail

/// Trait of the ops of core form.
template <typename ConcreteType>
class CoreOp : public mlir::OpTrait::TraitBase<ConcreteType, CoreOp> {
public:
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) { return detail::verifyCoreTensors(op); }
};

/// Trait of the ops that work position by position (rank-0 operands are splats).
template <typename ConcreteType>
class Elementwise : public mlir::OpTrait::TraitBase<ConcreteType, Elementwise> {};

class CompareOp;
class SelectOp;

template <typename OpType>
llvm::LogicalResult inferElementwise(mlir::MLIRContext *context, std::optional<mlir::Location> location,
                                     mlir::ValueRange operands, llvm::SmallVectorImpl<mlir::Type> &results) {
  return detail::inferSplat(context, location, operands, std::is_same_v<OpType, SelectOp>,
                            std::is_same_v<OpType, CompareOp>, results);
}

} // namespace sojourn

#include "dialect/Interfaces.h.inc"

#endif // SOJOURN_DIALECT_BASE_H
