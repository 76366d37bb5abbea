// SPDX-License-Identifier: Apache-2.0
// Special functions: those that core form names, and what follows from them.
#include "passes/decompose/Call.h"

#include <cmath>

using namespace mlir;

namespace sojourn::decompose {
namespace {

constexpr double kPi = 3.14159265358979323846;

/// The function's name in core form: the op's own, without what torch puts before it.
StringRef functionOf(const Call &c) {
  StringRef name = c.base;
  name.consume_front("special_");
  return llvm::StringSwitch<StringRef>(name)
      .Case("igamma", "gammainc")
      .Case("igammac", "gammaincc")
      .Case("modified_bessel_i0", "i0")
      .Case("modified_bessel_i1", "i1")
      .Default(name);
}

/// In the type that the result is computed in.
Term operand(Call &c, StringRef name) { return c.number(name, wideElement(c.element())); }

Results one(Call &c) { return special(functionOf(c), operand(c, c.anyOf({"self", "x"}))); }

Results two(Call &c) {
  const Type element = wideElement(c.element());
  const bool isPolynomial = c.has("n");
  return special(functionOf(c), c.number(isPolynomial ? "x" : "self", element),
                 c.number(isPolynomial ? "n" : "other", element));
}

/// log(ndtr(x)): far below 0 by the scaled function, which does not vanish there.
Results logNdtr(Call &c) {
  Term x = operand(c, "self"), t = x * std::sqrt(0.5);
  Term far = log(special("erfcx", -t) * 0.5) - t * t;
  return select(x < -1.0, far, log1p(erfc(t) * -0.5));
}

/// The derivative of digamma; left of 1/2 by reflection.
Term trigamma(Term x) {
  Term isLow = x < 0.5, sine = sin(x * kPi);
  Term high = special("zeta", full(*x.emitter, {}, 2, x.element()), select(isLow, 1.0 - x, x));
  high = select(eq(x, HUGE_VAL), 0.0, high);
  return select(isLow, (kPi * kPi) / (sine * sine) - high, high);
}

Results polygamma(Call &c) {
  const int64_t n = c.integer("n");
  Term x = operand(c, "self");
  if (n < 0) {
    return c.fail("n is " + Twine(n) + ", expected a non-negative order");
  }
  if (n < 2) {
    return n == 0 ? digamma(x) : trigamma(x);
  }
  const auto order = static_cast<double>(n);
  Term sum = special("zeta", full(*x.emitter, {}, order + 1, x.element()), x);
  return sum * ((n % 2 != 0 ? 1 : -1) * std::tgamma(order + 1));
}

/// sum over i < p of lgamma(x - i / 2), and log(pi) p (p - 1) / 4.
Results multivariateLgamma(Call &c) {
  const int64_t p = c.integer("p");
  Term x = operand(c, "self"), result = lgamma(x);
  for (int64_t i = 1; i < p; ++i) {
    result = result + lgamma(x - static_cast<double>(i) / 2);
  }
  return result + std::log(kPi) * static_cast<double>(p * (p - 1)) / 4;
}

} // namespace

void addSpecial(Table &t) {
  t.add({"i0", "special_i0", "special_i0e", "special_i1", "special_i1e", "special_modified_bessel_i0",
         "special_modified_bessel_i1", "special_modified_bessel_k0", "special_modified_bessel_k1",
         "special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1"},
        one);
  t.add({"special_bessel_j0", "special_bessel_j1", "special_bessel_y0", "special_bessel_y1", "special_airy_ai",
         "special_spherical_bessel_j0", "special_erfcx", "special_ndtri"},
        one);
  t.add({"igamma", "igammac", "special_zeta"}, two);
  t.add({"special_chebyshev_polynomial_t", "special_chebyshev_polynomial_u", "special_chebyshev_polynomial_v",
         "special_chebyshev_polynomial_w", "special_shifted_chebyshev_polynomial_t",
         "special_shifted_chebyshev_polynomial_u", "special_shifted_chebyshev_polynomial_v",
         "special_shifted_chebyshev_polynomial_w", "special_hermite_polynomial_h", "special_hermite_polynomial_he",
         "special_laguerre_polynomial_l", "special_legendre_polynomial_p"},
        two);
  t.add({"special_log_ndtr"}, logNdtr);
  t.add({"polygamma", "special_polygamma"}, polygamma);
  t.add({"mvlgamma", "special_multigammaln"}, multivariateLgamma);
}

} // namespace sojourn::decompose
