// SPDX-License-Identifier: Apache-2.0
#include "passes/parties/Slices.h"

#include "dialect/Bounds.h"
#include "dialect/rows/Support.h"

#include "llvm/Support/MathExtras.h"

#include <array>

using namespace mlir;
using namespace sojourn;
using namespace sojourn::parties;

/// `count` rows from `start` on, each `step`-th.
static std::vector<SlicedSegment> take(const Segments &segments, int64_t start, int64_t count, int64_t step) {
  std::vector<SlicedSegment> taken;
  std::array<int64_t, bounds::kPartiesMost> rowsBefore{};
  int64_t begin = 0, done = 0;
  for (const Segment &segment : segments) {
    const int64_t end = begin + segment.rows;
    // Nothing is left to take: a large step would leave the range of numbers.
    const int64_t next = done == count ? end : start + done * step;
    const int64_t before = std::exchange(rowsBefore[segment.role], rowsBefore[segment.role] + segment.rows);
    const int64_t rows =
        next >= end ? 0 : std::min(count - done, static_cast<int64_t>(llvm::divideCeil(end - next, step)));
    taken.push_back({segment.role, before, rows > 0 ? next - begin : 0, rows, step});
    done += rows;
    begin = end;
  }
  return taken;
}

std::optional<SlicedRows> parties::sliceRows(SliceOp slice, const Where &parts) {
  ArrayRef<int64_t> shape = rows::shapeOf(slice.getX()), result = rows::shapeOf(slice.getResult());
  std::optional<rows::Place> place = parties::placeOf(parts, shape);
  if (!place) {
    return std::nullopt;
  }
  const auto dim = static_cast<size_t>(place->dim);
  const int64_t start = slice.getStart()[dim], step = slice.getStride()[dim], size = result[dim];
  SlicedRows sliced{.segments = *parts.segments, .stride = 1, .taken = {}};
  for (int64_t after : result.drop_front(dim + 1)) {
    sliced.stride *= after;
  }
  if (start == 0 && size == shape[dim]) {
    sliced.stride *= place->inner;
    return sliced;
  }
  if (step == place->inner && start < place->inner && size == place->outer * rowsOf(*parts.segments)) {
    return sliced; // the same element of each row
  }
  const bool isRows = place->inner == 1 || (step == 1 && start % place->inner == 0 && size % place->inner == 0);
  if (place->outer != 1 || !isRows) {
    return std::nullopt;
  }
  sliced.stride *= place->inner;
  sliced.taken = take(*parts.segments, start / place->inner, size / place->inner, step);
  for (auto [segment, taken] : llvm::zip(sliced.segments, sliced.taken)) {
    segment.rows = taken.rows;
  }
  return sliced;
}
