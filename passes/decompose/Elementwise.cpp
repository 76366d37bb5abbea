// SPDX-License-Identifier: Apache-2.0
// Arithmetic: sums, products, quotients, powers, clamps, choices, bits.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {

namespace {

/// Of halves a number, which is read in f32; `self` then is, too, and the result is rounded once.
Term factorOf(Call &c, Term &self) {
  StringRef name = c.anyOf({"other", "scalar", "scalars"});
  Term given = c.in(name); // else a literal
  Type wide = wideElement(self.element());
  const bool isNumber = !given || (given.rank() == 0 && given.element() == wide);
  if (wide == self.element() || !isNumber) {
    return {};
  }
  self = widen(self);
  return c.number(name, wide);
}

/// The second operand of a binary op, in the element type of the first.
Term other(Call &c, Term self) { return c.number(c.anyOf({"other", "scalar", "scalars", "exponent"}), self.element()); }

/// alpha * x, without the product where alpha is known to be 1.
Term scaled(Call &c, StringRef name, Term x) {
  if (!c.has(name) || c.isLiteral(name, 1)) {
    return x;
  }
  if (x.isBool()) {
    return x & c.number(name, x.element());
  }
  return x * c.number(name, x.element());
}

Results addScaled(Call &c, bool subtract, bool swapped) {
  // With a factor it is a composite: halves round once, at the end.
  bool plain = !c.has("alpha") || c.isLiteral("alpha", 1);
  Term self = plain ? c.in("self") : c.wide("self");
  Term rhs = other(c, self);
  if (!self || !rhs) {
    return c.fail("needs two operands");
  }
  if (swapped) {
    return rhs - scaled(c, "alpha", self);
  }
  rhs = scaled(c, "alpha", rhs);
  return subtract ? self - rhs : self + rhs;
}

/// Quotient rounded toward minus infinity, as ATen computes it: from the
/// exact remainder, so that it agrees with `remainder`.
Term floorDivide(Term a, Term b) {
  if (a.element().isUnsignedInteger()) {
    return a / b;
  }
  Term mod = rem(a, b);
  Term adjust = ne(mod, 0.0) & ((b < 0.0) ^ (mod < 0.0));
  if (!a.isFloat()) {
    Term quotient = a / b;
    return select(adjust, quotient - 1.0, quotient);
  }
  Term quotient = (a - mod) / b;
  quotient = select(adjust, quotient - 1.0, quotient);
  Term whole = floor(quotient);
  whole = select(quotient - whole > 0.5, whole + 1.0, whole);
  Term plain = a / b;
  Term zero = select(signBit(plain), -constantLike(plain, 0), constantLike(plain, 0));
  whole = select(eq(quotient, 0.0), zero, whole);
  return select(eq(b, 0.0), plain, whole);
}

Results divide(Call &c) {
  Term self = c.in("self"), factor = factorOf(c, self);
  Term rhs = factor ? factor : other(c, self);
  StringRef mode = c.string("rounding_mode");
  if (mode == "floor") {
    return floorDivide(widen(self), widen(rhs));
  }
  if (mode == "trunc") {
    return trunc(self / rhs);
  }
  if (self.isInteger()) {
    // True division; promotion has left integers only where both were.
    self = convert(self, wideElement(c.element()));
    rhs = convert(rhs, wideElement(c.element()));
  }
  return self / rhs;
}

Results remainder(Call &c) {
  Term self = c.in("self");
  if (!self) {
    self = c.number("self", c.element());
  }
  Term rhs = other(c, self);
  Term mod = rem(self, rhs);
  if (self.element().isUnsignedInteger()) {
    return mod;
  }
  Term adjust = ne(mod, 0.0) & ((rhs < 0.0) ^ (mod < 0.0));
  return select(adjust, mod + rhs, mod);
}

Results power(Call &c) {
  if (!c.in("self")) {
    Term exponent = c.in("exponent");
    return pow(c.number("self", exponent.element()), exponent);
  }
  Term self = c.in("self");
  std::optional<double> exponent = c.literal("exponent");
  if (exponent && (self.isFloat() || *exponent >= 0)) {
    // Small powers as ATen computes them.
    Term x = widen(self);
    if (*exponent == 0) {
      return constantLike(x, 1);
    }
    if (*exponent == 1) {
      return self;
    }
    if (*exponent == 2) {
      return x * x;
    }
    if (*exponent == 3) {
      return x * x * x;
    }
    if (self.isFloat() && *exponent == 0.5) {
      return sqrt(x);
    }
    if (self.isFloat() && *exponent == -0.5) {
      return 1.0 / sqrt(x);
    }
    if (self.isFloat() && *exponent == -1) {
      return 1.0 / x;
    }
    if (self.isFloat() && *exponent == -2) {
      return 1.0 / (x * x);
    }
  }
  Term rhs = other(c, self);
  // A complex power goes by the logarithm, and 0 has none.
  return self.isComplex() ? select(eq(rhs, 0.0), 1.0, pow(self, rhs)) : pow(self, rhs);
}

Results lerp(Call &c) {
  Term self = c.wide("self");
  Term end = widen(c.in(c.anyOf({"end", "tensors1"})));
  Term weight = c.number(c.anyOf({"weight", "weights"}), self.element());
  // ATen starts from the nearer end. Both forms share the product, so that a
  // scalar weight costs one product and one sum.
  Term near = abs(weight) < 0.5;
  Term step = select(near, weight, weight - 1.0);
  return select(near, self, end) + step * (end - self);
}

Term clampBelow(Term x, Term low) { return low ? max(x, low) : x; }
Term clampAbove(Term x, Term high) { return high ? min(x, high) : x; }

Results clamp(Call &c) {
  Term x = c.in("self");
  Term low = c.number("min", x.element());
  Term high = c.number("max", x.element());
  return clampAbove(clampBelow(x, low), high);
}

Results fmaxmin(Call &c) {
  Term a = c.in("self");
  Term b = other(c, a);
  Term both = c.base == "fmax" ? max(a, b) : min(a, b);
  if (!a.isFloat()) {
    return both;
  }
  return select(isNan(a), b, select(isNan(b), a, both));
}

template <Term (*Function)(Term, Term)>
Results binary(Call &c) {
  Term self = c.in("self");
  if (!self) {
    Term rhs = c.in("other");
    return Function(c.number("self", rhs.element()), rhs);
  }
  Term rhs = other(c, self);
  if (!rhs) {
    return c.fail("needs two operands");
  }
  return Function(self, rhs);
}

Results multiply(Call &c) {
  if (Term self = c.in("self")) {
    if (Term factor = factorOf(c, self)) {
      return self * factor;
    }
  }
  return binary < operator*>(c);
}

Term copySign(Term a, Term b) {
  Term magnitude = abs(a);
  return select(signBit(b), -magnitude, magnitude);
}

Term hypotenuse(Term a, Term b) { return magnitude(widen(a), widen(b)); }

Term logAddExp(Term a, Term b) {
  a = widen(a);
  b = widen(b);
  if (a.isComplex()) { // shifted by the one with the larger real part
    Term isLess = real(a) < real(b), equalInfinity = eq(real(a), real(b)) & eq(abs(real(a)), kInfinity);
    Term small = select(isLess, a, b), large = select(isLess, b, a);
    Term infinite = select(real(a) < 0.0, small, log(exp(a) + exp(b)));
    return select(equalInfinity, infinite, large + log(1.0 + exp(small - large)));
  }
  Term large = max(a, b);
  Term equalInfinity = eq(a, b) & eq(abs(a), kInfinity);
  return select(equalInfinity, a, large + log1p(exp(-abs(a - b))));
}

Term xLogY(Term x, Term y) { return select(eq(x, 0.0) & ~isNan(y), 0.0, widen(x) * log(widen(y))); }

Term xLog1pY(Term x, Term y) { return select(eq(x, 0.0) & ~isNan(y), 0.0, widen(x) * log1p(widen(y))); }

/// Euclid's algorithm, for as many steps as the longest takes: that of two neighbours among Fibonacci's numbers.
Term gcd(Term a, Term b) {
  const unsigned bits = a.element().getIntOrFloatBitWidth();
  a = abs(a);
  b = abs(b);
  for (unsigned step = 0; step < bits * 3 / 2; ++step) {
    // A remainder by 0 is 0.
    Term isOver = eq(b, 0.0), rest = rem(a, b);
    a = select(isOver, a, b);
    b = rest;
  }
  return abs(a);
}

Term lcm(Term a, Term b) {
  Term common = gcd(a, b), part = a / common;
  const Type element = a.element();
  if (element.getIntOrFloatBitWidth() < 32) { // as C promotes: what is too large wraps at the end
    part = convert(part, a.emitter->builder.getI32Type());
    b = convert(b, part.element());
  }
  return select(eq(common, 0.0), 0.0, convert(abs(part * b), element));
}

Results where(Call &c) {
  Type element = c.element();
  Term self = c.number(c.anyOf({"self", "input"}), element);
  return select(toBool(c.in("condition")), self, c.number("other", element));
}

Results maskedFill(Call &c) {
  Term self = c.in("self");
  return select(toBool(c.in("mask")), c.number("value", self.element()), self);
}

/// Whether each element is among the tested ones.
Results isIn(Call &c) {
  Term tested = c.in("test_elements");
  Term x = c.in("elements");
  Type element = x ? x.element() : tested.element();
  x = c.number(c.anyOf({"elements", "element"}), element);
  tested = c.number(c.anyOf({"test_elements", "test_element"}), element);
  Shape grid(x.shape());
  grid.push_back(tested.numel());
  bool invert = c.boolean("invert");
  if (tested.numel() == 0) {
    return constant(c.emitter, invert ? 1 : 0, c.emitter.builder.getI1Type());
  }
  Term same = eq(broadcastTo(unsqueeze(x, x.rank()), grid), broadcastTo(reshape(tested, {tested.numel()}), grid));
  Term any = amax(same, {x.rank()});
  return invert ? ~any : any;
}

Results nanToNum(Call &c) {
  Term x = c.in("self");
  if (!x.isFloat()) {
    return x;
  }
  auto type = cast<FloatType>(x.element());
  double largest = APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
  Term high = c.number("posinf", type, largest);
  Term low = c.number("neginf", type, -largest);
  Term y = select(isNan(x), c.number("nan", type, 0), x);
  y = select(eq(x, kInfinity), high, y);
  return select(eq(x, -kInfinity), low, y);
}

} // namespace

void addElementwise(Table &t) {
  t.add({"add"}, [](Call &c) { return addScaled(c, false, false); });
  t.add({"sub", "subtract"}, [](Call &c) { return addScaled(c, true, false); });
  t.add({"rsub"}, [](Call &c) { return addScaled(c, true, true); });
  t.add({"mul", "multiply", "__mul__"}, multiply);
  t.add({"div", "divide", "true_divide"}, divide);
  t.add({"floor_divide"}, [](Call &c) -> Results {
    Term self = c.in("self"), factor = self ? factorOf(c, self) : Term();
    return factor ? floorDivide(self, factor) : binary<floorDivide>(c);
  });
  t.add({"remainder"}, remainder);
  t.add({"fmod"}, binary<rem>);
  t.add({"pow"}, power);
  t.add({"lerp"}, lerp);
  t.add({"addcmul"}, [](Call &c) -> Results {
    Term self = c.wide("self");
    Term product = scaled(c, c.anyOf({"value", "scalars"}), c.wide("tensor1"));
    return self + product * c.wide("tensor2");
  });
  t.add({"addcdiv"}, [](Call &c) -> Results {
    Term self = c.wide("self");
    Term product = scaled(c, c.anyOf({"value", "scalars"}), c.wide("tensor1"));
    return self + product / c.wide("tensor2");
  });
  t.add({"clamp", "clip"}, clamp);
  t.add({"clamp_min"}, [](Call &c) -> Results {
    Term x = c.in("self");
    return max(x, c.number(c.anyOf({"min", "other", "scalar", "scalars"}), x.element()));
  });
  t.add({"clamp_max"}, [](Call &c) -> Results {
    Term x = c.in("self");
    return min(x, c.number(c.anyOf({"max", "other", "scalar", "scalars"}), x.element()));
  });
  t.add({"maximum"}, binary<max>);
  t.add({"minimum"}, binary<min>);
  t.add({"fmax", "fmin"}, fmaxmin);
  t.add({"atan2", "arctan2"}, binary<atan2>);
  t.add({"copysign"}, binary<copySign>);
  t.add({"hypot"}, binary<hypotenuse>);
  t.add({"logaddexp"}, binary<logAddExp>);
  t.add({"logaddexp2"}, [](Call &c) -> Results {
    constexpr double ln2 = 0.69314718055994530942;
    Term a = c.wide("self");
    Term b = c.wide("other");
    return logAddExp(a * ln2, b * ln2) / ln2;
  });
  t.add({"gcd"}, binary<gcd>);
  t.add({"lcm"}, binary<lcm>);
  t.add({"xlogy", "special_xlogy"}, binary<xLogY>);
  t.add({"special_xlog1py"}, binary<xLog1pY>);
  t.add({"bitwise_and", "__and__", "__iand__"}, binary < operator&>);
  t.add({"bitwise_or", "__or__", "__ior__"}, binary < operator|>);
  t.add({"bitwise_xor", "__xor__", "__ixor__"}, binary < operator^>);
  t.add({"bitwise_left_shift", "__lshift__", "__ilshift__"}, binary<shiftLeft>);
  t.add({"bitwise_right_shift", "__rshift__", "__irshift__"}, binary<shiftRight>);
  t.add({"ldexp"}, [](Call &c) -> Results {
    Term x = convert(c.in("self"), wideElement(c.element()));
    return x * pow(2.0, c.number("other", x.element()));
  });
  t.add({"isin"}, isIn);
  t.add({"where"}, where);
  t.add({"masked_fill"}, maskedFill);
  t.add({"nan_to_num"}, nanToNum);
}

} // namespace sojourn::decompose
