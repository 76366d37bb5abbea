// SPDX-License-Identifier: Apache-2.0
// Strided windows on a dense storage as pure values: how to read one and how to write through one with core ops.
#ifndef SOJOURN_PASSES_STRIDEDVIEW_H
#define SOJOURN_PASSES_STRIDEDVIEW_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"

#include <cstdint>
#include <optional>

namespace sojourn {

class MovedViewOp;
class RefType;

/// How a window lies in a storage of row-major dims: `stages` of reshape and slice lead from the storage to a tensor
/// of shape `dense` (dims of size 1 dropped), whose dims are those of the window in another order, without the
/// dims of size 1 and the repeated ones.
struct WindowPlan {
  struct Stage {
    llvm::SmallVector<int64_t> shape, start, limit, stride;
    /// The shape after the slice.
    llvm::SmallVector<int64_t> sliced() const;
  };
  llvm::SmallVector<Stage, 2> stages;
  llvm::SmallVector<int64_t> dense;
  /// Dims of the window that vary, in the window's order, and the dim of `dense` that each of them is.
  llvm::SmallVector<int64_t> kept, perm;
};

/// The plan of a window that is not empty; nullopt when its strides do not factorise over the storage (overlapping
/// windows, strides that cross blocks unevenly).
std::optional<WindowPlan> planWindow(llvm::ArrayRef<int64_t> storage, RefType window);

/// Some two positions of the window are certainly one element: a dim of stride 0 that repeats.
bool isExpanded(RefType window);

/// Same sizes, offset and, where a size is above 1, strides.
bool isSameLayout(RefType a, RefType b);

/// Contents of `window`, given the value of its storage in the shape of `root`.
mlir::Value readWindow(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value storage, RefType root, RefType window);

/// The storage's value after `update` was written through `window`, which is not expanded.
mlir::Value writeWindow(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value storage, RefType root, RefType window,
                        mlir::Value update);

/// How many elements of one type lie in the memory of how many of another one: one of the two is 1. A boolean is a
/// byte there. nullopt for what is no number.
struct WidthRatio {
  int64_t parts = 1, numbers = 1;
};
std::optional<WidthRatio> widthRatio(mlir::Type storage, mlir::Type window);

/// As readWindow and writeWindow, through a window whose elements may be the storage's bits as another type, of any
/// width. No window of another type writes to a storage of booleans, which holds no other bytes than 0 and 1.
mlir::Value readTyped(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value storage, RefType root, RefType window);
mlir::Value writeTyped(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value storage, RefType root, RefType window,
                       mlir::Value update);

/// The same for a window whose place is said by numbers of the run.
mlir::Value readMoved(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value storage, RefType root,
                      MovedViewOp window);
mlir::Value writeMoved(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value storage, RefType root,
                       MovedViewOp window, mlir::Value update);

/// Layout ops that are left out when they change nothing.
mlir::Value reshapeTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, llvm::ArrayRef<int64_t> shape);
mlir::Value transposeBy(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, llvm::ArrayRef<int64_t> perm);

} // namespace sojourn

#endif // SOJOURN_PASSES_STRIDEDVIEW_H
