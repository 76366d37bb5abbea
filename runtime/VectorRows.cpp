// SPDX-License-Identifier: Apache-2.0
// Rows to one number each, and back. Compiled as VectorKernels.cpp is. A row is taken in lanes, whose number is the
// same on every machine, so that its length alone decides the order of a sum.
#include "runtime/VectorWidth.h"
#include <stdint.h>

namespace sojourn::runtime::SOJOURN_ISA {

using RowsFn = void (*)(void *, const void *, int64_t, int64_t);

namespace {

// By reference: not every set passes vectors of this width.
struct Sum {
  template <typename V>
  static void join(V &sum, const V &x) {
    sum = sum + x;
  }
};
struct Squares {
  template <typename V>
  static void join(V &sum, const V &x) {
    sum = sum + x * x;
  }
};
// A NaN stays, whichever side it is on.
struct Largest {
  template <typename V>
  static void join(V &best, const V &x) {
    best = ((x <= best) == 0) & (best == best) ? x : best;
  }
};
struct Smallest {
  template <typename V>
  static void join(V &best, const V &x) {
    best = ((x >= best) == 0) & (best == best) ? x : best;
  }
};

template <typename T>
struct Integer {
  using type = int64_t;
};
template <>
struct Integer<float> {
  using type = int32_t;
};

/// One number from elements [0, n) of x. Joined by `Op`, and by `Fold` what was joined; `none` changes nothing.
template <typename Op, typename Fold, typename T>
T join(const T *x, int64_t n, T none) {
  using Index = typename Integer<T>::type;
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  typedef Index Indices __attribute__((vector_size(kVectorBytes)));
  constexpr int64_t kShort = 16, kBytes = 256, kWidth = kVectorBytes / sizeof(T), kVectors = kBytes / kVectorBytes;
  if (n < kShort) {
    T all = none;
    for (int64_t i = 0; i < n; ++i) {
      Op::join(all, x[i]);
    }
    return all;
  }
  Vector lanes[kVectors], vector;
  for (Vector &lane : lanes) {
    lane = Vector{} + none;
  }
  int64_t i = 0;
  for (; i + kVectors * kWidth <= n; i += kVectors * kWidth) {
    for (int64_t k = 0; k < kVectors; ++k) {
      __builtin_memcpy(&vector, x + i + k * kWidth, sizeof vector);
      Op::join(lanes[k], vector);
    }
  }
  for (int64_t k = 0; k < kVectors; ++k) {
    const int64_t left = n - i - k * kWidth;
    if (left >= kWidth) {
      __builtin_memcpy(&vector, x + i + k * kWidth, sizeof vector);
      Op::join(lanes[k], vector);
    } else if (left > 0) {
      // The line's last elements, of which the first were taken already.
      Indices lane;
      for (int64_t at = 0; at < kWidth; ++at) {
        lane[at] = Index(at);
      }
      __builtin_memcpy(&vector, x + n - kWidth, sizeof vector);
      const Vector empty = Vector{} + none;
      vector = lane < Index(kWidth - left) ? empty : vector;
      Op::join(lanes[k], vector);
    }
  }
  for (int64_t width = kVectors / 2; width > 0; width /= 2) {
    for (int64_t k = 0; k < width; ++k) {
      Fold::join(lanes[k], lanes[k + width]);
    }
  }
  T folded[kWidth];
  __builtin_memcpy(folded, &lanes[0], sizeof folded);
  for (int64_t width = kWidth / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane) {
      Fold::join(folded[lane], folded[lane + width]);
    }
  }
  return folded[0];
}

/// Sums of long rows go by blocks, which are added in f64.
template <typename Op, typename T>
void sums(void *out, const void *source, int64_t rows, int64_t n) {
  constexpr int64_t kBlock = 1024;
  const T *x = static_cast<const T *>(source);
  for (int64_t row = 0; row < rows; ++row, x += n) {
    double sum = 0;
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      sum += double(join<Op, Sum>(x + begin, n - begin < kBlock ? n - begin : kBlock, T(0)));
    }
    static_cast<T *>(out)[row] = T(sum);
  }
}

/// Extremes; n is not 0.
template <typename Op, typename T>
void extremes(void *out, const void *source, int64_t rows, int64_t n) {
  const T *x = static_cast<const T *>(source);
  for (int64_t row = 0; row < rows; ++row, x += n) {
    static_cast<T *>(out)[row] = join<Op, Op>(x, n, x[0]);
  }
}

/// Number `row` of x all along row `row` of out.
template <typename T>
void spread(void *out, const void *source, int64_t rows, int64_t n) {
  T *target = static_cast<T *>(out);
  const T *x = static_cast<const T *>(source);
  for (int64_t row = 0; row < rows; ++row, target += n) {
    const T value = x[row];
    for (int64_t i = 0; i < n; ++i) {
      target[i] = value;
    }
  }
}

template <typename T>
RowsFn pick(int op) {
  static constexpr RowsFn table[] = {sums<Sum, T>, sums<Squares, T>, extremes<Largest, T>, extremes<Smallest, T>};
  return table[op];
}

} // namespace

/// op: as runtime/VectorKernels.h numbers them. kind: 2 f32, 3 f64.
RowsFn reduceRowsOf(int op, int kind) { return kind == 2 ? pick<float>(op) : kind == 3 ? pick<double>(op) : nullptr; }

RowsFn spreadRowsOf(unsigned width) {
  switch (width) {
  case 1: return spread<uint8_t>;
  case 2: return spread<uint16_t>;
  case 4: return spread<uint32_t>;
  case 8: return spread<uint64_t>;
  }
  return nullptr;
}

} // namespace sojourn::runtime::SOJOURN_ISA
