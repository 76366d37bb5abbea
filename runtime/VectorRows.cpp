// SPDX-License-Identifier: Apache-2.0
// Rows to one number each, and back. Compiled as VectorKernels.cpp is. A row is taken in lanes, whose number is the
// same on every machine, so that its length alone decides the order of a sum.
#include "runtime/VectorChoice.h"
#include "runtime/VectorWidth.h"
#include <stdint.h>

namespace sojourn::runtime::SOJOURN_ISA {

using RowsFn = void (*)(void *, const void *, int64_t, int64_t);
using PlacesFn = void (*)(void *, int64_t *, const void *, int64_t, int64_t, int64_t, int64_t);

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
/// Lanes where `isBetter`; of a number by bits.
template <typename Mask, typename V>
[[gnu::always_inline]] inline void take(const Mask &isBetter, const V &x, V &best) {
  best = isBetter ? x : best;
}
[[gnu::always_inline]] inline void take(int isBetter, float x, float &best) { best = chosen(isBetter != 0, x, best); }
[[gnu::always_inline]] inline void take(int isBetter, double x, double &best) { best = chosen(isBetter != 0, x, best); }
// A NaN stays, whichever side it is on.
struct Largest {
  template <typename V>
  static void join(V &best, const V &x) {
    take(((x <= best) == 0) & (best == best), x, best);
  }
};
struct Smallest {
  template <typename V>
  static void join(V &best, const V &x) {
    take(((x >= best) == 0) & (best == best), x, best);
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

/// Shorter rows are taken element by element.
constexpr int64_t kShort = 16;

/// One number from lanes: the second half joins the first, again and again.
template <typename Fold, typename T, int64_t width>
[[gnu::always_inline]] inline T folded(const T *lanes) {
  constexpr int64_t kHalf = width / 2;
  if constexpr (kHalf * sizeof(T) >= 16) {
    typedef T Half __attribute__((vector_size(kHalf * sizeof(T))));
    Half first, second;
    __builtin_memcpy(&first, lanes, sizeof first);
    __builtin_memcpy(&second, lanes + kHalf, sizeof second);
    Fold::join(first, second);
    T half[kHalf];
    __builtin_memcpy(half, &first, sizeof half);
    return folded<Fold, T, kHalf>(half);
  } else {
    T all[width];
    __builtin_memcpy(all, lanes, sizeof all);
    for (int64_t left = kHalf; left > 0; left /= 2) {
      for (int64_t lane = 0; lane < left; ++lane) {
        Fold::join(all[lane], all[lane + left]);
      }
    }
    return all[0];
  }
}

/// One number from elements [0, n) of x. Joined by `Op`, and by `Fold` what was joined; `none` changes nothing.
template <typename Op, typename Fold, typename T>
T join(const T *x, int64_t n, T none) {
  using Index = typename Integer<T>::type;
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  typedef Index Indices __attribute__((vector_size(kVectorBytes)));
  constexpr int64_t kBytes = 256, kWidth = kVectorBytes / sizeof(T), kVectors = kBytes / kVectorBytes;
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
  T all[kWidth];
  __builtin_memcpy(all, &lanes[0], sizeof all);
  return folded<Fold, T, kWidth>(all);
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
  // Short rows go side by side: each waits for its own elements alone.
  typedef T Rows __attribute__((vector_size(4 * sizeof(T))));
  const T *x = static_cast<const T *>(source);
  T *target = static_cast<T *>(out);
  int64_t row = 0;
  for (; n < kShort && row + 8 <= rows; row += 8, x += 8 * n) {
    const T *y = x + 4 * n;
    Rows best[2] = {{x[0], x[n], x[2 * n], x[3 * n]}, {y[0], y[n], y[2 * n], y[3 * n]}};
    for (int64_t i = 1; i < n; ++i) {
      const Rows first = {x[i], x[n + i], x[2 * n + i], x[3 * n + i]};
      const Rows second = {y[i], y[n + i], y[2 * n + i], y[3 * n + i]};
      Op::join(best[0], first);
      Op::join(best[1], second);
    }
    __builtin_memcpy(target + row, best, sizeof best);
  }
  for (; row < rows; ++row, x += n) {
    target[row] = join<Op, Op>(x, n, x[0]);
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

/// See runtime/VectorKernels.h. Numbers of elements are as wide as these, which vectors ask for.
template <bool largest, bool isDense, typename T>
void takeLanes(T *found, int64_t *places, const T *x, int64_t lanePitch, int64_t pitch, int64_t from, int64_t past) {
  using Index = typename Integer<T>::type;
  constexpr int64_t kLanes = 16;
  T best[kLanes];
  Index last[kLanes];
  __builtin_memcpy(best, found, sizeof best);
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    last[lane] = -1;
  }
  for (int64_t k = from; k < past; ++k) {
    const T *line = x + k * pitch;
    const Index number = Index(k - from);
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const T value = line[isDense ? lane : lane * lanePitch], was = best[lane];
      const bool isBetter = (was == was) & ((value != value) | (largest ? value > was : value < was));
      best[lane] = chosen(isBetter, value, was);
      last[lane] = chosen(isBetter, number, last[lane]);
    }
  }
  __builtin_memcpy(found, best, sizeof best);
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    places[lane] = chosen(last[lane] >= 0, from + int64_t(last[lane]), places[lane]);
  }
}

template <bool largest, typename T>
void takePlaces(void *best, int64_t *places, const void *x, int64_t lanePitch, int64_t pitch, int64_t from,
                int64_t past) {
  (lanePitch == 1 ? takeLanes<largest, true, T> : takeLanes<largest, false, T>)(static_cast<T *>(best), places,
                                                                                static_cast<const T *>(x), lanePitch,
                                                                                pitch, from, past);
}

template <bool largest>
PlacesFn pickPlaces(int kind) {
  return kind == 1   ? takePlaces<largest, int64_t>
         : kind == 2 ? takePlaces<largest, float>
         : kind == 3 ? takePlaces<largest, double>
                     : nullptr;
}

} // namespace

PlacesFn placesOf(bool largest, int kind) { return largest ? pickPlaces<true>(kind) : pickPlaces<false>(kind); }

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
