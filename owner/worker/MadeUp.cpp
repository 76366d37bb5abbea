// SPDX-License-Identifier: Apache-2.0
// Made-up arguments (see MadeUp.h).
#include "owner/worker/MadeUp.h"

#include "runtime/Buffer.h"

#include <algorithm>
#include <array>
#include <bit>

namespace sojourn::owner {

namespace {

/// A mixing function of 64 bits (Steele, Lea, Flood 2014: SplitMix64).
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Numbers `first` and on of the sequence.
void fill(int64_t first, runtime::Element element, void *out, int64_t count) {
  if (runtime::isComplex(element)) { // a pair of reals
    element = runtime::byteWidth(element) == 8 ? runtime::Element::f32 : runtime::Element::f64;
    count *= 2;
    first *= 2;
  }
  constexpr int64_t kPiece = 256;
  std::array<float, kPiece> piece;
  auto *target = static_cast<uint8_t *>(out);
  for (int64_t at = 0; at < count; at += kPiece) {
    const int64_t n = std::min(kPiece, count - at);
    for (int64_t index = 0; index < n; ++index) {
      const uint64_t bits = mixed(static_cast<uint64_t>(first + at + index));
      piece[static_cast<size_t>(index)] = std::bit_cast<float>(0x41800000u | static_cast<uint32_t>(bits >> 41)) - 24;
      if (element == runtime::Element::i1) {
        piece[static_cast<size_t>(index)] = static_cast<float>(bits & 1);
      }
    }
    runtime::convertElements(runtime::Element::f32, piece.data(), element,
                             target + static_cast<size_t>(at) * runtime::byteWidth(element), n);
  }
}

} // namespace

runtime::HostTensor madeUp(const runtime::TensorType &type, runtime::BufferPool &buffers) {
  runtime::HostTensor tensor{type, buffers.allocate(type.bytes())};
  fill(0, type.element, tensor.buffer->data(), static_cast<int64_t>(type.bytes() / runtime::byteWidth(type.element)));
  return tensor;
}

void MadeUpRows::readRows(llvm::ArrayRef<std::string> columnNames, llvm::ArrayRef<int64_t> indices,
                          runtime::Element element, void *out) const {
  const Column *single = columnNames.size() == 1 ? table->column(columnNames[0]) : nullptr;
  int64_t each = static_cast<int64_t>(columnNames.size());
  for (size_t dim = 0; single && dim < single->dims.size(); ++dim) {
    each *= single->dims[dim];
  }
  auto *target = static_cast<uint8_t *>(out);
  for (int64_t row : indices) { // row by row, as rows are read
    fill(row * each, element, target, each);
    target += static_cast<size_t>(each) * runtime::byteWidth(element);
  }
}

} // namespace sojourn::owner
