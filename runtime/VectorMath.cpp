// SPDX-License-Identifier: Apache-2.0
// Transcendental steps of f32 as loops without calls or branches. Compiled as VectorKernels.cpp is, and there only
// where the set multiplies and adds in one rounding: elsewhere the library computes them. Each is within 2.5 ulp, keeps
// to its function's range ([0, 1] of logistic, and so on: proofs ask for it) and passes NaN on.
#include <stdint.h>

namespace sojourn::runtime::SOJOURN_ISA {

using Fn = void (*)(void *, const void *, const void *, const void *, int64_t);

enum class EOp : int {
#define SOJOURN_ELEMENTWISE(name, op, arity, kernel, library, libm) name,
#include "runtime/Elementwise.def"
};

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)

namespace {

float madd(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

int32_t bitsOf(float x) { return __builtin_bit_cast(int32_t, x); }
float ofBits(int32_t bits) { return __builtin_bit_cast(float, bits); }
/// By bits: of a conditional expression the compiler makes a branch, and then no vectors.
float choose(bool isFirst, float first, float second) {
  const int32_t mask = -int32_t(isFirst);
  return ofBits((bitsOf(first) & mask) | (bitsOf(second) & ~mask));
}

float withSign(float magnitude, float x) { return ofBits(bitsOf(magnitude) | (bitsOf(x) & INT32_MIN)); }

/// exp(x) = 2^k (1 + r + r^2 p(r)) with |r| <= ln 2 / 2.
[[gnu::always_inline]] inline float exponential(float x) {
  constexpr int32_t kSign = INT32_MIN, kMost = 0x42d00000; // 104: the result has long been infinity, or 0
  // What comes to 0 is made a 1 on the way: processors take a hundred cycles for a product too small.
  const int32_t kept = -int32_t(!(x < -104.0f));
  constexpr float kRound = 12582912.0f; // adding 1.5 * 2^23 rounds to an integer
  const int32_t bits = bitsOf(x), magnitude = bits & ~kSign;
  const float bounded = ofBits(((magnitude < kMost ? magnitude : kMost) | (bits & kSign)) & kept);
  const float rounded = madd(bounded, 1.44269504088896341f, kRound), n = rounded - kRound;
  const int32_t k = bitsOf(rounded) - bitsOf(kRound), half = k >> 1;
  float r = madd(n, -0.693359375f, bounded);
  r = madd(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = madd(p, r, 1.3981999507e-3f);
  p = madd(p, r, 8.3334519073e-3f);
  p = madd(p, r, 4.1665795894e-2f);
  p = madd(p, r, 1.6666665459e-1f);
  p = madd(p, r, 5.0000001201e-1f);
  const float y = madd(p, r * r, r) + 1.0f;
  // In two steps: the first stays normal, so that a subnormal result is rounded once.
  const float scaled = y * ofBits((half + 127) << 23) * ofBits((k - half + 127) << 23);
  return ofBits((bitsOf(scaled) & kept) | -int32_t(x != x));
}

struct Exp {
  static float run(float x) { return exponential(x); }
};

struct Logistic {
  static float run(float x) {
    const float e = exponential(-ofBits(bitsOf(x) & INT32_MAX)); // at most 1: no overflow on the way
    return choose(x < 0.0f, e, 1.0f) / (1.0f + e);
  }
};

struct Tanh {
  static float run(float x) {
    const float t = ofBits(bitsOf(x) & INT32_MAX), s = x * x;
    const float large = 1.0f - 2.0f / (exponential(2.0f * t) + 1.0f);
    float p = -5.70498872745e-3f;
    p = madd(p, s, 2.06390887954e-2f);
    p = madd(p, s, -5.37397155531e-2f);
    p = madd(p, s, 1.33314422036e-1f);
    p = madd(p, s, -3.33332819422e-1f);
    const float small = madd(p * s, t, t);
    return withSign(choose(t < 0.625f, small, large), x);
  }
};

struct Erf {
  static float run(float x) {
    const float t = ofBits(bitsOf(x) & INT32_MAX), s = x * x;
    float far = madd(-1.72853470e-5f, t, 3.83197126e-4f);
    far = madd(far, s, madd(-3.88396438e-3f, t, 2.42546219e-2f));
    far = madd(far, t, -1.06777877e-1f);
    far = madd(far, t, -6.34846687e-1f);
    far = madd(far, t, -1.28717512e-1f);
    const float power = madd(far, t, -t);
    const float large = 1.0f - exponential(choose(power < -40.0f, -40.0f, power)); // 1 there, without small products
    float near = -5.96761703e-4f;
    near = madd(near, s, 4.99119423e-3f);
    near = madd(near, s, -2.67681349e-2f);
    near = madd(near, s, 1.12819925e-1f);
    near = madd(near, s, -3.76125336e-1f);
    near = madd(near, s, 1.28379166e-1f);
    const float small = madd(near, t, t);
    return withSign(choose(t > 0.927734375f, large, small), x);
  }
};

template <typename Op>
void line(void *out, const void *a, const void *, const void *, int64_t n) {
  float *target = static_cast<float *>(out);
  const float *x = static_cast<const float *>(a);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    target[i] = Op::run(x[i]);
  }
}

} // namespace

Fn mathOf(int op) {
  switch (static_cast<EOp>(op)) {
  case EOp::exp: return line<Exp>;
  case EOp::logistic: return line<Logistic>;
  case EOp::tanh: return line<Tanh>;
  case EOp::erf: return line<Erf>;
  default: return nullptr;
  }
}

#else

Fn mathOf(int) { return nullptr; }

#endif

} // namespace sojourn::runtime::SOJOURN_ISA
