// SPDX-License-Identifier: Apache-2.0
// Combinations over windows that are large and overlap much, at a cost that does not grow with the window: along each
// dim runs of 1, 2, 4 ... elements are combined by doubling, and a window is the few runs that its length is made of.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace sojourn::runtime {

/// Replaces the cells of one plane (row-major over `sizes`) by one cell per window along dim d; `sizes[d]` becomes the
/// number of windows. `Ranges` knows them: out[d], and for window o along d its first cell and how many it has.
/// Cost: cells before and after, times the logarithm of the longest window.
template <typename Cell, typename Combine, typename Ranges>
void combineAlong(const Ranges &ranges, int d, std::vector<Cell> &cells, int64_t (&sizes)[3], Cell none,
                  Combine combine) {
  int64_t outer = 1, inner = 1, in = sizes[d], out = ranges.out[d];
  for (int k = 0; k < 3; ++k) {
    (k < d ? outer : inner) *= k == d ? 1 : sizes[k];
  }
  std::vector<int64_t> at(static_cast<size_t>(out)), count(static_cast<size_t>(out));
  int64_t most = 0;
  for (int64_t o = 0; o < out; ++o) {
    ranges.cells(d, o, at[static_cast<size_t>(o)], count[static_cast<size_t>(o)]);
    most = std::max(most, count[static_cast<size_t>(o)]);
  }
  std::vector<Cell> result(static_cast<size_t>(outer * out * inner), none);
  auto into = [&](Cell *target, const Cell *source) {
    for (int64_t k = 0; k < inner; ++k) {
      target[k] = combine(target[k], source[k]);
    }
  };
  for (int64_t length = 1; length <= most; length *= 2) {
    // Each cell now stands for `length` of them, from itself on.
    int64_t step = length * ranges.dilation[d];
    for (int64_t o = 0; o < out; ++o) {
      if ((count[static_cast<size_t>(o)] & length) == 0) {
        continue;
      }
      for (int64_t plane = 0; plane < outer; ++plane) {
        into(&result[static_cast<size_t>((plane * out + o) * inner)],
             &cells[static_cast<size_t>((plane * in + at[static_cast<size_t>(o)]) * inner)]);
      }
      at[static_cast<size_t>(o)] += step;
    }
    if (length > most / 2) {
      break;
    }
    // Ascending: what is read has not been doubled yet. Cells near the end stand for less, and are not asked again.
    for (int64_t plane = 0; plane < outer; ++plane) {
      for (int64_t i = 0; i + step < in; ++i) {
        into(&cells[static_cast<size_t>((plane * in + i) * inner)],
             &cells[static_cast<size_t>((plane * in + i + step) * inner)]);
      }
    }
  }
  cells = std::move(result);
  sizes[d] = out;
}

/// All three dims, those that shrink first, so that no step holds more cells than the plane or its result.
template <typename Cell, typename Combine, typename Ranges>
void combineWindows(const Ranges &ranges, std::vector<Cell> &cells, Cell none, Combine combine) {
  int64_t sizes[3] = {ranges.in[0], ranges.in[1], ranges.in[2]};
  for (bool shrinking : {true, false}) {
    for (int d = 0; d < 3; ++d) {
      if ((ranges.out[d] <= ranges.in[d]) == shrinking) {
        combineAlong(ranges, d, cells, sizes, none, combine);
      }
    }
  }
}

} // namespace sojourn::runtime
