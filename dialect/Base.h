// SPDX-License-Identifier: Apache-2.0
// The dialect without its op classes: types, attributes, traits, names of module attributes, the core-form predicate.
// What works on any op needs no more; the op classes lie in a header per family, so that an edit of one op compiles
// what uses its family and nothing else.
#ifndef SOJOURN_DIALECT_BASE_H
#define SOJOURN_DIALECT_BASE_H

#include "dialect/Cost.h"
#include "dialect/Signature.h"
#include "dialect/Support.h"
#include "dialect/Version.h"
#include "dialect/rows/Rules.h"

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

namespace sojourn::detail {
struct TableTypeStorage;
}
#define GET_TYPEDEF_CLASSES
#include "dialect/Types.h.inc"

namespace sojourn {

/// Attributes of the module, of the arguments and of the results of `@step`. The module alone carries the signature.
inline constexpr llvm::StringLiteral kPromotionAttr = "sojourn.promotion";
/// The default dtype that a trace was recorded under, a float type; an op has one if it differs. Promotion takes it
/// off: casts say everything from there on.
inline constexpr llvm::StringLiteral kDefaultFloatAttr = "sojourn.default_float";
inline constexpr llvm::StringLiteral kPhaseAttr = "sojourn.phase";
inline constexpr llvm::StringLiteral kKindAttr = "sojourn.kind";
inline constexpr llvm::StringLiteral kResultAttr = "sojourn.result";
inline constexpr llvm::StringLiteral kTargetAttr = "sojourn.target";
/// A unit attribute of results that are committed or kept: the value is what the scientist trains (a leaf that requires
/// a gradient). A hint: a private owner takes a sum over rows in it for a gradient. Before functionalization also of
/// the states behind such results.
inline constexpr llvm::StringLiteral kTrainedAttr = "sojourn.trained";
inline constexpr llvm::StringLiteral kStepName = "step";

inline llvm::StringRef stringify(StepArg kind) { return nameOf(kind); }
inline llvm::StringRef stringify(StepResult kind) { return nameOf(kind); }

/// The contract with the owner as a predicate: a module attribute for promotion, one function `step` whose arguments
/// are states, uploads, slots, seeds and tables in this order, one block of core ops over static tensors, results that
/// are committed to distinct states of their type, kept or published. Reports the first thing found wrong.
llvm::LogicalResult verifyCoreForm(mlir::ModuleOp module);
/// The same of a program that the owner has rewritten and lowered: coins follow the tables, and first_rows may stand
/// among the ops.
llvm::LogicalResult verifyCoreFormWithCoins(mlir::ModuleOp module);

namespace detail {
/// Each family's own, beside what its records generate.
void registerCapturedOps(SojournDialect &dialect);
void registerContractionOps(SojournDialect &dialect);
void registerElementwiseOps(SojournDialect &dialect);
void registerIndexOps(SojournDialect &dialect);
void registerLayoutOps(SojournDialect &dialect);
void registerOwnerOps(SojournDialect &dialect);
void registerReductionOps(SojournDialect &dialect);
void registerRowOps(SojournDialect &dialect);
void registerSourceOps(SojournDialect &dialect);
void registerUnaryOps(SojournDialect &dialect);
void registerWindowOps(SojournDialect &dialect);
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
