// SPDX-License-Identifier: Apache-2.0
// Strided windows whose dims run along the dims of their storage: where such a window begins is one number per dim of
// the storage, each of which may vary for itself.
#ifndef SOJOURN_DIALECT_BOX_H
#define SOJOURN_DIALECT_BOX_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>

namespace sojourn {

struct Box {
  /// Per dim of the storage: where the window begins, and how many places it reaches over.
  llvm::SmallVector<int64_t> starts, spans;
  /// Per dim of the window: the dim of the storage that it runs along and its step in places; -1 where it does not move
  /// (one element, or repeated).
  llvm::SmallVector<int64_t> dims, steps;
};

/// The box of a window on a row-major storage of dims `shape`, both without a size of 0. Nothing where a dim of the
/// window runs along several dims of the storage, or past the end of one; `crossed` is then the dim whose end it
/// passes, which with the dim before it is one (-1 where that does not help).
std::optional<Box> boxOf(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> strides,
                         int64_t offset, int64_t *crossed = nullptr);

} // namespace sojourn

#endif // SOJOURN_DIALECT_BOX_H
