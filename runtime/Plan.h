// SPDX-License-Identifier: Apache-2.0
// Slots (places of values), their lifetimes in instruction positions, and offsets in one arena.
#ifndef SOJOURN_RUNTIME_PLAN_H
#define SOJOURN_RUNTIME_PLAN_H
#include "runtime/Tensor.h"
#include <cstdint>
#include <vector>

namespace sojourn::runtime {

using SlotId = uint32_t;
inline constexpr SlotId kNoSlot = UINT32_MAX;

enum class SlotKind : uint8_t { argument, output, arena, constant };

/// One place in memory. Its pointer is slots[id] at run time.
struct Slot {
  SlotKind kind = SlotKind::arena;
  size_t bytes = 0;
  uint32_t index = 0;          ///< argument or output number; constant: offset in the constant block
  size_t offset = 0;           ///< arena: assigned by planArena
  uint32_t first = UINT32_MAX; ///< position of the instruction that writes it
  uint32_t last = 0;           ///< position of the last instruction that touches it

  void touch(uint32_t position) {
    first = position < first ? position : first;
    last = position > last ? position : last;
  }
};

/// `result` may take the memory of `operand`, which dies at the instruction that writes `result`.
struct Reuse {
  SlotId result, operand;
};

/// Assigns offsets to the arena slots and returns the arena's size. Slots whose lifetimes overlap
/// never share memory, except as `reuses` allows.
size_t planArena(std::vector<Slot> &slots, const std::vector<Reuse> &reuses);

/// A strided window on a slot; counts in elements.
struct StridedView {
  SlotId slot = kNoSlot;
  Element element = Element::f32;
  int64_t offset = 0;
  llvm::SmallVector<int64_t, 4> dims, strides;
};

/// Row-major strides of a dense tensor.
llvm::SmallVector<int64_t, 4> denseStrides(llvm::ArrayRef<int64_t> dims);
bool isDense(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides);
/// Strides under which `newDims` shows the same elements in the same order; false where none exist.
bool reshapeStrides(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides, llvm::ArrayRef<int64_t> newDims,
                    llvm::SmallVector<int64_t, 4> &newStrides);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_PLAN_H
