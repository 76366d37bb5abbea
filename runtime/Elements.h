// SPDX-License-Identifier: Apache-2.0
// Helpers of own kernels: operands widened to the few types that kernels are written for.
#pragma once
#include "runtime/Lower.h"
#include <complex>
#include <cstring>

namespace sojourn::runtime {

/// i1 and integers -> i64; f16, bf16 -> f32; others themselves.
inline Element wideOf(Element element) { return element == Element::i1 ? Element::i64 : hubOf(element); }

/// An operand in its wide type; converted into scratch memory where that differs.
class WideInput {
public:
  WideInput(Lowering &lowering, ValueId value)
      : element(wideOf(lowering.type(value).element)), numel_(lowering.type(value).numel()),
        source_(lowering.dense(value)) {
    if (element != lowering.type(value).element) {
      convert_ = conversion(lowering.type(value).element, element).first;
      wide_ = lowering.scratch(static_cast<size_t>(numel_) * byteWidth(element));
    }
  }
  const void *read(SlotTable slots) const {
    if (convert_ == nullptr) {
      return source_.in(slots);
    }
    convert_(wide_.in(slots), source_.in(slots), nullptr, nullptr, numel_);
    return wide_.in(slots);
  }
  /// Whether `read` gives the operand's own memory.
  bool isDirect() const { return convert_ == nullptr; }
  Place place() const { return source_; }
  Element element;

private:
  int64_t numel_;
  VectorFn convert_ = nullptr;
  Place source_, wide_;
};

/// A result computed in its wide type and narrowed at the end.
class WideOutput {
public:
  WideOutput(Lowering &lowering, ValueId value)
      : element(wideOf(lowering.type(value).element)), numel_(lowering.type(value).numel()),
        target_(lowering.result(value)) {
    if (element != lowering.type(value).element) {
      convert_ = conversion(element, lowering.type(value).element).first;
      wide_ = lowering.scratch(static_cast<size_t>(numel_) * byteWidth(element));
    }
  }
  void *begin(SlotTable slots) const { return (convert_ == nullptr ? target_ : wide_).in(slots); }
  void finish(SlotTable slots) const {
    if (convert_ != nullptr) {
      convert_(target_.in(slots), wide_.in(slots), nullptr, nullptr, numel_);
    }
  }
  bool isDirect() const { return convert_ == nullptr; }
  Place place() const { return target_; }
  Element element;

private:
  int64_t numel_;
  VectorFn convert_ = nullptr;
  Place target_, wide_;
};

/// Calls fn<T>() for a wide element; throws PlanFailure for another one.
template <typename Fn>
auto dispatchWide(Lowering &lowering, Element element, Fn fn) {
  switch (element) {
  case Element::i64: return fn.template operator()<int64_t>();
  case Element::f32: return fn.template operator()<float>();
  case Element::f64: return fn.template operator()<double>();
  default: lowering.fail("no kernel for element type " + elementName(element).str());
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
/// A NaN on either side comes out.
template <typename T>
T nanMax(T a, T b) {
  return a != a ? a : (a > b ? a : b);
}
template <typename T>
T nanMin(T a, T b) {
  return a != a ? a : (a < b ? a : b);
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

/// Copies a strided window onto another of the same sizes; strides in elements of `width` bytes.
void copyWindow(llvm::ArrayRef<int64_t> dims, char *target, llvm::ArrayRef<int64_t> targetStrides, const char *source,
                llvm::ArrayRef<int64_t> sourceStrides, int64_t width);

} // namespace sojourn::runtime
