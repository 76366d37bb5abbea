// SPDX-License-Identifier: Apache-2.0
// Where slots lie after an op, from where they lie in its operands; for SlotReading.cpp. Written from the texts of the
// ops alone.
#ifndef SOJOURN_PASSES_SLOTRULES_H
#define SOJOURN_PASSES_SLOTRULES_H

#include "passes/SlotReading.h"

#include <optional>

namespace sojourn {

using Found = std::optional<SlotPlace>;

inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getShape();
}
inline int64_t rankOf(mlir::Value value) { return static_cast<int64_t>(shapeOf(value).size()); }

/// The place of an op's results; no slots where the op sums over them, nothing where no rule covers it. At least one
/// operand has slots, none of them is of rank 0, and the others come from no row.
Found placeAfter(mlir::Operation *op, const llvm::DenseMap<mlir::Value, SlotReading> &readings);

/// All slots of the list, in order.
bool isWhole(const SlotPlace &place);
bool samePlace(const SlotPlace &a, const SlotPlace &b);
inline SlotPlace moved(SlotPlace place, int64_t dim) { return place.dim = dim, place; }

/// The value outside for an argument of a region of clipped_sum.
mlir::Value outside(mlir::Value value);

} // namespace sojourn

#endif // SOJOURN_PASSES_SLOTRULES_H
