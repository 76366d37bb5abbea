// SPDX-License-Identifier: Apache-2.0
// Scans, sorts and the position of extremes: one line along a dim at a time.
#include "runtime/Elements.h"
#include "runtime/LineSort.h"
#include "runtime/Stop.h"
#include "runtime/VectorKernels.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace sojourn::runtime {

namespace {

/// f32 scans accumulate in f64, complex<f32> in complex<f64>.
template <typename T>
struct Wider {
  using type = T;
};
template <>
struct Wider<float> {
  using type = double;
};
template <>
struct Wider<std::complex<float>> {
  using type = std::complex<double>;
};

struct Sum {
  template <typename A>
  static A step(A a, A x) {
    return wrapAdd(a, x);
  }
};
struct Product {
  template <typename A>
  static A step(A a, A x) {
    return wrapMul(a, x);
  }
};
struct Largest {
  template <typename A>
  static A step(A a, A x) {
    return nanMax(a, x);
  }
};
struct Smallest {
  template <typename A>
  static A step(A a, A x) {
    return nanMin(a, x);
  }
};
struct LogSumExp {
  template <typename A>
  static A step(A a, A x) {
    const A low = std::min(a, x), high = std::max(a, x), sum = high + std::log1p(std::exp(low - high));
    // Equal infinities: their difference is no number, the sum is that infinity. What is no number costs as much as the
    // rest of the line.
    const bool isInfinite = (low == high) & (std::abs(low) == std::numeric_limits<A>::infinity());
    return chosen((a != a) | (x != x), a + x, chosen(isInfinite, high, sum));
  }
  template <typename A>
  static std::complex<A> step(std::complex<A> a, std::complex<A> x) {
    if (a != a || x != x) {
      return {std::numeric_limits<A>::quiet_NaN(), std::numeric_limits<A>::quiet_NaN()};
    }
    const bool isLess = x.real() < a.real();
    const std::complex<A> low = isLess ? x : a, high = isLess ? a : x;
    if (low.real() == high.real() && std::isinf(low.real())) {
      return low.real() < 0 ? low : std::log(std::exp(low) + std::exp(high));
    }
    return high + std::log(A(1) + std::exp(low - high));
  }
};

/// Lines along a dim: they are shared out among workers. Line k starts at element `start(k)`.
struct Lines {
  Split split;
  Partition partition;
  Lines(const TensorType &type, int64_t dim, int64_t workPerElement)
      : split(type.dims, dim), partition(split.outer * split.inner, split.size * workPerElement) {}
  /// In a tensor that has `size` elements along the dim.
  int64_t start(int64_t line, int64_t size) const {
    return line / split.inner * size * split.inner + line % split.inner;
  }
  /// body(line) for the lines of rows [lo, hi).
  template <typename Body>
  void each(int64_t lo, int64_t hi, Body body) const {
    for (int64_t line = partition.begin(lo), past = partition.begin(hi); line < past; ++line) {
      body(line);
    }
  }
};

/// body(k, past) over [0, size), in pieces between which the run can be stopped.
template <typename Body>
void inPieces(int64_t size, Body body) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  for (int64_t k = 0; k < size; k += kPiece) {
    if (k != 0) {
      checkStop();
    }
    body(k, std::min(size, k + kPiece));
  }
}

template <typename Op, typename T, typename A>
void scanLine(T *out, const T *x, int64_t size, int64_t step) {
  A sum{};
  inPieces(size, [&](int64_t k, int64_t past) {
    for (; k < past; ++k, out += step, x += step) {
      sum = k == 0 ? static_cast<A>(*x) : Op::step(sum, static_cast<A>(*x));
      *out = static_cast<T>(sum);
    }
  });
}

template <typename Op>
void lowerScan(Lowering &lowering, const GraphOp &op) {
  constexpr int64_t kWorkPerElement = 4;
  Lines lines(lowering.type(op.operands[0]), op.integer("dim"), kWorkPerElement);
  WideInput x(lowering, op.operands[0]);
  WideOutput out(lowering, op.results[0]);
  constexpr bool ordered = std::is_same_v<Op, Largest> || std::is_same_v<Op, Smallest>;
  constexpr bool logarithmic = std::is_same_v<Op, LogSumExp>;
  auto build = [&]<typename T>() -> std::unique_ptr<Kernel> {
    if constexpr (logarithmic && std::is_same_v<T, int64_t>) {
      lowering.fail("cumlogsumexp of integers");
    } else {
      return makeKernel(
          [=](SlotTable slots, int64_t lo, int64_t hi) {
            T *target = static_cast<T *>(out.begin(slots));
            const T *source = static_cast<const T *>(x.read(slots));
            lines.each(lo, hi, [&](int64_t line) {
              int64_t at = lines.start(line, lines.split.size);
              scanLine<Op, T, typename Wider<T>::type>(target + at, source + at, lines.split.size, lines.split.inner);
            });
          },
          lines.partition.rows);
    }
  };
  if constexpr (ordered) {
    lowering.emit(op, dispatchWide(lowering, x.element, build));
  } else {
    lowering.emit(op, dispatchNumber(lowering, x.element, build));
  }
}

/// Extremes that are looked for side by side, of lines or of parts of one: the first NaN, else the first of equals.
template <bool largest, typename T>
struct Extremes {
  T best[kPlaceLanes] = {};
  int64_t places[kPlaceLanes] = {};

  static bool beats(T a, T b) { return largest ? a > b : a < b; }

  /// Of `count` elements to a lane.
  Extremes(PlacesFn take, const T *x, int64_t lanePitch, int64_t pitch, int64_t count) {
    for (int64_t lane = 0; lane < kPlaceLanes; ++lane) {
      best[lane] = x[lane * lanePitch];
    }
    inPieces(count, [&](int64_t k, int64_t past) { take(best, places, x, lanePitch, pitch, k, past); });
  }
  /// Of a line whose lanes are its elements in turn.
  int64_t ofLine(const T *x, int64_t size) const {
    T value = best[0];
    int64_t place = places[0] * kPlaceLanes;
    auto join = [&](T other, int64_t at) {
      const bool isNumber = value == value, isEarlier = at < place;
      const bool isBetter = ((other != other) & (isNumber | isEarlier)) |
                            (isNumber & (beats(other, value) | ((other == value) & isEarlier)));
      value = chosen(isBetter, other, value);
      place = chosen(isBetter, at, place);
    };
    for (int64_t lane = 1; lane < kPlaceLanes; ++lane) {
      join(best[lane], places[lane] * kPlaceLanes + lane);
    }
    for (int64_t k = size / kPlaceLanes * kPlaceLanes; k < size; ++k) {
      join(x[k], k);
    }
    return place;
  }
};

/// Of one line, element by element.
template <bool largest, typename T>
int64_t extremeOf(const T *x, int64_t size, int64_t step) {
  T best = x[0];
  int64_t place = 0;
  inPieces(size, [&](int64_t k, int64_t past) {
    for (; k < past; ++k) {
      const T value = x[k * step];
      const bool isBetter = (best == best) & ((value != value) | Extremes<largest, T>::beats(value, best));
      best = chosen(isBetter, value, best);
      place = chosen(isBetter, k, place);
    }
  });
  return place;
}

/// Lines [first, past). As many as there are lanes go side by side, some of them again at the end; long ones by
/// themselves, and those that have too few neighbours.
template <bool largest, typename T>
void extremesOf(int64_t *target, const T *source, PlacesFn take, const Lines &lines, int64_t first, int64_t past) {
  constexpr int64_t kLong = 512;
  const int64_t size = lines.split.size, inner = lines.split.inner;
  const bool isDense = inner == 1, isLong = isDense && size >= kLong;
  for (int64_t line = first; line < past;) {
    // Lines whose elements have one pitch.
    const int64_t begin = isDense ? 0 : line / inner * inner, end = isDense ? lines.split.outer : begin + inner;
    if (isLong || end - begin < kPlaceLanes) {
      const T *x = source + lines.start(line, size);
      target[line] = isLong ? Extremes<largest, T>(take, x, 1, kPlaceLanes, size / kPlaceLanes).ofLine(x, size)
                            : extremeOf<largest>(x, size, inner);
      ++line;
      continue;
    }
    const int64_t from = std::min(line, end - kPlaceLanes);
    const Extremes<largest, T> extremes(take, source + lines.start(from, size), isDense ? size : 1, inner, size);
    const int64_t count = std::min(from + kPlaceLanes, past) - line;
    std::copy_n(extremes.places + (line - from), count, target + line);
    line += count;
  }
}

template <bool largest>
void lowerArg(Lowering &lowering, const GraphOp &op) {
  Lines lines(lowering.type(op.operands[0]), op.integer("dim"), /*workPerElement=*/1);
  WideInput x(lowering, op.operands[0]);
  Place out = lowering.result(op.results[0]);
  PlacesFn take = placesKernel(largest, x.element);
  lowering.emit(op, dispatchWide(lowering, x.element, [&]<typename T>() -> std::unique_ptr<Kernel> {
                  return makeKernel(
                      [=](SlotTable slots, int64_t lo, int64_t hi) {
                        extremesOf<largest>(out.in<int64_t>(slots), static_cast<const T *>(x.read(slots)), take, lines,
                                            lines.partition.begin(lo), lines.partition.begin(hi));
                      },
                      lines.partition.rows);
                }));
}

/// Sorts one line with room for twice as many entries, and hands out its first `keep` elements. Ties keep their order.
template <typename T>
void sortLine(const T *source, T *target, int64_t *where, KeyedIndex *entries, int64_t size, int64_t keep, int64_t step,
              bool descending) {
  for (int64_t k = 0; k < size; ++k) {
    entries[k] = {sortKey(source[k * step], descending), k};
  }
  constexpr int64_t kFew = 8; // so much less than all are found faster without the others' order
  const KeyedIndex *sorted = entries;
  if (keep < size / kFew) {
    uint32_t comparisons = 0;
    std::partial_sort(entries, entries + keep, entries + size, [&](const KeyedIndex &a, const KeyedIndex &b) {
      if (++comparisons % (1u << 20) == 0) {
        checkStop();
      }
      return a < b;
    });
  } else {
    sorted = sortByKey(entries, entries + size, size);
  }
  for (int64_t k = 0; k < keep; ++k) {
    target[k * step] = source[sorted[k].index * step];
    where[k * step] = sorted[k].index;
  }
}

void lowerSorted(Lowering &lowering, const GraphOp &op, bool descending, int64_t keep) {
  constexpr int64_t kWorkPerElement = 32;
  Lines lines(lowering.type(op.operands[0]), op.integer("dim"), kWorkPerElement);
  keep = keep < 0 ? lines.split.size : keep;
  WideInput x(lowering, op.operands[0]);
  WideOutput values(lowering, op.results[0]);
  Place indices = lowering.result(op.results[1]);
  RowScratch scratch(lowering, lines.partition, static_cast<size_t>(lines.split.size) * 2 * sizeof(KeyedIndex));
  lowering.emit(op, dispatchWide(lowering, x.element, [&]<typename T>() -> std::unique_ptr<Kernel> {
                  return makeKernel(
                      [=](SlotTable slots, int64_t lo, int64_t hi, unsigned worker) {
                        const T *source = static_cast<const T *>(x.read(slots));
                        T *target = static_cast<T *>(values.begin(slots));
                        int64_t *where = indices.in<int64_t>(slots);
                        void *entries = scratch.in(slots, worker);
                        lines.each(lo, hi, [&](int64_t line) {
                          int64_t from = lines.start(line, lines.split.size), to = lines.start(line, keep);
                          sortLine(source + from, target + to, where + to, static_cast<KeyedIndex *>(entries),
                                   lines.split.size, keep, lines.split.inner, descending);
                        });
                      },
                      lines.partition.rows);
                }));
}

void lowerSort(Lowering &lowering, const GraphOp &op) { lowerSorted(lowering, op, op.integer("descending") != 0, -1); }

void lowerTopK(Lowering &lowering, const GraphOp &op) {
  lowerSorted(lowering, op, op.integer("largest") != 0, op.integer("k"));
}

} // namespace

const LowerFn kernels::lower_cumsum = lowerScan<Sum>;
const LowerFn kernels::lower_cumprod = lowerScan<Product>;
const LowerFn kernels::lower_cummax = lowerScan<Largest>;
const LowerFn kernels::lower_cummin = lowerScan<Smallest>;
const LowerFn kernels::lower_cumlogsumexp = lowerScan<LogSumExp>;
const LowerFn kernels::lower_argmax = lowerArg<true>;
const LowerFn kernels::lower_argmin = lowerArg<false>;
const LowerFn kernels::lower_sort = lowerSort;
const LowerFn kernels::lower_topk = lowerTopK;

} // namespace sojourn::runtime
