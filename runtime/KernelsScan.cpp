// SPDX-License-Identifier: Apache-2.0
// Scans, sorts and the position of extremes: one line along a dim at a time.
#include "runtime/Elements.h"
#include <algorithm>
#include <cmath>

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
    if (a != a || x != x) {
      return a + x;
    }
    A low = std::min(a, x), high = std::max(a, x);
    // Equal infinities: their difference is no number, the sum is that infinity.
    return low == high && std::isinf(low) ? high : high + std::log1p(std::exp(low - high));
  }
};

template <typename Op, typename T, typename A>
void scanLines(T *out, const T *x, const Split &split) {
  for (int64_t outer = 0; outer < split.outer; ++outer) {
    for (int64_t inner = 0; inner < split.inner; ++inner) {
      int64_t at = outer * split.size * split.inner + inner;
      A sum{};
      for (int64_t k = 0; k < split.size; ++k, at += split.inner) {
        sum = k == 0 ? static_cast<A>(x[at]) : Op::step(sum, static_cast<A>(x[at]));
        out[at] = static_cast<T>(sum);
      }
    }
  }
}

template <typename Op>
void lowerScan(Lowering &lowering, const GraphOp &op) {
  Split split(lowering.type(op.operands[0]).dims, op.integer("dim"));
  WideInput x(lowering, op.operands[0]);
  WideOutput out(lowering, op.results[0]);
  constexpr bool ordered = std::is_same_v<Op, Largest> || std::is_same_v<Op, Smallest>;
  constexpr bool logarithmic = std::is_same_v<Op, LogSumExp>;
  auto build = [&]<typename T>() -> std::unique_ptr<Kernel> {
    if constexpr (logarithmic && std::is_same_v<T, int64_t>) {
      lowering.fail("cumlogsumexp of integers");
    } else {
      return makeKernel([=](SlotTable slots, int64_t, int64_t) {
        T *target = static_cast<T *>(out.begin(slots));
        scanLines<Op, T, typename Wider<T>::type>(target, static_cast<const T *>(x.read(slots)), split);
        out.finish(slots);
      });
    }
  };
  if constexpr (ordered || logarithmic) {
    lowering.emit(op, dispatchWide(lowering, x.element, build));
  } else {
    lowering.emit(op, dispatchNumber(lowering, x.element, build));
  }
}

/// a before b, ascending, NaN last.
template <typename T>
bool before(T a, T b) {
  return a == a && (b != b || a < b);
}

template <bool largest>
void lowerArg(Lowering &lowering, const GraphOp &op) {
  Split split(lowering.type(op.operands[0]).dims, op.integer("dim"));
  WideInput x(lowering, op.operands[0]);
  Place out = lowering.result(op.results[0]);
  lowering.emit(op, dispatchWide(lowering, x.element, [&]<typename T>() -> std::unique_ptr<Kernel> {
                  return makeKernel([=](SlotTable slots, int64_t, int64_t) {
                    const T *source = static_cast<const T *>(x.read(slots));
                    int64_t *target = out.in<int64_t>(slots);
                    for (int64_t outer = 0; outer < split.outer; ++outer) {
                      for (int64_t inner = 0; inner < split.inner; ++inner) {
                        const T *line = source + outer * split.size * split.inner + inner;
                        T best = line[0];
                        int64_t where = 0;
                        for (int64_t k = 1; k < split.size && best == best; ++k) {
                          T value = line[k * split.inner];
                          if (value != value || (largest ? value > best : value < best)) {
                            best = value;
                            where = k;
                          }
                        }
                        target[outer * split.inner + inner] = where;
                      }
                    }
                  });
                }));
}

/// Sorts each line and keeps its first `keep` elements. Ties keep their order: the former index
/// decides, so an unstable in-place sort does it.
void lowerSorted(Lowering &lowering, const GraphOp &op, bool descending, int64_t keep) {
  Split split(lowering.type(op.operands[0]).dims, op.integer("dim"));
  keep = keep < 0 ? split.size : keep;
  WideInput x(lowering, op.operands[0]);
  WideOutput values(lowering, op.results[0]);
  Place indices = lowering.result(op.results[1]);
  size_t lineBytes = static_cast<size_t>(split.size) * 16;
  Place scratch = lowering.scratch(lineBytes);
  lowering.emit(op, dispatchWide(lowering, x.element, [&]<typename T>() -> std::unique_ptr<Kernel> {
                  return makeKernel([=](SlotTable slots, int64_t, int64_t) {
                    struct Entry {
                      T value;
                      int64_t index;
                    };
                    static_assert(sizeof(Entry) <= 16);
                    const T *source = static_cast<const T *>(x.read(slots));
                    T *target = static_cast<T *>(values.begin(slots));
                    int64_t *where = indices.in<int64_t>(slots);
                    Entry *line = scratch.in<Entry>(slots);
                    for (int64_t outer = 0; outer < split.outer; ++outer) {
                      for (int64_t inner = 0; inner < split.inner; ++inner) {
                        int64_t base = outer * split.size * split.inner + inner;
                        for (int64_t k = 0; k < split.size; ++k) {
                          line[k] = {source[base + k * split.inner], k};
                        }
                        auto less = [&](const Entry &a, const Entry &b) {
                          bool ab = descending ? before(b.value, a.value) : before(a.value, b.value);
                          bool ba = descending ? before(a.value, b.value) : before(b.value, a.value);
                          return ab != ba ? ab : a.index < b.index;
                        };
                        if (keep < split.size) {
                          std::partial_sort(line, line + keep, line + split.size, less);
                        } else {
                          std::sort(line, line + split.size, less);
                        }
                        int64_t to = outer * keep * split.inner + inner;
                        for (int64_t k = 0; k < keep; ++k) {
                          target[to + k * split.inner] = line[k].value;
                          where[to + k * split.inner] = line[k].index;
                        }
                      }
                    }
                    values.finish(slots);
                  });
                }));
}

void lowerSort(Lowering &lowering, const GraphOp &op) { lowerSorted(lowering, op, op.integer("descending") != 0, -1); }

void lowerTopK(Lowering &lowering, const GraphOp &op) {
  lowerSorted(lowering, op, op.integer("largest") != 0, op.integer("k"));
}

} // namespace

void addScanKernels(llvm::StringMap<LowerFn> &table) {
  table["cumsum"] = lowerScan<Sum>;
  table["cumprod"] = lowerScan<Product>;
  table["cummax"] = lowerScan<Largest>;
  table["cummin"] = lowerScan<Smallest>;
  table["cumlogsumexp"] = lowerScan<LogSumExp>;
  table["argmax"] = lowerArg<true>;
  table["argmin"] = lowerArg<false>;
  table["sort"] = lowerSort;
  table["topk"] = lowerTopK;
}

} // namespace sojourn::runtime
