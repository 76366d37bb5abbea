// SPDX-License-Identifier: Apache-2.0
// Bounds and shape arithmetic that cannot overflow: the owner runs these on hostile programs.
#ifndef SOJOURN_DIALECT_SUPPORT_H
#define SOJOURN_DIALECT_SUPPORT_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>

namespace sojourn {

/// No tensor has more dims.
inline constexpr int64_t kMaxRank = 32;
/// No tensor has more elements; also bounds every size, stride and offset, so that sums of a few never overflow.
inline constexpr int64_t kMaxElements = int64_t(1) << 40;
/// No table has more columns.
inline constexpr int64_t kMaxColumns = 1 << 16;
/// No entry of a shaped column has more dims, or more elements.
inline constexpr int64_t kMaxEntryRank = 8;
inline constexpr int64_t kMaxEntryElements = int64_t(1) << 24;

/// Product of the sizes; nullopt for a negative size or a product above kMaxElements.
std::optional<int64_t> checkedNumel(llvm::ArrayRef<int64_t> shape);

/// Whether the type is an element of core form.
bool isCoreElement(mlir::Type type);
/// Whether the type is a rank-0 tensor of signless integers of that width.
bool isRankZero(mlir::Type type, unsigned integerWidth);
/// Whether the type is !sojourn.scalar of a signless integer of that width.
bool isScalarOf(mlir::Type type, unsigned integerWidth);

/// Output size of a sliding window; nullopt when the attributes are out of range or the window does not fit.
std::optional<int64_t> windowOutput(int64_t size, int64_t window, int64_t stride, int64_t padding, int64_t dilation);

} // namespace sojourn

#endif // SOJOURN_DIALECT_SUPPORT_H
