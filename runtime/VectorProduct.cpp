// SPDX-License-Identifier: Apache-2.0
// Products of f32 matrices whose right side was laid out in strips of columns. Compiled as VectorKernels.cpp is, but
// with multiplication and addition contracted to one rounding; only where the set has that.
//
// An element of a result is one chain of such additions per kDepth of the inner dim, and these are added in order: its
// bits depend neither on the tile it is made in nor on the width of vectors.
#include "runtime/VectorTranspose.h"
#include <stdint.h>

namespace sojourn::runtime::SOJOURN_ISA {

using PackFn = void (*)(float *, const float *, int64_t, int64_t, int64_t, int64_t);
using ProductFn = void (*)(float *, int64_t, const float *, int64_t, int64_t, const float *, int64_t, int64_t, int64_t,
                           const float *);

#if defined(__FMA__)

namespace {

constexpr int64_t kDepth = 512;
#if defined(__AVX512F__)
constexpr int kRows = 12;
#else
constexpr int kRows = 6;
#endif
constexpr int kWide = 2; ///< vectors of a tile's row

void pack(float *packed, const float *b, int64_t innerPitch, int64_t columnPitch, int64_t inner, int64_t columns) {
  for (int64_t strip = 0; strip < columns; strip += kStrip, packed += inner * kStrip) {
    const float *x = b + strip * columnPitch;
    const int64_t width = columns - strip < kStrip ? columns - strip : kStrip;
    int64_t done = 0;
    if (width == kStrip && columnPitch == 1) {
      for (; done < inner; ++done) {
        __builtin_memcpy(packed + done * kStrip, x + done * innerPitch, kStrip * sizeof(float));
      }
    } else if (width == kStrip && innerPitch == 1) {
      for (; done + kLanes <= inner; done += kLanes) {
        for (int64_t column = 0; column < kStrip; column += kLanes) {
          const float *lines = x + done + column * columnPitch;
          transpose(packed + done * kStrip + column, kStrip, [&](int64_t line) { return lines + line * columnPitch; });
        }
      }
    }
    for (; done < inner; ++done) {
      for (int64_t column = 0; column < kStrip; ++column) {
        packed[done * kStrip + column] = column < width ? x[done * innerPitch + column * columnPitch] : 0.0f;
      }
    }
  }
}

/// `rows` lines of kWide vectors of the result; fewer `columns` may be kept of them. `addend`, which lies as the result
/// does and may be it, is added unless null.
template <int rows>
void tile(float *out, int64_t outPitch, const float *a, int64_t rowPitch, int64_t innerPitch, const float *packed,
          int64_t inner, int64_t columns, const float *addend) {
  Vector sums[rows][kWide] = {};
  // Three bases and multiples of one pitch: addresses that one instruction makes.
  const char *first = reinterpret_cast<const char *>(a);
  const int64_t pitch = rowPitch * 4, step = innerPitch * 4, pitch3 = 3 * pitch;
  const char *second = first + 5 * pitch, *third = first + 10 * pitch;
  for (int64_t k = 0; k < inner; ++k) {
    Vector b[kWide];
#pragma GCC unroll 2
    for (int j = 0; j < kWide; ++j) {
      b[j] = load(packed + j * kLanes);
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) {
      const char *base = i < 5 ? first : i < 10 ? second : third;
      const int64_t offset = i % 5 == 3 ? pitch3 : i % 5 * pitch;
      const float x = *reinterpret_cast<const float *>(base + offset);
#pragma GCC unroll 2
      for (int j = 0; j < kWide; ++j) {
        sums[i][j] = x * b[j] + sums[i][j];
      }
    }
    packed += kStrip;
    first += step;
    second += step;
    third += step;
  }
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
    float *target = out + i * outPitch;
    const float *more = addend + (addend == nullptr ? 0 : i * outPitch);
    if (columns >= kWide * kLanes) {
#pragma GCC unroll 2
      for (int j = 0; j < kWide; ++j) {
        store(target + j * kLanes, addend != nullptr ? load(more + j * kLanes) + sums[i][j] : sums[i][j]);
      }
      continue;
    }
    float line[kWide * kLanes];
    __builtin_memcpy(line, sums[i], sizeof line);
    for (int64_t j = 0; j < columns; ++j) {
      target[j] = addend != nullptr ? more[j] + line[j] : line[j];
    }
  }
}

using TileFn = void (*)(float *, int64_t, const float *, int64_t, int64_t, const float *, int64_t, int64_t,
                        const float *);

template <int... counts>
struct Tiles {
  static constexpr TileFn table[] = {tile<counts>...};
};

TileFn tileOf(int64_t rows) {
#if defined(__AVX512F__)
  return Tiles<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>::table[rows - 1];
#else
  return Tiles<1, 2, 3, 4, 5, 6>::table[rows - 1];
#endif
}

/// Tiles whose left sides are gathered together: what is read of a line of the cache is used before it is gone.
constexpr int64_t kGathered = 4;

/// The left side of one tile after another, as each is read: its rows' elements for each step of the inner dim.
/// Tile i of `tiles` has rows [starts[i], starts[i + 1]), and its place at lines + i * kDepth * kRows.
void gather(float *lines, const float *a, int64_t rowPitch, int64_t innerPitch, const int64_t *starts, int64_t tiles,
            int64_t inner) {
  // Whole vectors where what lies behind a tile's row belongs to the matrix, and is written over by the next step.
  const int64_t past = starts[tiles]; // time: rows of tiles, as all starts are
  const int64_t fast = rowPitch == 1 && innerPitch >= past + kRows ? inner - 1 : 0;
  for (int64_t k = 0; k < inner; ++k, a += innerPitch) {
    for (int64_t number = 0; number < tiles; ++number) {
      const int64_t start = starts[number];            // time: a row
      const int64_t rows = starts[number + 1] - start; // time: a count of rows
      float *to = lines + number * kDepth * kRows + k * rows;
      const float *from = a + start * rowPitch;
      if (k < fast || (rowPitch == 1 && rows == kRows)) {
        __builtin_memcpy(to, from, kRows * sizeof(float));
        continue;
      }
      for (int64_t row = 0; row < rows; ++row) {
        to[row] = from[row * rowPitch];
      }
    }
  }
}

void product(float *out, int64_t outPitch, const float *a, int64_t rowPitch, int64_t innerPitch, const float *packed,
             int64_t inner, int64_t rows, int64_t columns, const float *addend) {
  // Strips that stay in the second cache while the rows go by.
  constexpr int64_t kStripsElements = 131072;
  const int64_t strips = kStripsElements / (inner < kDepth ? inner : kDepth) / kStrip;
  const int64_t wide = (strips < 1 ? 1 : strips) * kStrip;
  const int64_t tiles = (rows + kRows - 1) / kRows;
  alignas(64) float lines[kGathered * kDepth * kRows];
  for (int64_t from = 0; from < columns; from += wide) {
    const int64_t to = columns - from < wide ? columns : from + wide;
    for (int64_t depth = 0; depth < inner; depth += kDepth) {
      const int64_t deep = inner - depth < kDepth ? inner - depth : kDepth;
      // Lines far apart, often by a power of two, would push each other out of the first cache, strip by strip.
      const bool gathers = innerPitch != 1 && to - from > kStrip;
      for (int64_t number = 0; number < tiles; ++number) {
        // Rows fall evenly on tiles.
        const int64_t row = rows * number / tiles, count = rows * (number + 1) / tiles - row;
        const TileFn fn = tileOf(count);
        const float *left = a + row * rowPitch + depth * innerPitch;
        int64_t leftRow = rowPitch, leftInner = innerPitch;
        if (gathers) {
          const int64_t place = number % kGathered, more = tiles - number < kGathered ? tiles - number : kGathered;
          if (place == 0) {
            int64_t starts[kGathered + 1];
            for (int64_t i = 0; i <= more; ++i) {
              starts[i] = rows * (number + i) / tiles - row;
            }
            gather(lines, left, rowPitch, innerPitch, starts, more, deep);
          }
          left = lines + place * kDepth * kRows;
          leftRow = 1;
          leftInner = count;
        }
        for (int64_t strip = from; strip < to; strip += kStrip) {
          const float *right = packed + strip * inner + depth * kStrip;
          for (int64_t part = strip; part < to && part < strip + kStrip; part += kWide * kLanes) {
            const int64_t at = row * outPitch + part;
            const float *more = depth > 0 ? out + at : addend != nullptr ? addend + at : nullptr;
            fn(out + at, outPitch, left, leftRow, leftInner, right + part - strip, deep, to - part, more);
          }
        }
      }
    }
  }
}

} // namespace

PackFn packOf() { return pack; }
ProductFn productOf() { return product; }

#else

PackFn packOf() { return nullptr; }
ProductFn productOf() { return nullptr; }

#endif

} // namespace sojourn::runtime::SOJOURN_ISA
