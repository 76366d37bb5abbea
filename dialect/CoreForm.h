// SPDX-License-Identifier: Apache-2.0
// The contract with the owner: core form as a predicate, and the names of the attributes that carry a step's signature.
#ifndef SOJOURN_DIALECT_COREFORM_H
#define SOJOURN_DIALECT_COREFORM_H

#include "dialect/Signature.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"

namespace mlir {
class DialectRegistry;
namespace func {
class FuncOp;
} // namespace func
} // namespace mlir

namespace sojourn {

/// Attributes of the module, of the arguments and of the results of `@step`. The module alone carries the signature.
/// The promotion rules that a trace was recorded by; an op has one if it differs, until promotion.
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
/// Of the module of a joint step: its number of roles. A role is a place that an owner takes when the step runs; a
/// module without this attribute is the step of one owner.
inline constexpr llvm::StringLiteral kPartiesAttr = "sojourn.parties";
/// Of an argument of a joint step: the role that holds it, an i64. Every table has one; a state or an upload without
/// one, and without parts, is known to all roles, as slots and seeds are.
inline constexpr llvm::StringLiteral kPartyAttr = "sojourn.party";
/// Of a state or an upload of a joint step that lies in parts at several roles: a PartsAttr.
inline constexpr llvm::StringLiteral kPartsAttr = "sojourn.parts";
/// Of the module of one role, which placement makes (passes/parties): its number.
inline constexpr llvm::StringLiteral kRoleAttr = "sojourn.role";
inline constexpr llvm::StringLiteral kStepName = "step";

inline llvm::StringRef stringify(StepArg kind) { return nameOf(kind); }
inline llvm::StringRef stringify(StepResult kind) { return nameOf(kind); }

/// The dialects that a module of a step is made of: this one and MLIR's func. To a registry, for tools and contexts
/// that load them when they read; or into a context at once.
void registerDialects(mlir::DialectRegistry &registry);
void loadDialects(mlir::MLIRContext &context);

/// The contract with the owner as a predicate: a module attribute for promotion, one function `step` whose arguments
/// are states, uploads, slots, seeds and tables in this order, one block of core ops over static tensors, results that
/// are committed to distinct states of their type, kept or published. Reports the first thing found wrong.
llvm::LogicalResult verifyCoreForm(mlir::ModuleOp module);
/// The same of a program that the owner has rewritten and lowered: coins follow the tables, and first_rows may stand
/// among the ops.
llvm::LogicalResult verifyCoreFormWithCoins(mlir::ModuleOp module);
/// The same of the module of one role: across_sum may stand among the ops.
llvm::LogicalResult verifyCoreFormOfRole(mlir::ModuleOp module);
/// The attributes that make a step a joint one: roles exist, each table has one, parts fit their types. Part of core
/// form.
llvm::LogicalResult verifyParties(mlir::ModuleOp module, mlir::func::FuncOp step);

} // namespace sojourn

#endif // SOJOURN_DIALECT_COREFORM_H
