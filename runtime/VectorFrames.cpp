// SPDX-License-Identifier: Apache-2.0
// Convolutions of f32 over frames of images: tiles of results in registers, whose operands are read where they lie in a
// frame. Compiled as VectorProduct.cpp is, and an element's sum has the same order: one chain of additions per
// kProductDepth of the inner dim, added in order.
#include "runtime/FrameShape.h"
#include "runtime/VectorTranspose.h"

namespace sojourn::runtime::SOJOURN_ISA {

using FrameFn = void (*)(float *, const float *, const FrameShape &, int64_t, int64_t);
using TurnFn = void (*)(float *, int64_t, const float *, int64_t, int64_t, int64_t);
using WindowsFn = void (*)(float *, const float *, const WindowGrid &, const float *, int64_t, int64_t, bool);
using TapsFn = void (*)(float *, const float *, int64_t, const float *, const WindowGrid &, int64_t, int64_t, bool);

#if defined(__FMA__)

namespace {

/// Copies n elements, the last ones twice where they are no whole vector.
void copyLine(float *to, const float *from, int64_t n) {
  if (n >= kLanes) {
    for (int64_t i = 0; i + kLanes <= n; i += kLanes) {
      store(to + i, load(from + i));
    }
    store(to + n - kLanes, load(from + n - kLanes));
  } else if (n >= kLanes / 2) {
    constexpr int kHalf = kLanes / 2;
    __builtin_memcpy(to, from, kHalf * sizeof(float));
    __builtin_memcpy(to + n - kHalf, from + n - kHalf, kHalf * sizeof(float));
  } else {
    for (int64_t i = 0; i < n; ++i) {
      to[i] = from[i];
    }
  }
}

/// Which elements of a frame's lines an image has: the first of them stands at `first` in its line.
struct Inside {
  int64_t first, from, past;

  Inside(const FrameDim &dim, int64_t part) : first(part + dim.first) {
    from = first >= 0 ? 0 : (dim.step - 1 - first) / dim.step;
    past = dim.size > first ? (dim.size - first + dim.step - 1) / dim.step : 0;
    from = from < dim.count ? from : dim.count;
    past = past < dim.count ? past : dim.count;
    past = past < from ? from : past;
  }
};

void zeroFrame(float *to, int64_t from, int64_t past) {
  for (int64_t i = from; i < past; ++i) {
    to[i] = 0;
  }
}

template <int64_t step>
void frameLine(float *to, const float *line, const Inside &inside, int64_t count, int64_t steps) {
  const int64_t by = step == 0 ? steps : step;
  constexpr int kHalf = kLanes / 2;
  if (count >= kHalf && inside.from <= kHalf && count - inside.past <= kHalf) {
    __builtin_memset(to, 0, kHalf * sizeof(float)); // partly written over
    __builtin_memset(to + count - kHalf, 0, kHalf * sizeof(float));
  } else {
    zeroFrame(to, 0, inside.from);
    zeroFrame(to, inside.past, count);
  }
  const float *x = line + inside.first;
  if constexpr (step == 1) {
    copyLine(to + inside.from, x + inside.from, inside.past - inside.from);
  } else {
    for (int64_t i = inside.from; i < inside.past; ++i) {
      to[i] = x[i * by];
    }
  }
}

template <int64_t step>
void frameOf(float *frame, const float *image, const FrameShape &shape, int64_t band, int64_t rows) {
  const FrameDim &down = shape.rows, &along = shape.columns;
  for (int64_t channel = 0; channel < shape.channels; ++channel, image += down.size * along.size) {
    for (int64_t rowPart = 0; rowPart < down.parts; ++rowPart) {
      for (int64_t columnPart = 0; columnPart < along.parts; ++columnPart, frame += shape.plane()) {
        const Inside inside(along, columnPart);
        int64_t y = band * down.step + rowPart + down.first;
        for (int64_t row = 0; row < rows; ++row, y += down.step) {
          float *to = frame + row * along.count;
          if (y < 0 || y >= down.size) {
            __builtin_memset(to, 0, static_cast<unsigned long>(along.count) * sizeof(float));
            continue;
          }
          frameLine<step>(to, image + y * along.size, inside, along.count, along.step);
        }
      }
    }
  }
}

void frame(float *target, const float *image, const FrameShape &shape, int64_t band, int64_t rows) {
  const auto fn = shape.columns.step == 1 ? frameOf<1> : shape.columns.step == 2 ? frameOf<2> : frameOf<0>;
  fn(target, image, shape, band, rows);
}

/// Lines of blocks at the edges are taken one by one.
void turn(float *out, int64_t outPitch, const float *x, int64_t pitch, int64_t lines, int64_t elements) {
  for (int64_t line = 0; line < lines; line += kLanes) {
    const int64_t height = lines - line < kLanes ? lines - line : kLanes;
    for (int64_t element = 0; element < elements; element += kLanes) {
      const float *from = x + line * pitch + element;
      float *to = out + element * outPitch + line;
      const int64_t width = elements - element < kLanes ? elements - element : kLanes;
      if (height == kLanes && width == kLanes) {
        transpose(to, outPitch, [&](int64_t i) { return from + i * pitch; });
        continue;
      }
      for (int64_t i = 0; i < height; ++i) {
        for (int64_t j = 0; j < width; ++j) {
          to[j * outPitch + i] = from[i * pitch + j];
        }
      }
    }
  }
}

constexpr int kRegisters = kLanes == 16 ? 24 : 12; ///< that hold sums

/// `rows` windows in a line and `wide` vectors of results' channels.
template <int rows, int wide>
void windowTile(float *out, int64_t outPitch, const float *x, const int64_t *offsets, const float *weights,
                int64_t taps, bool adds) {
  Vector sums[rows][wide] = {};
  for (int64_t tap = 0; tap < taps; ++tap, weights += kStrip) {
    Vector b[wide];
#pragma GCC unroll 2
    for (int j = 0; j < wide; ++j) {
      b[j] = load(weights + j * kLanes);
    }
    const float *from = x + offsets[tap]; // time: a place of the tap
#pragma GCC unroll 24
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < wide; ++j) {
        sums[i][j] = from[i] * b[j] + sums[i][j];
      }
    }
  }
#pragma GCC unroll 24
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < wide; ++j) {
      float *to = out + i * outPitch + j * kLanes;
      store(to, adds ? load(to) + sums[i][j] : sums[i][j]);
    }
  }
}

using WindowTileFn = void (*)(float *, int64_t, const float *, const int64_t *, const float *, int64_t, bool);
template <int wide, int... counts>
struct WindowTiles {
  static constexpr WindowTileFn table[] = {windowTile<counts, wide>...};
};

WindowTileFn windowTileOf(int64_t rows, bool isWide) {
#if defined(__AVX512F__)
  return isWide ? WindowTiles<2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>::table[rows - 1]
                : WindowTiles<1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
                              24>::table[rows - 1];
#else
  return isWide ? WindowTiles<2, 1, 2, 3, 4, 5, 6>::table[rows - 1]
                : WindowTiles<1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>::table[rows - 1];
#endif
}

void windows(float *out, const float *frame, const WindowGrid &grid, const float *weights, int64_t taps,
             int64_t channels, bool adds) {
  for (int64_t channel = 0; channel < channels;) {
    const bool isWide = channels - channel > kLanes;
    const int64_t most = isWide ? kRegisters / 2 : kRegisters;
    const int64_t tiles = (grid.width + most - 1) / most;
    for (int64_t y = 0; y < grid.height; ++y) {
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t x = grid.width * tile / tiles, past = grid.width * (tile + 1) / tiles;
        windowTileOf(past - x, isWide)(out + (y * grid.width + x) * grid.outPitch + channel, grid.outPitch,
                                       frame + y * grid.pitch + x, grid.offsets,
                                       weights + channel / kStrip * grid.taps * kStrip + channel % kStrip, taps, adds);
      }
    }
    channel += isWide ? 2 * kLanes : kLanes;
  }
}

/// `rows` channels of the gradient and `wide` vectors of an image's channels, at one tap each.
template <int rows, int wide>
void tapTile(float *out, int64_t outPitch, const float *gradient, int64_t gradientPitch, const float *const *images,
             const WindowGrid &grid, int64_t step, bool adds) {
  Vector sums[rows][wide] = {};
  // Three bases and multiples of one pitch: addresses that one instruction makes.
  const int64_t pitch = gradientPitch * 4, pitch3 = 3 * pitch;
  const char *first = reinterpret_cast<const char *>(gradient), *second = first + 5 * pitch,
             *third = first + 10 * pitch;
  for (int64_t y = 0; y < grid.height; ++y) {
    const float *image[wide];
#pragma GCC unroll 2
    for (int j = 0; j < wide; ++j) {
      image[j] = images[j] + y * grid.pitch * step;
    }
    for (int64_t x = 0; x < grid.width; ++x) {
      Vector b[wide];
#pragma GCC unroll 2
      for (int j = 0; j < wide; ++j) {
        b[j] = load(image[j]);
        image[j] += step;
      }
#pragma GCC unroll 12
      for (int i = 0; i < rows; ++i) {
        const char *base = i < 5 ? first : i < 10 ? second : third;
        const int64_t offset = i % 5 == 3 ? pitch3 : i % 5 * pitch;
        const float a = *reinterpret_cast<const float *>(base + offset);
#pragma GCC unroll 2
        for (int j = 0; j < wide; ++j) {
          sums[i][j] = a * b[j] + sums[i][j];
        }
      }
      first += sizeof(float);
      second += sizeof(float);
      third += sizeof(float);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < wide; ++j) {
      float *to = out + i * outPitch + j * kLanes;
      store(to, adds ? load(to) + sums[i][j] : sums[i][j]);
    }
  }
}

using TapTileFn = void (*)(float *, int64_t, const float *, int64_t, const float *const *, const WindowGrid &, int64_t,
                           bool);
template <int wide, int... counts>
struct TapTiles {
  static constexpr TapTileFn table[] = {tapTile<counts, wide>...};
};

TapTileFn tapTileOf(int64_t rows, bool isWide) {
#if defined(__AVX512F__)
  return isWide ? TapTiles<2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>::table[rows - 1]
                : TapTiles<1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>::table[rows - 1];
#else
  return isWide ? TapTiles<2, 1, 2, 3, 4, 5, 6>::table[rows - 1] : TapTiles<1, 1, 2, 3, 4, 5, 6>::table[rows - 1];
#endif
}

void taps(float *out, const float *gradient, int64_t gradientPitch, const float *turned, const WindowGrid &grid,
          int64_t step, int64_t channels, bool adds) {
  constexpr int64_t kRows = kRegisters / 2;
  const int64_t blocks = step / kLanes, vectors = grid.taps * blocks, tiles = (channels + kRows - 1) / kRows;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t channel = channels * tile / tiles, count = channels * (tile + 1) / tiles - channel;
    for (int64_t vector = 0; vector < vectors; vector += 2) {
      const bool isWide = vector + 1 < vectors;
      const float *images[2];
      for (int64_t j = 0; j < (isWide ? 2 : 1); ++j) {
        const int64_t number = vector + j;
        images[j] = turned + grid.offsets[number / blocks] * step + number % blocks * kLanes;
      }
      tapTileOf(count, isWide)(out + channel * grid.outPitch + vector * kLanes, grid.outPitch,
                               gradient + channel * gradientPitch, gradientPitch, images, grid, step, adds);
    }
  }
}

} // namespace

FrameFn frameOf() { return frame; }
TurnFn turnOf() { return turn; }
WindowsFn windowsOf() { return windows; }
TapsFn tapsOf() { return taps; }

#else

FrameFn frameOf() { return nullptr; }
TurnFn turnOf() { return nullptr; }
WindowsFn windowsOf() { return nullptr; }
TapsFn tapsOf() { return nullptr; }

#endif

} // namespace sojourn::runtime::SOJOURN_ISA
