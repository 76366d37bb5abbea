// SPDX-License-Identifier: Apache-2.0
// Floats as integers: exact for subnormals too, which arithmetic may flush to 0.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {

namespace {

/// How a float type lies in an integer of its width.
struct Format {
  FloatType type;
  unsigned width;   ///< all bits
  unsigned digits;  ///< stored bits of the mantissa
  int64_t bias;     ///< of the exponent, so that a mantissa lies in [0.5, 1)
  int64_t infinity; ///< its bits

  explicit Format(Type element) : type(cast<FloatType>(element)), width(type.getWidth()) {
    digits = type.getFPMantissaWidth() - 1;
    bias = (int64_t{1} << (width - digits - 2)) - 2;
    infinity = ((int64_t{1} << (width - digits - 1)) - 1) << digits;
  }
};

/// Bits of x as i64, without the sign.
Term magnitudeBits(Term x, const Format &format) {
  Term bits = convert(bitcast(x, x.emitter->builder.getIntegerType(format.width)), x.emitter->builder.getI64Type());
  return bits & constantInt(*x.emitter, static_cast<int64_t>((uint64_t{1} << (format.width - 1)) - 1), bits.element());
}

/// The float of bits without a sign, and the sign.
Term floatOf(Term magnitude, Term isNegative, const Format &format) {
  Emitter &e = *magnitude.emitter;
  // The sign is the lowest integer of that width.
  Term lowest = constantInt(e, -static_cast<int64_t>((uint64_t{1} << (format.width - 2))), magnitude.element());
  Term bits = select(isNegative, (magnitude + lowest) + lowest, magnitude);
  return bitcast(convert(bits, e.builder.getIntegerType(format.width)), format.type);
}

/// Mantissa in [0.5, 1) and exponent; zeros, infinities and NaN stay, with exponent 0.
Results mantissaAndExponent(Call &c) {
  Term x = c.wide("self");
  Format format(x.element());
  Term bits = magnitudeBits(x, format);
  auto number = [&](int64_t value) { return constantInt(c.emitter, value, c.i64()); };
  // A subnormal is its bits as an integer, times the least one.
  Term isSmall = bits < number(int64_t{1} << format.digits);
  Term whole = magnitudeBits(convert(select(isSmall, bits, number(0)), x.element()), format);
  Term normal = select(isSmall, whole, bits);
  Term least = select(isSmall, number(-format.bias - static_cast<int64_t>(format.digits)), number(0));
  Term exponent = shiftRight(normal, number(format.digits)) - number(format.bias) + least;
  Term digits = normal & number((int64_t{1} << format.digits) - 1);
  Term mantissa = floatOf(digits | number(format.bias << format.digits), signBit(x), format);
  Term isOther = eq(bits, number(0)) | (bits >= number(format.infinity));
  return {select(isOther, x, mantissa), convert(select(isOther, number(0), exponent), c.element(1))};
}

/// The neighbour toward the other number: one more or less in the order of the bits.
Results neighbour(Call &c) {
  Term a = convert(c.in("self"), c.element()), b = convert(c.in("other"), c.element());
  Shape shape = broadcastShapes(a.shape(), b.shape());
  a = broadcastTo(a, shape);
  b = broadcastTo(b, shape);
  Format format(a.element());
  Term bitsOfA = magnitudeBits(a, format), bitsOfB = magnitudeBits(b, format);
  Term placeOfA = select(signBit(a), -bitsOfA, bitsOfA), placeOfB = select(signBit(b), -bitsOfB, bitsOfB);
  Term isBelow = placeOfA < placeOfB;
  Term place = select(isBelow, placeOfA + 1.0, placeOfA - 1.0);
  Term isNegative = (place < 0.0) | (eq(place, 0.0) & signBit(a));
  Term next = floatOf(select(place < 0.0, -place, place), isNegative, format);
  Term infinity = constantInt(c.emitter, format.infinity, c.i64());
  Term isNothing = (bitsOfA > infinity) | (bitsOfB > infinity);
  return select(isNothing, std::numeric_limits<double>::quiet_NaN(), select(eq(placeOfA, placeOfB), b, next));
}

} // namespace

void addBits(Table &t) {
  t.add({"frexp"}, mantissaAndExponent);
  t.add({"nextafter"}, neighbour);
}

} // namespace sojourn::decompose
