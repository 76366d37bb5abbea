// SPDX-License-Identifier: Apache-2.0
// Windowed sums and maxima over 1 to 3 spatial dims.
#include "runtime/Elements.h"
#include "runtime/PoolWindows.h"
#include "runtime/SlidingWindows.h"
#include "runtime/VectorKernels.h"
#include <optional>

namespace sojourn::runtime {

namespace {

template <typename T>
void sharedSums(const Windows &windows, char *scratch, const T *source, T *target, int64_t firstPlane,
                int64_t pastPlane) {
  int64_t inPlane = windows.inPlane(), outPlane = windows.outPlane();
  source += firstPlane * inPlane;
  target += firstPlane * outPlane;
  for (int64_t plane = firstPlane; plane < pastPlane; ++plane, source += inPlane) {
    WindowMemory<T> memory(scratch, windows.cellsMost(), windows.windowsMost());
    std::copy_n(source, inPlane, memory.cells);
    combineWindows(windows, memory, T(0), [](T a, T b) { return wrapAdd(a, b); });
    target = std::copy_n(memory.cells, outPlane, target);
  }
}

/// The largest element so far and its position; -1 for none.
template <typename T>
struct Largest {
  T value;
  int64_t index;
};

template <typename T>
void sharedMaxima(const Windows &windows, char *scratch, const T *source, T *target, int64_t *where, int64_t firstPlane,
                  int64_t pastPlane) {
  int64_t inPlane = windows.inPlane(), outPlane = windows.outPlane();
  source += firstPlane * inPlane;
  target += firstPlane * outPlane;
  where += firstPlane * outPlane;
  // NaN wins over numbers; of equals the first, of NaNs the last, in whatever order they meet.
  auto larger = [](const Largest<T> &a, const Largest<T> &b) {
    const bool noA = a.value != a.value, noB = b.value != b.value, isEqual = a.value == b.value;
    const bool isDue = (noA & noB & (b.index > a.index)) | (isEqual & (b.index < a.index));
    const bool isLarger = isDue | (b.value > a.value) | (noB & !noA);
    const bool takesB = (a.index < 0) | ((b.index >= 0) & isLarger);
    return Largest<T>{chosen(takesB, b.value, a.value), chosen(takesB, b.index, a.index)};
  };
  for (int64_t plane = firstPlane; plane < pastPlane; ++plane, source += inPlane) {
    WindowMemory<Largest<T>> memory(scratch, windows.cellsMost(), windows.windowsMost());
    for (int64_t i = 0; i < inPlane; ++i) {
      memory.cells[i] = {source[i], i};
    }
    combineWindows(windows, memory, Largest<T>{T(0), -1}, larger);
    for (int64_t o = 0; o < outPlane; ++o) {
      *target++ = memory.cells[o].value;
      *where++ = memory.cells[o].index;
    }
  }
}

/// Sums of the windows [from, to) of a line: vector by vector where there is a kernel for that; else one input of all
/// windows after the other.
template <typename T>
void sumsInside(const Windows &windows, SumLineFn kernel, const T *source, int64_t room, T *target, int64_t o0,
                int64_t o1, int64_t from, int64_t to) {
  const int64_t stride = windows.stride[2];
  if constexpr (std::is_same_v<T, float>) {
    if (kernel != nullptr) {
      int64_t first, past;
      windows.range(1, o1, first, past);
      const int64_t at =
          (o1 * windows.stride[1] - windows.padding[1] + first) * windows.in[2] + from * stride - windows.padding[2];
      kernel(target + from, source + at, windows.in[2], past - first, windows.size[2], to - from, room - at);
      return;
    }
  }
  std::fill(target + from, target + to, T(0));
  windows.eachInside(o0, o1, [&](int64_t at) {
    for (int64_t o = from; o < to; ++o) {
      target[o] = wrapAdd(target[o], source[at + o * stride]);
    }
  });
}

/// Maxima of windows that lie inside along the last dim, some lines together: a line is often shorter than a vector.
template <typename T>
class Maxima {
public:
  static size_t bytes(int64_t taps) {
    return static_cast<size_t>(kTapPitch * taps) * sizeof(T) +
           static_cast<size_t>(2 * kWindowsAtOnce + taps) * sizeof(int64_t);
  }
  Maxima(const Windows &windows, TakeFn take, MaximaFn kernel, char *scratch, const T *source)
      : windows(windows), take(take), kernel(kernel), source(source), bases(reinterpret_cast<int64_t *>(scratch)),
        offsets(bases + kWindowsAtOnce), taken(reinterpret_cast<T *>(offsets + windows.taps())) {}

  /// The windows [from, to) of a line, whose results are at target and where.
  void add(int64_t plane, int64_t o0, int64_t o1, int64_t from, int64_t to, T *target, int64_t *where) {
    const int64_t stride = windows.stride[2];
    for (int64_t first = from; first < to;) {
      // Windows at the border have fewer elements: they are taken by themselves.
      llvm::SmallVector<int64_t, 16> at;
      windows.eachInside(o0, o1, [&](int64_t tap) { at.push_back(tap); });
      if (at.empty()) {
        std::fill(target + first, target + to, T(0));
        std::fill(where + first, where + to, -1);
        return;
      }
      bool continues = count > 0 && static_cast<int64_t>(at.size()) == taps && target + first == out + count;
      for (size_t k = 0; continues && k < at.size(); ++k) {
        continues = at[k] - at[0] == offsets[k];
      }
      if (!continues || count == kWindowsAtOnce) {
        flush();
        out = target + first;
        positions = where + first;
        taps = static_cast<int64_t>(at.size());
        for (size_t k = 0; k < at.size(); ++k) {
          offsets[k] = at[k] - at[0];
        }
      }
      const int64_t n = std::min(to - first, kWindowsAtOnce - count), base = at[0] + first * stride;
      take(taken + count, bases + count, source + plane + base, base, windows.planes * windows.inPlane() - plane - base,
           offsets, taps, stride, n);
      count += n;
      first += n;
    }
  }
  void flush() {
    if (count > 0) {
      kernel(out, positions, taken, bases, offsets, taps, count);
      count = 0;
    }
  }

private:
  const Windows &windows;
  TakeFn take;
  MaximaFn kernel;
  const T *source;
  int64_t *bases, *offsets;
  T *taken; ///< [taps, kTapPitch]
  T *out = nullptr;
  int64_t *positions = nullptr, taps = 0, count = 0;
};

void lowerPoolSum(Lowering &lowering, const GraphOp &op) {
  Windows windows(lowering, op);
  WideInput x(lowering, op.operands[0]);
  WideOutput out(lowering, op.results[0]);
  bool shared = windows.overlapMuch();
  Partition partition = windows.partition(shared);
  SumLineFn kernel = windows.isFlat() ? sumLineKernel(x.element, windows.stride[2]) : nullptr;
  const int64_t room = windows.planes * windows.inPlane();
  lowering.emit(
      op, dispatchWide(lowering, x.element, [&]<typename T>() -> std::unique_ptr<Kernel> {
        std::optional<RowScratch> scratch;
        if (shared) {
          scratch.emplace(lowering, partition, WindowMemory<T>::bytes(windows.cellsMost(), windows.windowsMost()));
        }
        return makeKernel(
            [=](SlotTable slots, int64_t lo, int64_t hi, unsigned worker) {
              const T *source = static_cast<const T *>(x.read(slots));
              T *target = static_cast<T *>(out.begin(slots));
              if (scratch) {
                sharedSums(windows, scratch->in(slots, worker), source, target, partition.begin(lo),
                           partition.begin(hi));
                return;
              }
              windows.lines(
                  partition.begin(lo), partition.begin(hi),
                  [&](int64_t at, int64_t plane, int64_t o0, int64_t o1, int64_t from, int64_t to) {
                    if (from < to) {
                      sumsInside(windows, kernel, source + plane, room - plane, target + at, o0, o1, from, to);
                    }
                  },
                  [&](int64_t at, int64_t plane, int64_t o0, int64_t o1, int64_t o2) {
                    T sum = 0;
                    windows.each(o0, o1, o2, [&](int64_t i) { sum = wrapAdd(sum, source[plane + i]); });
                    target[at] = sum;
                  });
            },
            partition.rows);
      }));
}

void lowerPoolMax(Lowering &lowering, const GraphOp &op) {
  if (lowering.isCoded(op)) {
    return lowerCodedPoolMax(lowering, op);
  }
  Windows windows(lowering, op);
  WideInput x(lowering, op.operands[0]);
  WideOutput out(lowering, op.results[0]);
  Place indices = lowering.result(op.results[1]);
  bool shared = windows.overlapMuch();
  Partition partition = windows.partition(shared);
  /// Larger windows are walked one by one.
  constexpr int64_t kTapsTogether = 64;
  const int64_t taps = windows.taps();
  TakeFn take = takeKernel(x.element);
  MaximaFn maxima = maximaKernel(x.element);
  lowering.emit(op, dispatchWide(lowering, x.element, [&]<typename T>() -> std::unique_ptr<Kernel> {
                  RowScratch scratch(lowering, partition,
                                     shared
                                         ? WindowMemory<Largest<T>>::bytes(windows.cellsMost(), windows.windowsMost())
                                         : Maxima<T>::bytes(std::min(taps, kTapsTogether)));
                  return makeKernel(
                      [=](SlotTable slots, int64_t lo, int64_t hi, unsigned worker) {
                        const T *source = static_cast<const T *>(x.read(slots));
                        T *target = static_cast<T *>(out.begin(slots));
                        int64_t *where = indices.in<int64_t>(slots);
                        if (shared) {
                          sharedMaxima(windows, scratch.in(slots, worker), source, target, where, partition.begin(lo),
                                       partition.begin(hi));
                          return;
                        }
                        auto one = [&](int64_t at, int64_t plane, int64_t o0, int64_t o1, int64_t o2) {
                          // 2 padding <= window (verified), so a window holds an element unless
                          // dilation skips all.
                          T best = 0;
                          int64_t index = -1;
                          windows.each(o0, o1, o2, [&](int64_t i) {
                            T value = source[plane + i];
                            const bool isBetter = (index < 0) | (value > best) | (value != value);
                            best = chosen(isBetter, value, best);
                            index = chosen(isBetter, i, index);
                          });
                          target[at] = best;
                          where[at] = index;
                        };
                        if (taps > kTapsTogether) {
                          windows.lines(
                              partition.begin(lo), partition.begin(hi),
                              [&](int64_t at, int64_t plane, int64_t o0, int64_t o1, int64_t from, int64_t to) {
                                for (int64_t o2 = from; o2 < to; ++o2) {
                                  one(at + o2, plane, o0, o1, o2);
                                }
                              },
                              one);
                          return;
                        }
                        Maxima<T> inside(windows, take, maxima, scratch.in(slots, worker), source);
                        windows.lines(
                            partition.begin(lo), partition.begin(hi),
                            [&](int64_t at, int64_t plane, int64_t o0, int64_t o1, int64_t from, int64_t to) {
                              inside.add(plane, o0, o1, from, to, target + at, where + at);
                            },
                            one);
                        inside.flush();
                      },
                      partition.rows);
                }));
}

} // namespace

const LowerFn kernels::lower_pool_sum = lowerPoolSum;
const LowerFn kernels::lower_pool_max = lowerPoolMax;

} // namespace sojourn::runtime
