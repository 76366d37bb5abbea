// SPDX-License-Identifier: Apache-2.0
// What private rows and secret draws can reach without noise: data flow alone, no facts, no ranges. A second wall
// behind the row analysis, small enough to be read in minutes.
#ifndef SOJOURN_PASSES_PRIVACY_TAINT_H
#define SOJOURN_PASSES_PRIVACY_TAINT_H

#include "passes/Rows.h"

#include <vector>

namespace sojourn {

/// Per result of a rewritten step (with `noise` ops, constants in their places) whether there is a way to it from a
/// read of a private table, an argument that is not public, or a draw with `expected`, other than through `noise`.
std::vector<bool> taintedResults(mlir::func::FuncOp step, const RowInputs &inputs);

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_TAINT_H
