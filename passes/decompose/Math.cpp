// SPDX-License-Identifier: Apache-2.0
// Functions of one variable. What core lacks is derived in a form that keeps
// a few ulp over the whole range.
#include "passes/decompose/Call.h"

#include <cmath>

using namespace mlir;

namespace sojourn::decompose {
namespace {

constexpr double kLn2 = 0.69314718055994530942;
constexpr double kLn10 = 2.30258509299404568402;
constexpr double kPi = 3.14159265358979323846;

/// A single core op: halves need no widening, since every core op rounds
/// once; integers compute in the recorded result type.
template <Term (*Function)(Term)>
Results simple(Call &c) {
  Term x = c.in("self");
  if (!x.isFloat() && isa<FloatType>(c.element())) {
    x = convert(x, c.element());
  }
  return Function(x);
}

/// A derived function, computed wide.
template <Term (*Function)(Term)>
Results derived(Call &c) {
  Term x = c.wide("self");
  if (!x.isFloat() && isa<FloatType>(c.element())) {
    x = convert(x, wideElement(c.element()));
  }
  return Function(x);
}

Term negate(Term x) { return -x; }
Term identity(Term x) { return x; }
Term reciprocalRoot(Term x) { return 1.0 / sqrt(x); }
Term fraction(Term x) { return x - trunc(x); }

/// A function of complex numbers, computed in double by its parts: branch cuts lie where the signs of zeros say.
template <typename Function>
Term ofParts(Term x, Function function) {
  Type element = x.element(), wide = ComplexType::get(x.emitter->builder.getF64Type());
  Term z = convert(x, wide);
  auto [re, im] = function(real(z), imag(z));
  return convert(complex(re, im), element);
}

Term exp2(Term x) {
  if (x.isComplex()) {
    return ofParts(x, [](Term re, Term im) {
      Term size = pow(2.0, re), angle = im * kLn2;
      return std::pair(size * cos(angle), size * sin(angle));
    });
  }
  return pow(2.0, x);
}
/// A multiple of the logarithm; of complex numbers by parts, because a complex factor has a part of zero.
Term scaledLog(Term x, double factor) {
  return x.isComplex() ? ofParts(x,
                                 [=](Term re, Term im) {
                                   Term z = log(complex(re, im));
                                   return std::pair(real(z) * factor, imag(z) * factor);
                                 })
                       : log(x) * factor;
}
Term log2(Term x) { return scaledLog(x, 1 / kLn2); }
Term log10(Term x) { return scaledLog(x, 1 / kLn10); }
/// tan(z) = -i tanh(i z), which does not overflow.
Term tangent(Term x) {
  return x.isComplex() ? ofParts(x,
                                 [](Term re, Term im) {
                                   Term turned = tanh(complex(-im, re));
                                   return std::pair(imag(turned), -real(turned));
                                 })
                       : sin(x) / cos(x);
}
/// a * b, and 0 where b is: also for an infinite a.
Term timesZero(Term a, Term b) { return select(eq(b, 0.0), b, a * b); }
/// Carries the sign of x over to an odd function of |x|.
Term odd(Term x, Term ofMagnitude) { return select(signBit(x), -ofMagnitude, ofMagnitude); }

Term hyperbolicCosine(Term x);

Term hyperbolicSine(Term x) {
  if (x.isComplex()) {
    return ofParts(x, [](Term re, Term im) {
      return std::pair(hyperbolicSine(re) * cos(im), timesZero(hyperbolicCosine(re), sin(im)));
    });
  }
  Term magnitude = abs(x);
  Term small = expm1(magnitude);
  // exp(|x|/2) squared overflows only where the result does.
  Term half = exp(magnitude * 0.5);
  Term large = (0.5 * half) * half;
  return odd(x, select(magnitude > 20.0, large, 0.5 * (small + small / (small + 1.0))));
}

Term hyperbolicCosine(Term x) {
  if (x.isComplex()) {
    return ofParts(x, [](Term re, Term im) {
      return std::pair(hyperbolicCosine(re) * cos(im), timesZero(hyperbolicSine(re), sin(im)));
    });
  }
  Term half = exp(abs(x) * 0.5);
  return (0.5 * half) * half + (0.5 / half) / half;
}

/// exp(z) - 1; of complex numbers without the difference of numbers near 1.
Term exponentialLessOne(Term x) {
  return x.isComplex() ? ofParts(x,
                                 [](Term re, Term im) {
                                   Term half = sin(0.5 * im);
                                   Term size = exp(re);
                                   return std::pair(expm1(re) * cos(im) - 2.0 * square(half), timesZero(size, sin(im)));
                                 })
                       : expm1(x);
}

Term inverseSinhOf(Term x) {
  Term magnitude = abs(x);
  Term squared = square(magnitude);
  Term small = log1p(magnitude + squared / (1.0 + sqrt(squared + 1.0)));
  Term large = log(magnitude) + kLn2;
  return odd(x, select(magnitude > 1e8, large, small));
}

/// The roots of 1 - z and 1 + z, for Kahan's forms of the inverse functions ("Branch cuts for complex elementary
/// functions", 1987), and the parts of products of them.
struct Roots {
  Term minusRe, minusIm, plusRe, plusIm;

  Roots(Term re, Term im) {
    Term minus = sqrt(complex(1.0 - re, -im)), plus = sqrt(complex(1.0 + re, im));
    minusRe = real(minus);
    minusIm = imag(minus);
    plusRe = real(plus);
    plusIm = imag(plus);
  }
  Term productRe() const { return minusRe * plusRe - minusIm * plusIm; }
  /// Of the one root times the conjugate of the other one.
  Term turnedIm() const { return minusRe * plusIm - minusIm * plusRe; }
};

std::pair<Term, Term> arcSineOf(Term re, Term im) {
  Roots roots(re, im);
  return {atan2(re, roots.productRe()), inverseSinhOf(roots.turnedIm())};
}

std::pair<Term, Term> inverseTanhOf(Term re, Term im) {
  Term size = abs(re), off = 1.0 - size;
  Term half = 0.25 * log1p(4.0 * size / (square(off) + square(im)));
  Term angle = 0.5 * atan2(2.0 * im, off * (1.0 + size) - square(im));
  return {odd(re, half), angle};
}

/// f(z) = -i g(i z).
template <std::pair<Term, Term> (*Function)(Term, Term)>
std::pair<Term, Term> turned(Term re, Term im) {
  auto [a, b] = Function(-im, re);
  return {b, -a};
}

Term arcTangent(Term x) { return x.isComplex() ? ofParts(x, turned<inverseTanhOf>) : atan2(x, 1.0); }

Term arcSine(Term x) { return x.isComplex() ? ofParts(x, arcSineOf) : atan2(x, sqrt((1.0 - x) * (1.0 + x))); }

Term inverseSinh(Term x) { return x.isComplex() ? ofParts(x, turned<arcSineOf>) : inverseSinhOf(x); }

Term arcCosine(Term x) {
  if (x.isComplex()) {
    return ofParts(x, [](Term re, Term im) {
      Roots roots(re, im);
      return std::pair(2.0 * atan2(roots.minusRe, roots.plusRe), inverseSinhOf(-roots.turnedIm()));
    });
  }
  return atan2(sqrt((1.0 - x) * (1.0 + x)), x);
}

Term inverseCosh(Term x) {
  if (x.isComplex()) {
    return ofParts(x, [](Term re, Term im) {
      Term below = sqrt(complex(re - 1.0, im)), above = sqrt(complex(re + 1.0, im));
      Term along = real(below) * real(above) + imag(below) * imag(above);
      return std::pair(inverseSinhOf(along), 2.0 * atan2(imag(below), real(above)));
    });
  }
  Term above = x - 1.0;
  Term small = log1p(above + sqrt(above) * sqrt(above + 2.0));
  return select(x > 1e8, log(x) + kLn2, small);
}

Term inverseTanh(Term x) {
  if (x.isComplex()) {
    return ofParts(x, inverseTanhOf);
  }
  Term magnitude = abs(x);
  return odd(x, 0.5 * log1p(2.0 * magnitude / (1.0 - magnitude)));
}

Term degrees(Term x) { return x * (180 / kPi); }
Term radians(Term x) { return x * (kPi / 180); }
Term entropy(Term x) { return select(x > 0.0, -x * log(x), select(eq(x, 0.0), 0.0, select(isNan(x), x, -kInfinity))); }

Term sinc(Term x) {
  Term angle = x * kPi;
  return select(eq(x, 0.0), 1.0, sin(angle) / angle);
}

Results roundDecimals(Call &c) {
  int64_t decimals = c.integer("decimals");
  if (decimals == 0) {
    return simple<round>(c);
  }
  Term x = c.wide("self");
  double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  return decimals > 0 ? round(x * scale) / scale : round(x / scale) * scale;
}

Results absolute(Call &c) {
  Term x = c.in("self");
  return x.isComplex() ? Results(abs(x)) : simple<abs>(c);
}

Results logit(Call &c) {
  Term x = c.wide("self");
  if (Term eps = c.number("eps", x.element())) {
    x = min(max(x, eps), 1.0 - eps);
  }
  return log(x / (1.0 - x));
}

} // namespace

void addMath(Table &t) {
  t.add({"neg", "negative"}, simple<negate>);
  t.add({"positive"}, simple<identity>);
  t.add({"abs", "absolute"}, absolute);
  t.add({"sign"}, simple<sign>);
  t.add({"floor"}, simple<floor>);
  t.add({"ceil"}, simple<ceil>);
  t.add({"round"}, roundDecimals);
  t.add({"trunc", "fix"}, simple<trunc>);
  t.add({"frac"}, derived<fraction>);
  t.add({"exp"}, simple<exp>);
  t.add({"exp2", "special_exp2"}, derived<exp2>);
  t.add({"expm1", "special_expm1"}, simple<exponentialLessOne>);
  t.add({"log"}, simple<log>);
  t.add({"log1p", "special_log1p"}, simple<log1p>);
  t.add({"log2"}, derived<log2>);
  t.add({"log10"}, derived<log10>);
  t.add({"sqrt"}, simple<sqrt>);
  t.add({"rsqrt"}, derived<reciprocalRoot>);
  t.add({"reciprocal"}, simple<reciprocal>);
  t.add({"square"}, simple<square>);
  t.add({"sin"}, simple<sin>);
  t.add({"cos"}, simple<cos>);
  t.add({"tan"}, derived<tangent>);
  t.add({"asin", "arcsin"}, derived<arcSine>);
  t.add({"acos", "arccos"}, derived<arcCosine>);
  t.add({"atan", "arctan"}, simple<arcTangent>);
  t.add({"sinh"}, derived<hyperbolicSine>);
  t.add({"cosh"}, derived<hyperbolicCosine>);
  t.add({"tanh"}, simple<tanh>);
  t.add({"asinh", "arcsinh"}, derived<inverseSinh>);
  t.add({"acosh", "arccosh"}, derived<inverseCosh>);
  t.add({"atanh", "arctanh"}, derived<inverseTanh>);
  t.add({"sinc", "special_sinc"}, derived<sinc>);
  t.add({"deg2rad"}, derived<radians>);
  t.add({"rad2deg"}, derived<degrees>);
  t.add({"special_entr"}, derived<entropy>);
  t.add({"sigmoid", "special_expit"}, simple<logistic>);
  t.add({"logit", "special_logit"}, logit);
  t.add({"erf", "special_erf"}, simple<erf>);
  t.add({"erfc", "special_erfc"}, simple<erfc>);
  t.add({"erfinv", "special_erfinv"}, simple<erfinv>);
  t.add({"lgamma", "special_gammaln"}, simple<lgamma>);
  t.add({"digamma", "special_digamma"}, simple<digamma>);
}

} // namespace sojourn::decompose
