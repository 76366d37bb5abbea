// SPDX-License-Identifier: Apache-2.0
// Helpers of own kernels: operands widened to the few types that kernels are written for.
#ifndef SOJOURN_RUNTIME_ELEMENTS_H
#define SOJOURN_RUNTIME_ELEMENTS_H
#include "runtime/Lower.h"
#include "runtime/VectorChoice.h"
#include <complex>
#include <cstring>

namespace sojourn::runtime {

/// i1 and integers -> i64; f16, bf16 -> f32; others themselves.
inline Element wideOf(Element element) { return element == Element::i1 ? Element::i64 : hubOf(element); }

/// An operand in its wide type; a chain before the op converts it where that differs.
class WideInput {
public:
  WideInput(Lowering &lowering, ValueId value)
      : element(wideOf(lowering.type(value).element)), isDirect_(element == lowering.type(value).element),
        place_(lowering.denseAs(value, element)) {}
  const void *read(SlotTable slots) const { return place_.in(slots); }
  /// Whether this is the operand's own memory.
  bool isDirect() const { return isDirect_; }
  Place place() const { return place_; }
  Element element;

private:
  bool isDirect_;
  Place place_;
};

/// A result computed in its wide type; a chain after the op narrows it.
class WideOutput {
public:
  WideOutput(Lowering &lowering, ValueId value)
      : element(wideOf(lowering.type(value).element)), place_(lowering.resultAs(value, element)) {}
  void *begin(SlotTable slots) const { return place_.in(slots); }
  Place place() const { return place_; }
  Element element;

private:
  Place place_;
};

/// Calls fn<T>() for a wide element; throws PlanFailure for another one.
template <typename Fn>
auto dispatchWide(Lowering &lowering, Element element, Fn fn) {
  switch (element) {
  case Element::i64: return fn.template operator()<int64_t>();
  case Element::f32: return fn.template operator()<float>();
  case Element::f64: return fn.template operator()<double>();
  default: lowering.fail("no kernel for element type " + std::string(elementName(element)));
  }
}

/// As dispatchWide, and complex numbers too.
template <typename Fn>
auto dispatchNumber(Lowering &lowering, Element element, Fn fn) {
  switch (element) {
  case Element::c64: return fn.template operator()<std::complex<float>>();
  case Element::c128: return fn.template operator()<std::complex<double>>();
  default: return dispatchWide(lowering, element, fn);
  }
}

template <typename T>
T wrapAdd(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}
template <typename T>
T wrapMul(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}
/// The greater, or the lesser; a NaN on either side comes out. Reals are chosen in a lane of a vector, where neither a
/// branch nor a way through other registers is needed.
template <bool greater, typename T>
T nanExtreme(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return greater ? std::max(a, b) : std::min(a, b);
  } else {
    typedef T Lanes __attribute__((vector_size(16)));
    const Lanes first = {a}, second = {b};
    const Lanes extreme = (first != first) | (greater ? first > second : first < second) ? first : second;
    return extreme[0];
  }
}
template <typename T>
T nanMax(T a, T b) {
  return nanExtreme<true>(a, b);
}
template <typename T>
T nanMin(T a, T b) {
  return nanExtreme<false>(a, b);
}

/// Sizes of the dims before, at and after one dim.
struct Split {
  int64_t outer = 1, size = 1, inner = 1;
  Split(llvm::ArrayRef<int64_t> dims, int64_t dim) {
    for (size_t i = 0; i < dims.size(); ++i) {
      (static_cast<int64_t>(i) < dim ? outer : static_cast<int64_t>(i) == dim ? size : inner) *= dims[i];
    }
  }
};

/// Dense contents at a place as a view.
inline StridedView denseView(Place place, Element element, llvm::ArrayRef<int64_t> dims) {
  StridedView view;
  view.slot = place.slot;
  view.element = element;
  view.offset = place.bytes / static_cast<int64_t>(byteWidth(element));
  view.dims.assign(dims.begin(), dims.end());
  view.strides = denseStrides(dims);
  return view;
}

/// The op's result is zero.
void emitZeros(Lowering &lowering, const GraphOp &op);

/// Memory that a row needs while it runs: each worker's own; or, where a row needs so much that every
/// worker's would be too much, the op's own, and all items become one row.
class RowScratch {
public:
  RowScratch(Lowering &lowering, Partition &partition, size_t bytes) {
    constexpr size_t kWorkerBytesMax = size_t{32} << 20;
    if (partition.rows == 1 || bytes > kWorkerBytesMax) {
      partition = Partition(partition.items, 0, 1);
      own_ = lowering.scratch(bytes);
    } else {
      lowering.workerScratch(bytes);
    }
  }
  char *in(SlotTable slots, unsigned worker) const {
    return own_.slot != kNoSlot ? own_.in(slots) : slots.scratch(worker);
  }

private:
  Place own_;
};

/// Runs body(lo, hi) for the items of rows [lo, hi), row by row.
template <typename Body>
void eachRow(const Partition &partition, int64_t lo, int64_t hi, Body body) {
  for (int64_t row = lo; row < hi; ++row) {
    body(partition.begin(row), partition.begin(row + 1));
  }
}

/// A window cut along its outermost dim of more than one element, so that workers copy parts of it.
class WindowCopy {
public:
  WindowCopy() = default;
  WindowCopy(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> targetStrides, llvm::ArrayRef<int64_t> sourceStrides,
             int64_t width);
  /// Copies what rows [lo, hi) of the partition hold.
  void run(char *target, const char *source, int64_t lo, int64_t hi) const;
  Partition partition;

private:
  llvm::SmallVector<int64_t, 4> dims_, to_, from_;
  size_t cut_ = 0;
  int64_t width_ = 1;
};

/// Copies a strided window onto another of the same sizes; strides in elements of `width` bytes.
void copyWindow(llvm::ArrayRef<int64_t> dims, char *target, llvm::ArrayRef<int64_t> targetStrides, const char *source,
                llvm::ArrayRef<int64_t> sourceStrides, int64_t width);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_ELEMENTS_H
