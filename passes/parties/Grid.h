// SPDX-License-Identifier: Apache-2.0
// Terms of masked sums as integers on a grid, and their sums as numbers again.
#ifndef SOJOURN_PASSES_PARTIES_GRID_H
#define SOJOURN_PASSES_PARTIES_GRID_H

#include "passes/parties/Placement.h"

#include "mlir/IR/Builders.h"

namespace sojourn::parties {

/// How owners see each other's terms of sums over rows of all roles, three or more: as they are, or under masks that
/// cancel in the sum. Other terms are always seen: of sums over several sets of roles, differences tell single ones.
enum class Sums : uint8_t { Clear, Masked };

/// The grid of floats has the step 2^-kGridBits. A role's term is within +-2^(62 - kGridBits) / roles, so that sums of
/// all stay below 2^62 steps.
inline constexpr int kGridBits = 42, kSumBits = 62;

/// Whether the op's sum has masks where the owners ask for them. Complex sums never have.
bool isMaskable(const Placement &placement, mlir::Operation *op);

/// A role's term of a masked sum, as integers of 64 bits.
struct GridTerm {
  mlir::Value words; ///< of the term's shape
  mlir::Value lost;  ///< how many of its elements are not finite or outside the grid; null for integers
};
GridTerm toGrid(mlir::OpBuilder &builder, mlir::Location location, mlir::Value term, int64_t roles);
/// The sum of the terms, of type `type`: NaN where elements were lost at any role.
mlir::Value fromGrid(mlir::OpBuilder &builder, mlir::Location location, const GridTerm &sum,
                     mlir::RankedTensorType type);

} // namespace sojourn::parties

#endif // SOJOURN_PASSES_PARTIES_GRID_H
