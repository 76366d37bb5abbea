// SPDX-License-Identifier: Apache-2.0
// Combinations over windows that are large and overlap much, at a cost that does not grow with the window: along each
// dim runs of 1, 2, 4 ... elements are combined by doubling, and a window is the few runs that its length is made of.
#ifndef SOJOURN_RUNTIME_SLIDINGWINDOWS_H
#define SOJOURN_RUNTIME_SLIDINGWINDOWS_H
#include "runtime/Stop.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace sojourn::runtime {

/// What the combination of one plane works on: two sets of cells, and per window of a dim two numbers.
template <typename Cell>
struct WindowMemory {
  Cell *cells, *spare;
  int64_t *at, *count;

  /// `plane`: the most cells that a plane or its result has; `windows`: the most windows along one dim.
  static size_t bytes(int64_t plane, int64_t windows) {
    return 2 * static_cast<size_t>(plane) * sizeof(Cell) + 2 * static_cast<size_t>(windows) * sizeof(int64_t);
  }
  WindowMemory(void *memory, int64_t plane, int64_t windows)
      : cells(static_cast<Cell *>(memory)), spare(cells + plane), at(reinterpret_cast<int64_t *>(spare + plane)),
        count(at + windows) {
    static_assert(sizeof(Cell) % sizeof(int64_t) == 0 || sizeof(Cell) * 2 == sizeof(int64_t));
  }
};

/// Replaces the cells of one plane (row-major over `sizes`) by one cell per window along dim d; `sizes[d]` becomes the
/// number of windows. `Ranges` knows them: out[d], and for window o along d its first cell and how many it has.
/// Cost: cells before and after, times the logarithm of the longest window; the run can be stopped meanwhile.
template <typename Cell, typename Combine, typename Ranges>
void combineAlong(const Ranges &ranges, int d, WindowMemory<Cell> &memory, int64_t (&sizes)[3], Cell none,
                  Combine combine) {
  int64_t outer = 1, inner = 1, in = sizes[d], out = ranges.out[d];
  for (int k = 0; k < 3; ++k) {
    (k < d ? outer : inner) *= k == d ? 1 : sizes[k];
  }
  int64_t most = 0;
  for (int64_t o = 0; o < out; ++o) {
    ranges.cells(d, o, memory.at[o], memory.count[o]);
    most = std::max(most, memory.count[o]); // time: cells of a window
  }
  Cell *cells = memory.cells, *result = memory.spare;
  std::fill_n(result, outer * out * inner, none);
  constexpr int64_t kLook = int64_t{1} << 20;
  int64_t since = 0; // cells since the last look at the flag
  auto into = [&](Cell *target, const Cell *source) {
    since += inner;
    if (since >= kLook) {
      checkStop();
      since = 0;
    }
    for (int64_t k = 0; k < inner; ++k) {
      target[k] = combine(target[k], source[k]);
    }
  };
  for (int64_t length = 1; length <= most; length *= 2) {
    // Each cell now stands for `length` of them, from itself on.
    int64_t step = length * ranges.dilation[d];
    for (int64_t o = 0; o < out; ++o) {
      if ((memory.count[o] & length) == 0) { // time: cells of a window
        continue;
      }
      for (int64_t plane = 0; plane < outer; ++plane) {
        into(result + (plane * out + o) * inner, cells + (plane * in + memory.at[o]) * inner);
      }
      memory.at[o] += step;
    }
    if (length > most / 2) {
      break;
    }
    // Ascending: what is read has not been doubled yet. Cells near the end stand for less, and are not asked again.
    for (int64_t plane = 0; plane < outer; ++plane) {
      for (int64_t i = 0; i + step < in; ++i) {
        into(cells + (plane * in + i) * inner, cells + (plane * in + i + step) * inner);
      }
    }
  }
  std::swap(memory.cells, memory.spare);
  sizes[d] = out;
}

/// All three dims, those that shrink first, so that no step holds more cells than the plane or its result. What comes
/// out lies in `memory.cells`.
template <typename Cell, typename Combine, typename Ranges>
void combineWindows(const Ranges &ranges, WindowMemory<Cell> &memory, Cell none, Combine combine) {
  int64_t sizes[3] = {ranges.in[0], ranges.in[1], ranges.in[2]};
  for (bool shrinking : {true, false}) {
    for (int d = 0; d < 3; ++d) {
      if ((ranges.out[d] <= ranges.in[d]) == shrinking) {
        combineAlong(ranges, d, memory, sizes, none, combine);
      }
    }
  }
}

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_SLIDINGWINDOWS_H
