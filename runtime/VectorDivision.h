// SPDX-License-Identifier: Apache-2.0
// Quotients and remainders. Included where the namespace of an instruction set is open, as VectorKernels.cpp is
// compiled once for each.
#ifndef SOJOURN_RUNTIME_VECTORDIVISION_H
#define SOJOURN_RUNTIME_VECTORDIVISION_H
#include "runtime/VectorChoice.h"
#include <stdint.h>

namespace sojourn::runtime::SOJOURN_ISA {
namespace {

struct Div {
  static float run(float a, float b) { return a / b; }
  static double run(double a, double b) { return a / b; }
  /// By two divisions of doubles: that of integers takes a processor as long as the quotient is.
  static int64_t run(int64_t a, int64_t b) {
    const bool isSmall = uint64_t(b) + 1 <= 2; // -1, 0 and 1: the result is known, and any other divisor will do
    const int64_t divisor = chosen(isSmall, int64_t(2), b);
    const uint64_t x = magnitude(a), y = magnitude(divisor);
    const double real = __builtin_fabs(double(divisor));
    const int64_t near = wholeOf(__builtin_fabs(double(a)) / real); // within 2^11 of the quotient
    const int64_t rest = int64_t(x - uint64_t(near) * y);
    const int64_t more = wholeOf(double(rest) / real);
    const int64_t left = int64_t(uint64_t(rest) - uint64_t(more) * y);
    // Above or below by at most one; y may be 2^63.
    uint64_t quotient = uint64_t(near) + uint64_t(more) - uint64_t(left < 0);
    quotient += uint64_t((left >= 0) & (uint64_t(left) >= y));
    const uint64_t minus = 0 - uint64_t((a ^ divisor) < 0);
    const int64_t byOne = int64_t(uint64_t(a) * uint64_t(b));
    return chosen(isSmall, byOne, int64_t((quotient ^ minus) - minus));
  }

private:
  static uint64_t magnitude(int64_t a) { return (uint64_t(a) ^ (0 - uint64_t(a < 0))) + uint64_t(a < 0); }
};
/// As fmod, in bounded time: libm divides bit by bit, through up to 2,098 of them.
struct Rem {
  static constexpr uint64_t kSign = uint64_t(1) << 63, kHidden = uint64_t(1) << 52, kInfinite = uint64_t(2047) << 52;

  /// x y mod m, for numbers below m < 2^53. The quotient is within 4 of the true one.
  static uint64_t product(uint64_t x, uint64_t y, uint64_t m, double inverse) {
    int64_t rest = int64_t(x * y - uint64_t(double(x) * double(y) * inverse) * m);
    while (rest < 0) {
      rest += int64_t(m);
    }
    while (rest >= int64_t(m)) {
      rest -= int64_t(m);
    }
    return uint64_t(rest);
  }
  /// 2^exponent mod m, by squares.
  static uint64_t power(uint64_t exponent, uint64_t m, double inverse) {
    uint64_t result = 1 % m;
    for (int bit = 63 - __builtin_clzll(exponent); bit >= 0; --bit) {
      result = product(result, result, m, inverse);
      result <<= (exponent >> bit) & 1;
      result -= result >= m ? m : 0;
    }
    return result;
  }
  static double run(double a, double b) {
    const uint64_t sign = __builtin_bit_cast(uint64_t, a) & kSign;
    uint64_t x = __builtin_bit_cast(uint64_t, a) & ~kSign, y = __builtin_bit_cast(uint64_t, b) & ~kSign;
    if (x >= kInfinite || y > kInfinite || y == 0) {
      return __builtin_nan("");
    }
    if (x < y) {
      return a;
    }
    // Whole numbers of the last places of each, subnormal ones too.
    uint64_t from = x >> 52, to = y >> 52;
    x = from == 0 ? x : (x & (kHidden - 1)) | kHidden;
    y = to == 0 ? y : (y & (kHidden - 1)) | kHidden;
    from += from == 0;
    to += to == 0;
    constexpr uint64_t kSpare = 11; // bits above those of a number
    uint64_t rest = x % y, shift = from - to;
    if (shift > 8 * kSpare) {
      const double inverse = 1 / double(y);
      rest = product(rest, power(shift, y, inverse), y, inverse);
      shift = 0;
    }
    for (uint64_t bits = 0; shift > 0 && rest != 0; shift -= bits) {
      bits = shift < kSpare ? shift : kSpare;
      rest = (rest << bits) % y;
    }
    if (rest == 0) {
      return __builtin_bit_cast(double, sign);
    }
    const uint64_t up = uint64_t(__builtin_clzll(rest)) - kSpare;
    const uint64_t bits = up < to ? ((to - up) << 52) | ((rest << up) & (kHidden - 1)) : rest << (to - 1);
    return __builtin_bit_cast(double, bits | sign);
  }
  static float run(float a, float b) { return float(run(double(a), double(b))); } // exact
  static int64_t run(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
};

} // namespace
} // namespace sojourn::runtime::SOJOURN_ISA

#endif // SOJOURN_RUNTIME_VECTORDIVISION_H
