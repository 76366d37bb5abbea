// SPDX-License-Identifier: Apache-2.0
// Chooses the instruction set once per process, and plain libm loops for few elements.
#include "runtime/VectorKernels.h"
#include <cmath>
#include <cstddef>

namespace sojourn::runtime {

#define SOJOURN_DECLARE(isa)                                                                                           \
  namespace isa {                                                                                                      \
  VectorFn arithmetic(int op, int kind, unsigned splats);                                                              \
  VectorFn selectOf(unsigned width, unsigned splats);                                                                  \
  VectorFn copyOf(unsigned width, unsigned splats);                                                                    \
  VectorFn conversionOf(int from, int to);                                                                             \
  MaximaFn maximaOf(int kind);                                                                                         \
  TakeFn takeOf(int kind);                                                                                             \
  RowsFn reduceRowsOf(int op, int kind);                                                                               \
  PlacesFn placesOf(bool largest, int kind);                                                                           \
  RowsFn spreadRowsOf(unsigned width);                                                                                 \
  VectorFn mathOf(int op);                                                                                             \
  SumLineFn sumLineOf(int64_t stride);                                                                                 \
  MaxLineFn maxLineOf(int64_t stride);                                                                                 \
  MaxGradientFn maxGradientOf(int64_t stride);                                                                         \
  PackFn packOf();                                                                                                     \
  ProductFn productOf();                                                                                               \
  FrameFn frameOf();                                                                                                   \
  TurnFn turnOf();                                                                                                     \
  WindowsFn windowsOf();                                                                                               \
  TapsFn tapsOf();                                                                                                     \
  }
SOJOURN_DECLARE(plain)
#if defined(__x86_64__)
SOJOURN_DECLARE(avx2)
SOJOURN_DECLARE(avx512)
#endif
#undef SOJOURN_DECLARE

namespace {

struct Isa {
  VectorFn (*arithmetic)(int, int, unsigned);
  VectorFn (*selectOf)(unsigned, unsigned);
  VectorFn (*copyOf)(unsigned, unsigned);
  VectorFn (*conversionOf)(int, int);
  MaximaFn (*maximaOf)(int);
  TakeFn (*takeOf)(int);
  RowsFn (*reduceRowsOf)(int, int);
  PlacesFn (*placesOf)(bool, int);
  RowsFn (*spreadRowsOf)(unsigned);
  VectorFn (*mathOf)(int);
  SumLineFn (*sumLineOf)(int64_t);
  MaxLineFn (*maxLineOf)(int64_t);
  MaxGradientFn (*maxGradientOf)(int64_t);
  PackFn (*packOf)();
  ProductFn (*productOf)();
  FrameFn (*frameOf)();
  TurnFn (*turnOf)();
  WindowsFn (*windowsOf)();
  TapsFn (*tapsOf)();
};

Isa choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return {avx512::arithmetic, avx512::selectOf,     avx512::copyOf,        avx512::conversionOf, avx512::maximaOf,
            avx512::takeOf,     avx512::reduceRowsOf, avx512::placesOf,      avx512::spreadRowsOf, avx512::mathOf,
            avx512::sumLineOf,  avx512::maxLineOf,    avx512::maxGradientOf, avx512::packOf,       avx512::productOf,
            avx512::frameOf,    avx512::turnOf,       avx512::windowsOf,     avx512::tapsOf};
  }
  if (__builtin_cpu_supports("avx2")) {
    return {avx2::arithmetic, avx2::selectOf,     avx2::copyOf,        avx2::conversionOf, avx2::maximaOf,
            avx2::takeOf,     avx2::reduceRowsOf, avx2::placesOf,      avx2::spreadRowsOf, avx2::mathOf,
            avx2::sumLineOf,  avx2::maxLineOf,    avx2::maxGradientOf, avx2::packOf,       avx2::productOf,
            avx2::frameOf,    avx2::turnOf,       avx2::windowsOf,     avx2::tapsOf};
  }
#endif
  return {plain::arithmetic, plain::selectOf,     plain::copyOf,        plain::conversionOf, plain::maximaOf,
          plain::takeOf,     plain::reduceRowsOf, plain::placesOf,      plain::spreadRowsOf, plain::mathOf,
          plain::sumLineOf,  plain::maxLineOf,    plain::maxGradientOf, plain::packOf,       plain::productOf,
          plain::frameOf,    plain::turnOf,       plain::windowsOf,     plain::tapsOf};
}

const Isa &isa() {
  static const Isa chosen = choose();
  return chosen;
}

template <typename T, typename Fn>
void unaryLoop(void *out, const void *a, const void *, const void *, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    static_cast<T *>(out)[i] = Fn()(static_cast<const T *>(a)[i]);
  }
}

template <typename T, typename Fn, unsigned splats>
void binaryLoop(void *out, const void *a, const void *b, const void *, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    static_cast<T *>(out)[i] = Fn()(static_cast<const T *>(a)[(splats & 1) != 0 ? 0 : i],
                                    static_cast<const T *>(b)[(splats & 2) != 0 ? 0 : i]);
  }
}

template <typename T, unsigned arity, typename Fn>
VectorFn pickLoop(Fn, unsigned splats) {
  if constexpr (arity == 1) {
    return unaryLoop<T, Fn>;
  } else {
    static constexpr VectorFn table[4] = {binaryLoop<T, Fn, 0>, binaryLoop<T, Fn, 1>, binaryLoop<T, Fn, 2>,
                                          binaryLoop<T, Fn, 3>};
    return table[splats & 3];
  }
}
template <typename T, unsigned arity>
VectorFn pickLoop(std::nullptr_t, unsigned) {
  return nullptr;
}

template <typename T>
T logistic(T x) {
  // Either branch keeps the exponential below 1: no overflow on the way.
  if (x < 0) {
    T e = std::exp(x);
    return e / (T(1) + e);
  }
  return T(1) / (T(1) + std::exp(-x));
}

#define SOJOURN_LIBM(function) [](auto... operands) { return function(operands...); }

template <typename T>
VectorFn scalarOf(EOp op, unsigned splats) {
  const VectorFn loops[] = {
#define SOJOURN_ELEMENTWISE(name, op, arity, kernel, library, libm) pickLoop<T, arity>(libm, splats),
#include "runtime/Elementwise.def"
  };
  return loops[static_cast<unsigned>(op)];
}

#undef SOJOURN_LIBM

} // namespace

Element hubOf(Element element) {
  switch (element) {
  case Element::u8:
  case Element::i8:
  case Element::i16:
  case Element::i32: return Element::i64;
  case Element::f16:
  case Element::bf16: return Element::f32;
  default: return element;
  }
}

/// As `arithmetic` numbers them.
static int kindOf(Element element) {
  return element == Element::i1    ? 0
         : element == Element::i64 ? 1
         : element == Element::f32 ? 2
         : element == Element::f64 ? 3
                                   : -1;
}

TakeFn takeKernel(Element element) { return isa().takeOf(kindOf(element)); }
RowsFn reduceRowsKernel(RowOp op, Element element) { return isa().reduceRowsOf(static_cast<int>(op), kindOf(element)); }
PlacesFn placesKernel(bool largest, Element element) { return isa().placesOf(largest, kindOf(element)); }
RowsFn spreadRowsKernel(Element element) { return isa().spreadRowsOf(static_cast<unsigned>(byteWidth(element))); }
MaximaFn maximaKernel(Element element) { return isa().maximaOf(kindOf(element)); }

SumLineFn sumLineKernel(Element element, int64_t stride) {
  return element == Element::f32 ? isa().sumLineOf(stride) : nullptr;
}

MaxLineKernels maxLineKernels(Element element, int64_t stride) {
  return element == Element::f32 ? MaxLineKernels{isa().maxLineOf(stride), isa().maxGradientOf(stride)}
                                 : MaxLineKernels{nullptr, nullptr};
}

ProductKernels productKernels(Element element) {
  return element == Element::f32 ? ProductKernels{isa().packOf(), isa().productOf()} : ProductKernels{nullptr, nullptr};
}

FrameKernels frameKernels(Element element) {
  return element == Element::f32 ? FrameKernels{isa().frameOf(), isa().turnOf(), isa().windowsOf(), isa().tapsOf()}
                                 : FrameKernels{nullptr, nullptr, nullptr, nullptr};
}

VectorFn vectorKernel(EOp op, Element element, unsigned splats) {
  if (op == EOp::select) {
    return isa().selectOf(static_cast<unsigned>(byteWidth(element)), splats);
  }
  if (op == EOp::copy) {
    return isa().copyOf(static_cast<unsigned>(byteWidth(element)), splats);
  }
  if (element == Element::f32 && classOf(op) == EClass::Library) {
    return isa().mathOf(static_cast<int>(op));
  }
  return isa().arithmetic(static_cast<int>(op), kindOf(element), splats);
}

Conversion conversion(Element from, Element to) {
  auto direct = isa().conversionOf(static_cast<int>(from), static_cast<int>(to));
  if (direct != nullptr) {
    return {direct, nullptr, to};
  }
  // Everything widens exactly to its hub; i1 counts as an integer.
  Element via = from == Element::i1 ? Element::i64 : hubOf(from);
  return {isa().conversionOf(static_cast<int>(from), static_cast<int>(via)),
          isa().conversionOf(static_cast<int>(via), static_cast<int>(to)), via};
}

VectorFn scalarKernel(EOp op, Element element, unsigned splats) {
  return element == Element::f32   ? scalarOf<float>(op, splats)
         : element == Element::f64 ? scalarOf<double>(op, splats)
                                   : nullptr;
}

} // namespace sojourn::runtime
