// SPDX-License-Identifier: Apache-2.0
// Windows as boxes (see Box.h).
#include "dialect/Box.h"

using namespace sojourn;

std::optional<Box> sojourn::boxOf(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> sizes,
                                  llvm::ArrayRef<int64_t> strides, int64_t offset, int64_t *crossed) {
  int64_t ignored = -1;
  int64_t &passed = crossed ? *crossed : ignored;
  passed = -1;
  const size_t rank = shape.size();
  Box box;
  llvm::SmallVector<int64_t> places(rank, 1); // elements from one place of a dim to the next
  for (size_t dim = rank; dim-- > 1;) {
    places[dim - 1] = places[dim] * shape[dim];
  }
  box.spans.assign(rank, 1);
  for (size_t dim = 0; dim < rank; ++dim) {
    box.starts.push_back(offset / places[dim] % shape[dim]);
  }
  for (auto [size, stride] : llvm::zip(sizes, strides)) {
    if (size == 0 || stride < 0) {
      return std::nullopt;
    }
    box.dims.push_back(-1);
    box.steps.push_back(0);
    if (size == 1 || stride == 0) {
      continue;
    }
    size_t dim = 0;
    while (dim < rank && (places[dim] > stride || shape[dim] == 1)) {
      ++dim;
    }
    if (dim == rank || stride % places[dim] != 0) {
      passed = dim < rank ? static_cast<int64_t>(dim) + 1 : -1;
      return std::nullopt;
    }
    box.dims.back() = static_cast<int64_t>(dim);
    box.steps.back() = stride / places[dim];
    box.spans[dim] += (size - 1) * box.steps.back();
  }
  for (size_t dim = rank; dim-- > 0;) {
    if (box.starts[dim] + box.spans[dim] > shape[dim]) {
      passed = static_cast<int64_t>(dim);
      return std::nullopt;
    }
  }
  return box;
}
