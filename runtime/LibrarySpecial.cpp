// SPDX-License-Identifier: Apache-2.0
// Special functions: the library's, of one element, bounded in time.
#include "runtime/LibraryTensor.h"

// The library's recurrences set a variable in their loops, which the compiler cannot see to run.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include <ATen/native/Math.h>

#include <limits>

namespace sojourn::runtime::special {

namespace {

template <typename T>
constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();
/// The library's loops are as long as a degree, or as a position of zeta is below 0.
constexpr int kLongest = 4096;

template <typename T, typename Function>
T ofDegree(T x, T degree, Function polynomial) {
  if (!(degree <= kLongest)) {
    return kNaN<T>;
  }
  return degree <= T(-1) ? T(0) : polynomial(x, static_cast<int64_t>(degree));
}

template <typename T>
T boundedZeta(T exponent, T position) {
  return position < -kLongest ? kNaN<T> : ::zeta<T, /*is_cuda=*/false>(exponent, position);
}

template <typename T, typename Function>
void overLine(at::Tensor &out, const at::Tensor &x, Function function) {
  T *to = out.mutable_data_ptr<T>();
  const T *from = x.const_data_ptr<T>();
  const int64_t step = x.dim() == 0 ? 0 : 1;
  for (int64_t i = 0; i < out.numel(); ++i) {
    to[i] = function(from[i * step]);
  }
}

template <typename T, typename Function>
void overLine(at::Tensor &out, const at::Tensor &a, const at::Tensor &b, Function function) {
  T *to = out.mutable_data_ptr<T>();
  const T *first = a.const_data_ptr<T>(), *second = b.const_data_ptr<T>();
  const int64_t step = a.dim() == 0 ? 0 : 1, other = b.dim() == 0 ? 0 : 1;
  for (int64_t i = 0; i < out.numel(); ++i) {
    to[i] = function(first[i * step], second[i * other]);
  }
}

template <typename Function>
void run(at::Tensor &out, const at::Tensor &x, Function function) {
  return out.scalar_type() == at::kFloat ? overLine<float>(out, x, function) : overLine<double>(out, x, function);
}

template <typename Function>
void run(at::Tensor &out, const at::Tensor &a, const at::Tensor &b, Function function) {
  return out.scalar_type() == at::kFloat ? overLine<float>(out, a, b, function) : overLine<double>(out, a, b, function);
}

} // namespace

#define SOJOURN_UNARY(name, function)                                                                                  \
  void name(at::Tensor &out, const at::Tensor &a, const at::Tensor &) {                                                \
    run(out, a, [](auto value) { return function(value); });                                                           \
  }
#define SOJOURN_BINARY(name, function)                                                                                 \
  void name(at::Tensor &out, const at::Tensor &a, const at::Tensor &b) {                                               \
    run(out, a, b, [](auto first, auto second) { return function(first, second); });                                   \
  }
#define SOJOURN_POLYNOMIAL(name)                                                                                       \
  void name(at::Tensor &out, const at::Tensor &x, const at::Tensor &degree) {                                          \
    run(out, x, degree, [](auto value, auto n) {                                                                       \
      return ofDegree(value, n, [](auto at, int64_t k) { return name##_forward(at, k); });                             \
    });                                                                                                                \
  }

SOJOURN_UNARY(airy_ai, airy_ai_forward)
SOJOURN_UNARY(bessel_j0, bessel_j0_forward)
SOJOURN_UNARY(bessel_j1, bessel_j1_forward)
SOJOURN_UNARY(bessel_y0, bessel_y0_forward)
SOJOURN_UNARY(bessel_y1, bessel_y1_forward)
SOJOURN_UNARY(erfcx, calc_erfcx)
SOJOURN_UNARY(i0, calc_i0)
SOJOURN_UNARY(i0e, calc_i0e)
SOJOURN_UNARY(i1, calc_i1)
SOJOURN_UNARY(i1e, calc_i1e)
SOJOURN_UNARY(modified_bessel_k0, modified_bessel_k0_forward)
SOJOURN_UNARY(modified_bessel_k1, modified_bessel_k1_forward)
SOJOURN_UNARY(scaled_modified_bessel_k0, scaled_modified_bessel_k0_forward)
SOJOURN_UNARY(scaled_modified_bessel_k1, scaled_modified_bessel_k1_forward)
SOJOURN_UNARY(ndtri, calc_ndtri)
SOJOURN_UNARY(spherical_bessel_j0, spherical_bessel_j0_forward)

SOJOURN_BINARY(zeta, boundedZeta)
SOJOURN_BINARY(gammainc, calc_igamma)
SOJOURN_BINARY(gammaincc, calc_igammac)

SOJOURN_POLYNOMIAL(chebyshev_polynomial_t)
SOJOURN_POLYNOMIAL(chebyshev_polynomial_u)
SOJOURN_POLYNOMIAL(chebyshev_polynomial_v)
SOJOURN_POLYNOMIAL(chebyshev_polynomial_w)
SOJOURN_POLYNOMIAL(shifted_chebyshev_polynomial_t)
SOJOURN_POLYNOMIAL(shifted_chebyshev_polynomial_u)
SOJOURN_POLYNOMIAL(shifted_chebyshev_polynomial_v)
SOJOURN_POLYNOMIAL(shifted_chebyshev_polynomial_w)
SOJOURN_POLYNOMIAL(hermite_polynomial_h)
SOJOURN_POLYNOMIAL(hermite_polynomial_he)
SOJOURN_POLYNOMIAL(laguerre_polynomial_l)
SOJOURN_POLYNOMIAL(legendre_polynomial_p)

} // namespace sojourn::runtime::special
