// SPDX-License-Identifier: Apache-2.0
// The module of each role of a joint step.
#ifndef SOJOURN_PASSES_PARTIES_PART_H
#define SOJOURN_PASSES_PARTIES_PART_H

#include "passes/parties/Grid.h"
#include "passes/parties/Placement.h"

#include "mlir/IR/OwningOpRef.h"

namespace sojourn::parties {

/// What one role runs. Its arguments and results are those of the joint step that it has, in the same order; of a value
/// in parts, its rows.
struct RolePart {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< of role form (verifyCoreFormOfRole)
  std::vector<unsigned> arguments;          ///< number of each in the joint step
  std::vector<unsigned> results;            ///< likewise
};

/// The part of a role. Meetings that do not wait for each other share one exchange (across_sum); all parts of a step
/// have the same exchanges in the same order. Ops with unused results are left out.
///
/// Tensors that all know are cut once for all ops that take the same rows. Fails, with an error at the op, where the
/// part would have more than kPartOpsMost ops all the same. Sums that are masked lie on a grid (Grid.h).
mlir::FailureOr<RolePart> partOf(mlir::ModuleOp joint, const Placement &placement, unsigned role, Sums sums);
inline constexpr size_t kPartOpsMost = 800'000;

} // namespace sojourn::parties

#endif // SOJOURN_PASSES_PARTIES_PART_H
