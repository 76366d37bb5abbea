// SPDX-License-Identifier: Apache-2.0
// Which arguments each result of a program is computed from.
#ifndef SOJOURN_PASSES_DEPENDENCE_H
#define SOJOURN_PASSES_DEPENDENCE_H

#include "passes/DependenceSummary.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>

namespace sojourn {

/// Analyses a module in core form; time and memory are linear in its operands. Nothing, with the reason, where there is
/// no step.
std::optional<DependenceSummary> dependenceOf(mlir::ModuleOp core, std::string &reason);

} // namespace sojourn

#endif // SOJOURN_PASSES_DEPENDENCE_H
