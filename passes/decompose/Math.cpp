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

/// Past kFar, and below kNear, the first term of a series is exact; |z| / 4 is compared, which does not overflow.
constexpr double kFar = 1e100, kNear = 1e-9;

Term quarterOf(Term re, Term im) { return magnitude(0.25 * re, 0.25 * im); }

/// The arc sine and arc cosine by the roots of 1 - z and 1 + z (Kahan, "Branch cuts for complex elementary functions",
/// 1987): products of parts have signs that let no sum cancel.
class Roots {
  Term re, im, quarter, far, minusRe, minusIm, plusRe, plusIm;

public:
  Roots(Term re, Term im) : re(re), im(im), quarter(quarterOf(re, im)), far(quarter > kFar) {
    Term minus = sqrt(complex(1.0 - re, -im)), plus = sqrt(complex(1.0 + re, im));
    minusRe = real(minus);
    minusIm = imag(minus);
    plusRe = real(plus);
    plusIm = imag(plus);
  }
  Term arcSineRe() const {
    Term angle = atan2(re, select(far, abs(im), minusRe * plusRe - minusIm * plusIm));
    return select(eq(re, 0.0), re, angle);
  }
  Term arcCosineRe() const {
    Term angle = atan2(select(far, abs(im), minusRe), select(far, re, plusRe));
    return select(eq(re, 0.0), kPi / 2, select(far, angle, 2.0 * angle));
  }
  /// That of the arc cosine is the opposite.
  Term arcSineIm() const {
    Term size = inverseSinhOf(select(far, quarter, abs(minusRe * plusIm - minusIm * plusRe)));
    return select(quarter < kNear, im, odd(im, select(far, size + 2 * kLn2, size)));
  }
};

using Parts = std::pair<Term, Term>;

Parts arcSineOf(Term re, Term im) {
  Roots roots(re, im);
  return {roots.arcSineRe(), roots.arcSineIm()};
}

Parts arcCosineOf(Term re, Term im) {
  Roots roots(re, im);
  return {roots.arcCosineRe(), -roots.arcSineIm()};
}

/// i or -i times the arc cosine, whichever has a positive real part.
Parts inverseCoshOf(Term re, Term im) {
  auto [angle, size] = arcCosineOf(re, im);
  return {abs(size), odd(im, angle)};
}

Parts inverseTanhOf(Term re, Term im) {
  Term a = abs(re), b = abs(im), off = 1.0 - a, quarter = quarterOf(re, im), far = quarter > kFar;
  Term half = 0.25 * log1p(4.0 * a / (square(off) + square(b)));
  // 4 / b^2 overflows sooner than its logarithm.
  half = select(eq(off, 0.0) & (b < kNear), 0.5 * (kLn2 - log(b)), half);
  // a / |z|^2
  Term small = select(eq(quarter, kInfinity), 0.0, 0.0625 * a / quarter / quarter);
  half = select(eq(a, 0.0), a, select(far, small, half));
  Term angle = atan2(min(max(2.0 * im, -kFar), kFar), select(far, -kInfinity, off * (1.0 + a) - square(b)));
  return {odd(re, half), 0.5 * angle};
}

/// x^2, and what its rounding took away.
Parts squareInTwo(Term x) {
  Term scaled = x * 134217729.0, upper = scaled - (scaled - x), lower = x - upper; // 2^27 + 1
  Term product = square(x);
  return {product, (square(upper) - product) + 2.0 * upper * lower + square(lower)};
}

/// a + b, and what its rounding took away.
Parts sumInTwo(Term a, Term b) {
  Term sum = a + b, added = sum - a;
  return {sum, (a - (sum - added)) + (b - added)};
}

Parts logOfOnePlus(Term re, Term im) {
  Term plus = 1.0 + re, size = magnitude(plus, im);
  // |1 + z|^2 - 1 with twice the digits, because it cancels near the circle around -1.
  auto [reSquare, reRest] = squareInTwo(re);
  auto [imSquare, imRest] = squareInTwo(im);
  auto [first, firstRest] = sumInTwo(2.0 * re, reSquare);
  auto [all, allRest] = sumInTwo(first, imSquare);
  Term excess = all + (firstRest + allRest + reRest + imRest);
  Term isNear = (size > 0.5) & (size < kFar);
  return {select(isNear, 0.5 * log1p(excess), log(size)), atan2(im, plus)};
}

Term logOnePlus(Term x) { return x.isComplex() ? ofParts(x, logOfOnePlus) : log1p(x); }

/// f(z) = -i g(i z).
template <Parts (*Function)(Term, Term)>
Parts turned(Term re, Term im) {
  auto [a, b] = Function(-im, re);
  return {b, -a};
}

Term arcTangent(Term x) { return x.isComplex() ? ofParts(x, turned<inverseTanhOf>) : atan2(x, 1.0); }

Term arcSine(Term x) { return x.isComplex() ? ofParts(x, arcSineOf) : atan2(x, sqrt((1.0 - x) * (1.0 + x))); }

Term inverseSinh(Term x) { return x.isComplex() ? ofParts(x, turned<arcSineOf>) : inverseSinhOf(x); }

Term arcCosine(Term x) { return x.isComplex() ? ofParts(x, arcCosineOf) : atan2(sqrt((1.0 - x) * (1.0 + x)), x); }

Term inverseCosh(Term x) {
  if (x.isComplex()) {
    return ofParts(x, inverseCoshOf);
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
  t.add({"log1p", "special_log1p"}, simple<logOnePlus>);
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
