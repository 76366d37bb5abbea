// SPDX-License-Identifier: Apache-2.0
// Dense row-major tensor types as the executor sees them: no MLIR, no torch.
#ifndef SOJOURN_RUNTIME_TENSOR_H
#define SOJOURN_RUNTIME_TENSOR_H
#include "dialect/elements/Elements.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstddef>
#include <cstdint>

namespace sojourn::runtime {

using sojourn::byteWidth;
using sojourn::Element;
using sojourn::elementName;
using sojourn::isComplex;
using sojourn::isFloat;
using sojourn::isInteger;
using sojourn::kElementCount;

/// A dense, row-major tensor type. Rank 0 holds one element.
struct TensorType {
  Element element = Element::f32;
  llvm::SmallVector<int64_t, 4> dims;

  int64_t numel() const {
    int64_t count = 1;
    for (int64_t dim : dims) {
      count *= dim;
    }
    return count;
  }
  size_t bytes() const { return static_cast<size_t>(numel()) * byteWidth(element); }
  unsigned rank() const { return static_cast<unsigned>(dims.size()); }
  bool operator==(const TensorType &other) const { return element == other.element && dims == other.dims; }
};

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_TENSOR_H
