// SPDX-License-Identifier: Apache-2.0
// Vectors of f32, and squares of them turned. For files of `sojourn_vector_*` that
// are empty where the instruction set does not multiply and add in one rounding.
#ifndef SOJOURN_RUNTIME_VECTORTRANSPOSE_H
#define SOJOURN_RUNTIME_VECTORTRANSPOSE_H
#include "runtime/VectorShuffle.h"
#include <stdint.h>

#if defined(__FMA__)

namespace sojourn::runtime {
namespace {

/// Internal to each file: other sizes for another instruction set.
#if defined(__AVX512F__)
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
/// Columns of a strip (VectorKernels.h).
constexpr int64_t kStrip = 32;

typedef float Vector __attribute__((vector_size(kLanes * 4)));
typedef int32_t LaneNumbers __attribute__((vector_size(kLanes * 4)));

inline Vector load(const float *from) {
  Vector vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}
inline void store(float *to, Vector vector) { __builtin_memcpy(to, &vector, sizeof vector); }

/// One step of a transpose: swaps the blocks of `size` lanes off the diagonal.
template <int size>
[[gnu::always_inline]] inline void swapBlocks(Vector *lines) {
  LaneNumbers first, second;
  for (int lane = 0; lane < kLanes; ++lane) {
    first[lane] = (lane & size) == 0 ? lane : kLanes + lane - size;
    second[lane] = (lane & size) == 0 ? lane + size : kLanes + lane;
  }
#pragma GCC unroll 16
  for (int line = 0; line < kLanes; ++line) {
    if ((line & size) == 0) {
      const Vector a = lines[line], b = lines[line + size];
      lines[line] = shuffled(a, b, first);
      lines[line + size] = shuffled(a, b, second);
    }
  }
}

/// kLanes lines of kLanes elements become columns; `lineAt(i)` is where line i begins.
template <typename LineAt>
[[gnu::always_inline]] inline void transpose(float *out, int64_t outPitch, LineAt lineAt) {
  Vector lines[kLanes];
#pragma GCC unroll 16
  for (int line = 0; line < kLanes; ++line) {
    lines[line] = load(lineAt(line));
  }
  if constexpr (kLanes == 16) {
    swapBlocks<8>(lines);
  }
  swapBlocks<4>(lines);
  swapBlocks<2>(lines);
  swapBlocks<1>(lines);
#pragma GCC unroll 16
  for (int line = 0; line < kLanes; ++line) {
    store(out + line * outPitch, lines[line]);
  }
}

} // namespace
} // namespace sojourn::runtime

#endif // defined(__FMA__)

#endif // SOJOURN_RUNTIME_VECTORTRANSPOSE_H
