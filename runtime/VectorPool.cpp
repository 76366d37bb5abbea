// SPDX-License-Identifier: Apache-2.0
// Lines of sum and maximum pooling, and of the latter's gradient, for f32 with strides of one and two. Compiled as
// VectorKernels.cpp is.
#include "runtime/PoolShape.h"
#include "runtime/VectorChoice.h"
#include "runtime/VectorShuffle.h"
#include "runtime/VectorWidth.h"
#include <stdint.h>

namespace sojourn::runtime::SOJOURN_ISA {

using SumLineFn = void (*)(float *, const float *, int64_t, int64_t, int64_t, int64_t, int64_t);
using MaxLineFn = void (*)(float *, int32_t *, const float *, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
using MaxGradientFn = void (*)(float *, const float *, const int32_t *, const PoolShape &, int64_t, int64_t);

namespace {

constexpr int kLanesMost = kVectorBytes / 4;
/// Lines are often shorter than a vector: what is left of one is taken by shorter ones, down to this.
constexpr int kLanesLeast = 4;

template <int lanes>
struct Vectors {
  typedef float Real __attribute__((vector_size(lanes * 4)));
  typedef int32_t Integer __attribute__((vector_size(lanes * 4)));
};

template <typename Vector, typename T>
[[gnu::always_inline]] inline Vector load(const T *from) {
  Vector vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}

/// Element i * stride of x.
template <int lanes, int stride>
[[gnu::always_inline]] inline typename Vectors<lanes>::Real take(const float *x) {
  using Real = typename Vectors<lanes>::Real;
  if constexpr (stride == 1) {
    return load<Real>(x);
  } else {
    typename Vectors<lanes>::Integer even;
    for (int lane = 0; lane < lanes; ++lane) {
      even[lane] = 2 * lane;
    }
    return shuffled(load<Real>(x), load<Real>(x + lanes), even);
  }
}

/// Sums of windows [from, n) while whole vectors may be read; returns the first that was not taken.
template <int lanes, int stride>
int64_t sumVectors(float *out, const float *x, int64_t pitch, int64_t rows, int64_t columns, int64_t from, int64_t n,
                   int64_t room) {
  const int64_t reach = (rows - 1) * pitch + columns - 1 + stride * lanes;
  for (; from + lanes <= n && from * stride + reach <= room; from += lanes) {
    typename Vectors<lanes>::Real sum = {};
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        sum += take<lanes, stride>(x + from * stride + row * pitch + column);
      }
    }
    __builtin_memcpy(out + from, &sum, sizeof sum);
  }
  if constexpr (lanes > kLanesLeast) {
    return sumVectors<lanes / 2, stride>(out, x, pitch, rows, columns, from, n, room);
  } else {
    return from;
  }
}

template <int stride>
void sumLine(float *out, const float *x, int64_t pitch, int64_t rows, int64_t columns, int64_t n, int64_t room) {
  int64_t i = sumVectors<kLanesMost, stride>(out, x, pitch, rows, columns, 0, n, room); // time: whole vectors of n
  for (; i < n; ++i) {
    float sum = 0;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        sum += x[row * pitch + i * stride + column];
      }
    }
    out[i] = sum;
  }
}

/// The same for maxima.
template <int lanes, int stride>
int64_t maxVectors(float *out, int32_t *codes, const float *x, int64_t pitch, int64_t rows, int64_t columns,
                   int64_t code, int64_t from, int64_t n, int64_t room) {
  using Real = typename Vectors<lanes>::Real;
  using Integer = typename Vectors<lanes>::Integer;
  const int64_t reach = (rows - 1) * pitch + columns - 1 + stride * lanes;
  for (; from + lanes <= n && from * stride + reach <= room; from += lanes) {
    const float *window = x + from * stride;
    Real best = take<lanes, stride>(window);
    Integer chosen = Integer{} + int32_t(code);
    int32_t number = int32_t(code);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column, ++number) {
        const Real value = take<lanes, stride>(window + row * pitch + column);
        const Integer isBetter = (value > best) | (value != value);
        best = isBetter ? value : best;
        chosen = isBetter ? Integer{} + number : chosen;
      }
    }
    __builtin_memcpy(out + from, &best, sizeof best);
    __builtin_memcpy(codes + from, &chosen, sizeof chosen);
  }
  if constexpr (lanes > kLanesLeast) {
    return maxVectors<lanes / 2, stride>(out, codes, x, pitch, rows, columns, code, from, n, room);
  } else {
    return from;
  }
}

template <int stride>
void maxLine(float *out, int32_t *codes, const float *x, int64_t pitch, int64_t rows, int64_t columns, int64_t code,
             int64_t n, int64_t room) {
  // time: whole vectors of n
  int64_t i = maxVectors<kLanesMost, stride>(out, codes, x, pitch, rows, columns, code, 0, n, room);
  for (; i < n; ++i) {
    float best = x[i * stride];
    int64_t taken = code, number = code;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column, ++number) {
        const float value = x[row * pitch + i * stride + column];
        const bool isBetter = (value > best) | (value != value);
        best = chosen(isBetter, value, best);
        taken = chosen(isBetter, number, taken);
      }
    }
    out[i] = best;
    codes[i] = int32_t(taken);
  }
}

/// The windows that cover a row: those of `lines` lines of results, in the first of which the row's elements have the
/// codes from `code` on, in each next one those from a stride of rows less on.
struct Cover {
  const float *gradient;
  const int32_t *codes;
  int64_t lines, code;
};

/// Elements k * stride + phase for `lanes` k: the sum over their windows, in the order of these.
template <int lanes, int stride>
[[gnu::always_inline]] inline typename Vectors<lanes>::Real gathered(const PoolShape &shape, const Cover &cover,
                                                                     int64_t k, int64_t phase) {
  using Real = typename Vectors<lanes>::Real;
  using Integer = typename Vectors<lanes>::Integer;
  Real sum = {};
  const int64_t place = phase + shape.columnsPad, last = shape.columns - 1;
  for (int64_t line = 0; line < cover.lines; ++line) {
    for (int64_t column = last - (last + place) % stride; column >= 0; column -= stride) {
      const int64_t at = line * shape.windows + k + (place - column) / stride;
      const int32_t code = int32_t(cover.code - line * stride * shape.columns + column);
      const Integer isThere = load<Integer>(cover.codes + at) == code;
      sum = isThere ? sum + load<Real>(cover.gradient + at) : sum;
    }
  }
  return sum;
}

/// Groups [from, past) of `stride` elements, whose windows all exist; returns the first that was not made.
template <int lanes, int stride>
[[gnu::always_inline]] inline int64_t gatherVectors(float *target, const PoolShape &shape, const Cover &cover,
                                                    int64_t from, int64_t past) {
  using Real = typename Vectors<lanes>::Real;
  for (; from + lanes <= past; from += lanes) {
    const Real first = gathered<lanes, stride>(shape, cover, from, 0);
    if constexpr (stride == 1) {
      __builtin_memcpy(target + from, &first, sizeof first);
    } else {
      const Real second = gathered<lanes, stride>(shape, cover, from, 1);
      typename Vectors<lanes>::Integer low, high;
      for (int lane = 0; lane < lanes; ++lane) {
        low[lane] = lane / 2 + lane % 2 * lanes;
        high[lane] = low[lane] + lanes / 2;
      }
      const Real parts[2] = {shuffled(first, second, low), shuffled(first, second, high)};
      __builtin_memcpy(target + from * 2, parts, sizeof parts);
    }
  }
  if constexpr (lanes > kLanesLeast) {
    return gatherVectors<lanes / 2, stride>(target, shape, cover, from, past);
  } else {
    return from;
  }
}

template <int stride>
float gatheredOne(const PoolShape &shape, const Cover &cover, int64_t element) {
  float sum = 0;
  for (int64_t line = 0; line < cover.lines; ++line) {
    for (int64_t column = shape.columns - 1; column >= 0; --column) {
      const int64_t start = element + shape.columnsPad - column, at = line * shape.windows + start / stride;
      if (start >= 0 && start % stride == 0 && start / stride < shape.windows) {
        const bool isThere = cover.codes[at] == cover.code - line * stride * shape.columns + column;
        sum = chosen(isThere, sum + cover.gradient[at], sum);
      }
    }
  }
  return sum;
}

/// Windows of 2 x 2 side by side, lines [first, past) of them with `windows` each: by whole vectors, in pieces of
/// `piece` windows, which divide a line. Returns the first line that was not, or not wholly, taken.
template <int piece>
int64_t spreadSquares(float *target, const float *gradient, const int32_t *codes, int64_t windows, int64_t first,
                      int64_t past) {
  constexpr int lanes = kLanesMost;
  using Real = typename Vectors<lanes>::Real;
  using Integer = typename Vectors<lanes>::Integer;
  Integer low, high;
  for (int lane = 0; lane < lanes; ++lane) {
    low[lane] = lane / 2 + lane % 2 * lanes;
    high[lane] = low[lane] + lanes / 2;
  }
  int64_t window = first * windows, column = 0;
  float *line = target + first * 4 * windows;
  for (; window + lanes <= past * windows; window += lanes) {
    const Real zero = {}, value = load<Real>(gradient + window) + zero;
    const Integer code = load<Integer>(codes + window);
    float rows[2][2 * lanes];
    for (int row = 0; row < 2; ++row) {
      const Real even = code == 2 * row ? value : zero, odd = code == 2 * row + 1 ? value : zero;
      const Real parts[2] = {shuffled(even, odd, low), shuffled(even, odd, high)};
      __builtin_memcpy(rows[row], parts, sizeof parts);
    }
    for (int part = 0; part < lanes; part += piece) {
      __builtin_memcpy(line + column * 2, rows[0] + part * 2, piece * 2 * sizeof(float));
      __builtin_memcpy(line + (windows + column) * 2, rows[1] + part * 2, piece * 2 * sizeof(float));
      column += piece;
      if (column == windows) {
        column = 0;
        line += 4 * windows;
      }
    }
  }
  return window / windows;
}

template <int stride>
void gatherRows(float *target, const float *gradient, const int32_t *codes, const PoolShape &shape, int64_t first,
                int64_t past) {
  int64_t plane = first / shape.height, row = first - plane * shape.height;
  // Groups of elements whose windows all exist: group k has those from k - before to k + after.
  const int64_t reach = shape.columns - 1 - shape.columnsPad, before = reach > 0 ? reach / stride : 0;
  const int64_t after = (stride - 1 + shape.columnsPad) / stride, groups = shape.width / stride;
  const int64_t pastInside = shape.windows - after < groups ? shape.windows - after : groups;
  for (int64_t number = first; number < past; ++number) {
    const int64_t place = row + shape.rowsPad, line = place < shape.rows ? 0 : (place - shape.rows) / stride + 1;
    const int64_t lines = place / stride + 1 < shape.lines ? place / stride + 1 : shape.lines;
    const int64_t at = (plane * shape.lines + line) * shape.windows;
    const Cover cover = {gradient + at, codes + at, lines - line, (place - line * stride) * shape.columns};
    float *x = target + number * shape.width;
    int64_t done = before;
    if (lines > line) {
      done = gatherVectors<kLanesMost, stride>(x, shape, cover, before, pastInside); // time: whole vectors of a line
    }
    const bool hasVectors = done > before;
    for (int64_t i = 0; hasVectors && i < before * stride; ++i) {
      x[i] = gatheredOne<stride>(shape, cover, i);
    }
    for (int64_t i = hasVectors ? done * stride : 0; i < shape.width; ++i) {
      x[i] = gatheredOne<stride>(shape, cover, i);
    }
    plane += ++row == shape.height ? 1 : 0;
    row = row == shape.height ? 0 : row;
  }
}

template <int stride>
void maxGradient(float *target, const float *gradient, const int32_t *codes, const PoolShape &shape, int64_t first,
                 int64_t past) {
  const bool areSquares = stride == 2 && shape.rows == 2 && shape.columns == 2 &&
                          shape.rowsPad + shape.columnsPad == 0 && shape.height == 2 * shape.lines &&
                          shape.width == 2 * shape.windows;
  if (areSquares && shape.windows % kLanesLeast == 0) {
    const int64_t line = (first + 1) / 2;
    gatherRows<stride>(target, gradient, codes, shape, first, line * 2 < past ? line * 2 : past);
    const auto spread = shape.windows % 16 == 0 && kLanesMost == 16 ? spreadSquares<kLanesMost>
                        : shape.windows % 8 == 0 && kLanesMost >= 8 ? spreadSquares<(kLanesMost < 8 ? 4 : 8)>
                                                                    : spreadSquares<4>;
    first = line * 2 < past ? 2 * spread(target, gradient, codes, shape.windows, line, past / 2) : past;
  }
  gatherRows<stride>(target, gradient, codes, shape, first, past);
}

} // namespace

SumLineFn sumLineOf(int64_t stride) { return stride == 1 ? sumLine<1> : stride == 2 ? sumLine<2> : nullptr; }
MaxLineFn maxLineOf(int64_t stride) { return stride == 1 ? maxLine<1> : stride == 2 ? maxLine<2> : nullptr; }
MaxGradientFn maxGradientOf(int64_t stride) {
  return stride == 1 ? maxGradient<1> : stride == 2 ? maxGradient<2> : nullptr;
}

} // namespace sojourn::runtime::SOJOURN_ISA
