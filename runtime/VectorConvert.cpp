// SPDX-License-Identifier: Apache-2.0
// The conversions behind runtime/VectorKernels.h. Compiled as VectorKernels.cpp is.
#include "runtime/VectorChoice.h"
#include <stdint.h>

namespace sojourn::runtime::SOJOURN_ISA {

using Fn = void (*)(void *, const void *, const void *, const void *, int64_t);

namespace {

// --- Halves ---------------------------------------------------------------------------------------
union Float {
  float real;
  uint32_t bits;
};

float widenHalf(uint16_t half) {
  // Shifts exponent and fraction into place; subnormals are normalised by a subtraction, infinities
  // and NaN get the exponent's rest.
  Float value;
  value.bits = uint32_t(half & 0x7fff) << 13;
  const uint32_t exponent = value.bits & 0x0f800000u;
  value.bits += uint32_t(127 - 15) << 23;
  const bool special = exponent == 0x0f800000u, subnormal = exponent == 0;
  value.bits += chosen(special, uint32_t(128 - 16) << 23, 0u);
  Float small;
  small.bits = value.bits + (uint32_t(1) << 23);
  Float magic;
  magic.bits = uint32_t(113) << 23;
  small.real -= magic.real;
  value.bits = chosen(subnormal, small.bits, value.bits);
  value.bits |= uint32_t(half & 0x8000) << 16;
  return value.real;
}

uint16_t narrowHalf(float real) {
  Float value;
  value.real = real;
  const uint32_t sign = value.bits & 0x80000000u;
  value.bits ^= sign;
  const uint32_t overflow = chosen(value.bits > 0x7f800000u, 0x7e00u, 0x7c00u);
  Float magic;
  magic.bits = uint32_t((127 - 15) + (23 - 10) + 1) << 23;
  Float small;
  small.real = value.real + magic.real;
  const uint32_t subnormal = small.bits - magic.bits;
  const uint32_t odd = (value.bits >> 13) & 1;
  const uint32_t normal = (value.bits + (uint32_t(15 - 127) << 23) + 0xfffu + odd) >> 13;
  const uint32_t finite = chosen(value.bits < (uint32_t(113) << 23), subnormal, normal);
  const uint32_t result = chosen(value.bits >= (uint32_t(127 + 16) << 23), overflow, finite);
  return uint16_t(result | (sign >> 16));
}

float widenBrain(uint16_t half) {
  Float value;
  value.bits = uint32_t(half) << 16;
  return value.real;
}

uint16_t narrowBrain(float real) {
  Float value;
  value.real = real;
  const uint32_t rounded = (value.bits + 0x7fffu + ((value.bits >> 16) & 1)) >> 16;
  return uint16_t(chosen(real != real, 0x7fc0u, rounded));
}

/// f64 to f32 rounded to odd: a following rounding to fewer bits is then correct.
float toOdd(double real) {
  Float near;
  near.real = float(real);
  const double back = double(near.real);
  const bool inexact = (back != real) & (real == real);
  // Step toward zero where rounding went away from it, then set the last bit.
  const bool away = __builtin_fabs(back) > __builtin_fabs(real);
  const uint32_t truncated = near.bits - uint32_t(away);
  near.bits = chosen(inexact, truncated | 1u, near.bits);
  return near.real;
}

// --- Conversion -----------------------------------------------------------------------------------
struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
struct Bool {
  uint8_t bits;
};

template <typename T>
struct Limits;
template <>
struct Limits<uint8_t> {
  static constexpr double low = 0, high = 255;
  static constexpr int64_t min = 0, max = 255;
};
template <>
struct Limits<int8_t> {
  static constexpr double low = -128, high = 127;
  static constexpr int64_t min = -128, max = 127;
};
template <>
struct Limits<int16_t> {
  static constexpr double low = -32768, high = 32767;
  static constexpr int64_t min = -32768, max = 32767;
};
template <>
struct Limits<int32_t> {
  static constexpr double low = -2147483648.0, high = 2147483647.0;
  static constexpr int64_t min = INT32_MIN, max = INT32_MAX;
};
template <>
struct Limits<int64_t> {
  static constexpr double low = -9223372036854775808.0, high = 9223372036854775808.0;
  static constexpr int64_t min = INT64_MIN, max = INT64_MAX;
};

template <typename F, typename T>
struct Cast {
  static T run(F value) { return T(value); }
};
template <typename F, typename T>
struct Saturate {
  static T run(F value) {
    const bool high = double(value) >= Limits<T>::high, low = double(value) <= Limits<T>::low;
    const F inside = chosen(high | low | (value != value), F(0), value);
    return chosen(high, T(Limits<T>::max), chosen(low, T(Limits<T>::min), T(inside)));
  }
};
template <typename F>
struct Saturate<F, int64_t> {
  static int64_t run(F value) {
    const double real = double(value);
    const bool high = real >= Limits<int64_t>::high, low = real <= Limits<int64_t>::low;
    const bool isInside = (real < Limits<int64_t>::high) & (real > Limits<int64_t>::low);
    const uint64_t outside = (uint64_t(INT64_MAX) + uint64_t(low)) & (0 - uint64_t(high | low));
    return wholeOf(chosen(isInside, real, 0.0)) | int64_t(outside);
  }
};
#define SATURATE(F)                                                                                                    \
  template <>                                                                                                          \
  struct Cast<F, uint8_t> : Saturate<F, uint8_t> {};                                                                   \
  template <>                                                                                                          \
  struct Cast<F, int8_t> : Saturate<F, int8_t> {};                                                                     \
  template <>                                                                                                          \
  struct Cast<F, int16_t> : Saturate<F, int16_t> {};                                                                   \
  template <>                                                                                                          \
  struct Cast<F, int32_t> : Saturate<F, int32_t> {};                                                                   \
  template <>                                                                                                          \
  struct Cast<F, int64_t> : Saturate<F, int64_t> {};
SATURATE(float)
SATURATE(double)
#undef SATURATE
template <typename F>
struct Cast<F, Bool> {
  static Bool run(F value) { return {uint8_t(value != F(0))}; }
};
template <typename T>
struct Cast<Bool, T> {
  static T run(Bool value) { return T(value.bits); }
};
template <typename T>
struct Cast<Half, T> {
  static T run(Half value) { return T(widenHalf(value.bits)); }
};
template <typename T>
struct Cast<Brain, T> {
  static T run(Brain value) { return T(widenBrain(value.bits)); }
};
template <>
struct Cast<float, Half> {
  static Half run(float value) { return {narrowHalf(value)}; }
};
template <>
struct Cast<float, Brain> {
  static Brain run(float value) { return {narrowBrain(value)}; }
};
template <>
struct Cast<double, Half> {
  static Half run(double value) { return {narrowHalf(toOdd(value))}; }
};
template <>
struct Cast<double, Brain> {
  static Brain run(double value) { return {narrowBrain(toOdd(value))}; }
};
template <>
struct Cast<int64_t, Half> {
  static Half run(int64_t value) { return {narrowHalf(float(value))}; }
};
template <>
struct Cast<int64_t, Brain> {
  static Brain run(int64_t value) { return {narrowBrain(float(value))}; }
};

template <typename F, typename T>
void convert(void *out, const void *a, const void *, const void *, int64_t n) {
  T *target = static_cast<T *>(out);
  const F *x = static_cast<const F *>(a);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    target[i] = Cast<F, T>::run(x[i]);
  }
}

} // namespace

#define SOJOURN_TARGETS(F)                                                                                             \
  switch (to) {                                                                                                        \
  case 0: return convert<F, Bool>;                                                                                     \
  case 1: return convert<F, uint8_t>;                                                                                  \
  case 2: return convert<F, int8_t>;                                                                                   \
  case 3: return convert<F, int16_t>;                                                                                  \
  case 4: return convert<F, int32_t>;                                                                                  \
  case 5: return convert<F, int64_t>;                                                                                  \
  case 6: return convert<F, Half>;                                                                                     \
  case 7: return convert<F, Brain>;                                                                                    \
  case 8: return convert<F, float>;                                                                                    \
  case 9: return convert<F, double>;                                                                                   \
  }                                                                                                                    \
  return nullptr;

/// Elements by their wire numbers: from a hub to anything real, or from anything real to its hub.
Fn conversionOf(int from, int to) {
  switch (from) {
  case 5: SOJOURN_TARGETS(int64_t)
  case 8: SOJOURN_TARGETS(float)
  case 9: SOJOURN_TARGETS(double)
  case 0:
    return to == 5   ? convert<Bool, int64_t>
           : to == 8 ? convert<Bool, float>
           : to == 9 ? convert<Bool, double>
                     : nullptr;
  case 1: return to == 5 ? convert<uint8_t, int64_t> : nullptr;
  case 2: return to == 5 ? convert<int8_t, int64_t> : nullptr;
  case 3: return to == 5 ? convert<int16_t, int64_t> : nullptr;
  case 4: return to == 5 ? convert<int32_t, int64_t> : nullptr;
  case 6: return to == 8 ? convert<Half, float> : nullptr;
  case 7: return to == 8 ? convert<Brain, float> : nullptr;
  }
  return nullptr;
}

} // namespace sojourn::runtime::SOJOURN_ISA
