// SPDX-License-Identifier: Apache-2.0
// Element types and dense row-major tensor types as the executor sees them: no MLIR, no torch.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstddef>
#include <cstdint>

namespace sojourn::runtime {

/// Element types; the numbers are those of ElementType in runtime/Program.fbs.
enum class Element : uint8_t {
  i1 = 0,
  u8 = 1,
  i8 = 2,
  i16 = 3,
  i32 = 4,
  i64 = 5,
  f16 = 6,
  bf16 = 7,
  f32 = 8,
  f64 = 9,
  c64 = 10,
  c128 = 11
};
inline constexpr unsigned kElementCount = 12;

/// Bytes of one element in memory and on the wire (i1 takes one byte, 0 or 1).
constexpr size_t byteWidth(Element element) {
  constexpr size_t widths[kElementCount] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return widths[static_cast<unsigned>(element)];
}

constexpr bool isFloat(Element element) { return element >= Element::f16 && element <= Element::f64; }
constexpr bool isComplex(Element element) { return element >= Element::c64; }
constexpr bool isInteger(Element element) { return element >= Element::u8 && element <= Element::i64; }

/// "f32", "i1", "u8", "c64" ...
llvm::StringRef elementName(Element element);

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
