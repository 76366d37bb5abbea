// SPDX-License-Identifier: Apache-2.0
// The passes, and the named phases that a module goes through on its way from a trace to a program.
#ifndef SOJOURN_PASSES_PASSES_H
#define SOJOURN_PASSES_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <memory>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace sojourn {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

/// Names of the phases in order: captured, functional, promoted, decomposed, core.
llvm::ArrayRef<llvm::StringLiteral> phaseNames();

/// Fails, at the function, unless it has a body of one block: the form of a step.
llvm::LogicalResult expectOneBlock(mlir::func::FuncOp function);

/// Records in the module which phase it has reached.
void setPhase(mlir::ModuleOp module, llvm::StringRef phase);

/// Appends the passes that lead from phase `from` to phase `to`; fails for unknown or unordered names.
llvm::LogicalResult buildPhases(mlir::OpPassManager &manager, llvm::StringRef from, llvm::StringRef to);

/// Takes the module from phase `from` to phase `to`. `afterPhase`, if given, sees the module after every phase that
/// was run, and once before the first as `from`. Diagnostics go to the context; the module is unusable on failure.
llvm::LogicalResult runPhases(mlir::ModuleOp module, llvm::StringRef from, llvm::StringRef to,
                              llvm::function_ref<void(llvm::StringRef, mlir::ModuleOp)> afterPhase = nullptr);

/// Registers every pass and the pipeline `sojourn-to-core` with MLIR's command line.
void registerPasses();

} // namespace sojourn

#endif // SOJOURN_PASSES_PASSES_H
