// SPDX-License-Identifier: Apache-2.0
// The one public header of the dialect: types, attributes, ops, names of module attributes, the core-form predicate.
#ifndef SOJOURN_DIALECT_DIALECT_H
#define SOJOURN_DIALECT_DIALECT_H

#include "dialect/Cost.h"
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
inline constexpr llvm::StringLiteral kPhaseAttr = "sojourn.phase";
inline constexpr llvm::StringLiteral kKindAttr = "sojourn.kind";
inline constexpr llvm::StringLiteral kResultAttr = "sojourn.result";
inline constexpr llvm::StringLiteral kTargetAttr = "sojourn.target";
/// A unit attribute of results that are committed or kept: the value is what the scientist trains (a leaf that requires
/// a gradient). A hint: a private owner takes a sum over rows in it for a gradient. Before functionalization also of
/// the states behind such results.
inline constexpr llvm::StringLiteral kTrainedAttr = "sojourn.trained";
inline constexpr llvm::StringLiteral kStepName = "step";

/// The kinds of argument in the order in which they must stand.
/// Only the owner appends coins: its noise and its draws. No program has them.
enum class StepArg : uint8_t { State, Upload, Slot, Seed, Table, Coin };
/// What becomes of a result.
enum class StepResult : uint8_t { Commit, Keep, Publish };

llvm::StringRef stringify(StepArg kind);
llvm::StringRef stringify(StepResult kind);
std::optional<StepArg> parseStepArg(llvm::StringRef text);
std::optional<StepResult> parseStepResult(llvm::StringRef text);

/// The contract with the owner as a predicate: a module attribute for promotion, one function `step` whose arguments
/// are states, uploads, slots, seeds and tables in this order, one block of core ops over static tensors, results that
/// are committed to distinct states of their type, kept or published. Reports the first thing found wrong.
llvm::LogicalResult verifyCoreForm(mlir::ModuleOp module);
/// The same of a program that the owner has rewritten and lowered: coins follow the tables.
llvm::LogicalResult verifyCoreFormWithCoins(mlir::ModuleOp module);

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

#define GET_OP_CLASSES
#include "dialect/Ops.h.inc"

#endif // SOJOURN_DIALECT_DIALECT_H
