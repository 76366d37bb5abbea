// SPDX-License-Identifier: Apache-2.0
// Windowed sums and maxima over 1 to 3 spatial dims.
#include "runtime/Elements.h"
#include "runtime/SlidingWindows.h"
#include "runtime/VectorKernels.h"
#include <algorithm>
#include <optional>

namespace sojourn::runtime {

namespace {

/// Sizes with absent spatial dims as 1, so that one loop nest serves all ranks.
struct Windows {
  int64_t planes = 1;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, size[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0},
          dilation[3] = {1, 1, 1};

  Windows(Lowering &lowering, const GraphOp &op) {
    const TensorType &x = lowering.type(op.operands[0]), &y = lowering.type(op.results[0]);
    planes = x.dims[0] * x.dims[1];
    size_t spatial = x.rank() - 2;
    for (size_t k = 0; k < spatial; ++k) {
      size_t d = 3 - spatial + k;
      in[d] = x.dims[2 + k];
      out[d] = y.dims[2 + k];
      size[d] = op.ints("window")[k];
      stride[d] = op.ints("stride")[k];
      padding[d] = op.ints("padding")[k];
      dilation[d] = op.ints("dilation")[k];
    }
  }

  /// Window positions [first, past) along dim d whose input lies inside, for output position o.
  void range(int d, int64_t o, int64_t &first, int64_t &past) const {
    int64_t start = o * stride[d] - padding[d];
    if (dilation[d] == 1) { // nearly always, and without divisions
      first = std::max<int64_t>(0, -start);
      past = std::max(std::min(size[d], in[d] - start), first);
      return;
    }
    first = start < 0 ? (-start + dilation[d] - 1) / dilation[d] : 0;
    past = in[d] - start <= 0 ? 0 : std::min(size[d], (in[d] - start + dilation[d] - 1) / dilation[d]);
    past = std::max(past, first); // a window beside the input is an empty range
  }

  /// The first cell of window o along dim d that lies inside, and how many there are.
  void cells(int d, int64_t o, int64_t &at, int64_t &count) const {
    int64_t first, past;
    range(d, o, first, past);
    count = past - first;
    at = count > 0 ? o * stride[d] - padding[d] + first * dilation[d] : 0;
  }

  /// Whether visiting every window's elements costs more than a fixed number of walks over input and result: then the
  /// windows share their work (SlidingWindows.h). Depends on shapes alone.
  bool overlapMuch() const {
    double inputs = 1, outputs = 1, taps = 1;
    for (int d = 0; d < 3; ++d) {
      inputs *= static_cast<double>(in[d]);
      outputs *= static_cast<double>(out[d]);
      taps *= static_cast<double>(std::min(size[d], in[d]));
    }
    return outputs * taps > 128 * (inputs + outputs);
  }

  /// visit(flat input position) for every input of the window at (o0, o1, o2), in row-major order.
  template <typename Visit>
  void each(int64_t o0, int64_t o1, int64_t o2, Visit visit) const {
    int64_t first[3], past[3];
    range(0, o0, first[0], past[0]);
    range(1, o1, first[1], past[1]);
    range(2, o2, first[2], past[2]);
    if (first[0] == past[0] || first[1] == past[1] || first[2] == past[2]) {
      return; // wholly in the padding: no walk over the dims that are not
    }
    for (int64_t a = first[0]; a < past[0]; ++a) {
      int64_t i0 = o0 * stride[0] - padding[0] + a * dilation[0];
      for (int64_t b = first[1]; b < past[1]; ++b) {
        int64_t i1 = o1 * stride[1] - padding[1] + b * dilation[1];
        int64_t row = (i0 * in[1] + i1) * in[2] + o2 * stride[2] - padding[2];
        for (int64_t c = first[2]; c < past[2]; ++c) {
          visit(row + c * dilation[2]);
        }
      }
    }
  }

  /// The windows of a line that lie wholly inside along the last dim.
  void inside(int64_t &first, int64_t &past) const {
    int64_t reach = (size[2] - 1) * dilation[2] + 1, room = in[2] + padding[2] - reach;
    first = std::min((padding[2] + stride[2] - 1) / stride[2], out[2]);
    past = std::clamp(room < 0 ? 0 : room / stride[2] + 1, first, out[2]);
  }

  /// visit(at) for each input of the windows (o0, o1, .) that lie inside, in row-major order: window o's stands at flat
  /// position at + o * stride[2].
  template <typename Visit>
  void eachInside(int64_t o0, int64_t o1, Visit visit) const {
    int64_t first[2], past[2];
    range(0, o0, first[0], past[0]);
    range(1, o1, first[1], past[1]);
    for (int64_t a = first[0]; a < past[0]; ++a) {
      int64_t i0 = o0 * stride[0] - padding[0] + a * dilation[0];
      for (int64_t b = first[1]; b < past[1]; ++b) {
        int64_t i1 = o1 * stride[1] - padding[1] + b * dilation[1];
        for (int64_t c = 0; c < size[2]; ++c) {
          visit((i0 * in[1] + i1) * in[2] - padding[2] + c * dilation[2]);
        }
      }
    }
  }

  int64_t taps() const { return size[0] * size[1] * size[2]; }
  int64_t inPlane() const { return in[0] * in[1] * in[2]; }
  int64_t outPlane() const { return out[0] * out[1] * out[2]; }
  int64_t cellsMost() const { return std::max(inPlane(), outPlane()); }
  int64_t windowsMost() const { return std::max({out[0], out[1], out[2]}); }

  /// What is shared out among workers: lines of results, or planes whose windows share their work.
  Partition partition(bool shared) const {
    int64_t taps = std::min(size[0], in[0]) * std::min(size[1], in[1]) * std::min(size[2], in[2]);
    return shared ? Partition(planes, outPlane() * taps) : Partition(planes * out[0] * out[1], out[2] * taps);
  }

  /// Results of lines [first, past): `whole(line's first result, plane, o0, o1, from, to)` for its windows [from, to)
  /// that lie inside along the last dim, `one(result, plane, o0, o1, o2)` for each other; plane: its first input.
  template <typename Whole, typename One>
  void lines(int64_t first, int64_t past, Whole whole, One one) const {
    int64_t from, to;
    inside(from, to);
    int64_t plane = first / (out[0] * out[1]) * inPlane(), o0 = first / out[1] % out[0], o1 = first % out[1];
    for (int64_t line = first; line < past; ++line) {
      int64_t at = line * out[2];
      whole(at, plane, o0, o1, from, to);
      for (int64_t o2 = 0; o2 < from; ++o2) {
        one(at + o2, plane, o0, o1, o2);
      }
      for (int64_t o2 = to; o2 < out[2]; ++o2) {
        one(at + o2, plane, o0, o1, o2);
      }
      if (++o1 == out[1]) {
        o1 = 0;
        o0 = o0 + 1 == out[0] ? 0 : o0 + 1;
        plane += o0 == 0 ? inPlane() : 0;
      }
    }
  }
};

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
  // NaN wins over numbers; of equals the first, in whatever order they meet.
  auto larger = [](const Largest<T> &a, const Largest<T> &b) {
    if (a.index < 0 || b.index < 0) {
      return a.index < 0 ? b : a;
    }
    bool noA = a.value != a.value, noB = b.value != b.value;
    bool equal = a.value == b.value || (noA && noB);
    return (equal ? b.index < a.index : b.value > a.value || noB) ? b : a;
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

/// Sums of the windows [from, to) of a line, one input of all windows after the other.
template <typename T>
void sumsInside(const Windows &windows, const T *source, T *target, int64_t o0, int64_t o1, int64_t from, int64_t to) {
  const int64_t stride = windows.stride[2];
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
  lowering.emit(op, dispatchWide(lowering, x.element, [&]<typename T>() -> std::unique_ptr<Kernel> {
                  std::optional<RowScratch> scratch;
                  if (shared) {
                    scratch.emplace(lowering, partition,
                                    WindowMemory<T>::bytes(windows.cellsMost(), windows.windowsMost()));
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
                              sumsInside(windows, source + plane, target + at, o0, o1, from, to);
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
                            if (index < 0 || value > best || (value != value && best == best)) {
                              best = value;
                              index = i;
                            }
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
