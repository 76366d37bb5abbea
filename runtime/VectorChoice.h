// SPDX-License-Identifier: Apache-2.0
// One of two numbers, by bits: of a conditional expression the compiler may make a branch, whose time tells values.
#ifndef SOJOURN_RUNTIME_VECTORCHOICE_H
#define SOJOURN_RUNTIME_VECTORCHOICE_H
#include <stdint.h>

namespace sojourn::runtime {
namespace {

template <int bytes>
struct Word;
template <>
struct Word<1> {
  using Type = uint8_t;
};
template <>
struct Word<2> {
  using Type = uint16_t;
};
template <>
struct Word<4> {
  using Type = uint32_t;
};
template <>
struct Word<8> {
  using Type = uint64_t;
};

template <typename T>
[[gnu::always_inline]] inline T chosen(bool isFirst, T first, T second) {
  using Bits = typename Word<sizeof(T)>::Type;
  const Bits mask = Bits(Bits(0) - Bits(isFirst));
  return __builtin_bit_cast(
      T, Bits((__builtin_bit_cast(Bits, first) & mask) | (__builtin_bit_cast(Bits, second) & Bits(~mask))));
}

/// An integer of 64 bits made from a real number. Where a set has no vectors of such, lanes that are taken out and put
/// in again cost several times as much as a loop without vectors: the compiler is kept from them.
template <typename Real>
[[gnu::always_inline]] inline int64_t wholeOf(Real value) {
  int64_t whole = int64_t(value);
#if !defined(__AVX512DQ__)
  asm("" : "+r"(whole));
#endif
  return whole;
}

} // namespace
} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_VECTORCHOICE_H
