// SPDX-License-Identifier: Apache-2.0
// Expansion of calls on lists of tensors; shared by the pass and the fused optimizers.
#ifndef SOJOURN_PASSES_EXPANDFOREACH_H
#define SOJOURN_PASSES_EXPANDFOREACH_H

#include "passes/Aten.h"

namespace sojourn {

/// Replacements for all results of a fused optimizer call ("_fused_adam", ...), in order; nullopt for another base
/// name. Reports what it cannot expand and fails.
std::optional<mlir::FailureOr<llvm::SmallVector<mlir::Value>>> expandFusedOptimizer(mlir::OpBuilder &builder,
                                                                                    AtenOp op);

} // namespace sojourn

#endif // SOJOURN_PASSES_EXPANDFOREACH_H
