// SPDX-License-Identifier: Apache-2.0
// Expansion of calls on lists of tensors; shared by the pass and the fused optimizers.
#ifndef SOJOURN_PASSES_EXPANDFOREACH_H
#define SOJOURN_PASSES_EXPANDFOREACH_H

#include "passes/Aten.h"

namespace sojourn {

/// The calls per element of a `_foreach_` call of `count` elements, in order. `inPlace`: each writes its `self`, in
/// captured form. Reports what it cannot expand and fails.
mlir::FailureOr<llvm::SmallVector<AtenOp>> expandForeach(mlir::OpBuilder &builder, AtenOp op, size_t count,
                                                         bool inPlace);

/// Replacements for all results of a fused optimizer call ("_fused_adam", ...), in order; nullopt for another base
/// name. Reports what it cannot expand and fails.
std::optional<mlir::FailureOr<llvm::SmallVector<mlir::Value>>> expandFusedOptimizer(mlir::OpBuilder &builder,
                                                                                    AtenOp op);

} // namespace sojourn

#endif // SOJOURN_PASSES_EXPANDFOREACH_H
