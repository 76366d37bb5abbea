// SPDX-License-Identifier: Apache-2.0
// Folds of elementwise ops: constants of rank 0, and identities that are exact for every value. A NaN result is never
// folded, since its bits belong to the executor; x + 0.0 is not x, because -0.0 + 0.0 is 0.0.
#include "dialect/ElementwiseOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APSInt.h"

using namespace mlir;
using namespace sojourn;

OpFoldResult ConstantOp::fold(FoldAdaptor adaptor) { return getValueAttr(); }

/// The integer with the signedness that core form gives its type: i1 and ui8 are unsigned.
static llvm::APSInt toInteger(IntegerAttr value) {
  Type type = value.getType();
  return llvm::APSInt(value.getValue(), type.isSignlessInteger(1) || type.isUnsignedInteger());
}

static bool isUnsigned(Type type) { return type.isSignlessInteger(1) || type.isUnsignedInteger(); }

/// Whether the attribute is that number, exactly and with that sign of zero.
static bool isNumber(Attribute attr, double number) {
  if (auto integer = dyn_cast_or_null<IntegerAttr>(attr)) {
    return toInteger(integer).getExtValue() == static_cast<int64_t>(number);
  }
  auto value = dyn_cast_or_null<FloatAttr>(attr);
  if (!value) {
    return false;
  }
  APFloat expected(number);
  bool inexact = false;
  expected.convert(value.getValue().getSemantics(), APFloat::rmNearestTiesToEven, &inexact);
  return value.getValue().bitwiseIsEqual(expected);
}

static Attribute makeFloat(Type element, const APFloat &value) {
  return value.isNaN() ? Attribute() : Attribute(FloatAttr::get(element, value));
}

/// Folds two numbers of one type.
static Attribute foldBinary(Attribute a, Attribute b, function_ref<APFloat(APFloat, const APFloat &)> floats,
                            function_ref<APInt(const APInt &, const APInt &, bool isUnsigned)> integers) {
  if (auto x = dyn_cast_or_null<IntegerAttr>(a)) {
    auto y = dyn_cast_or_null<IntegerAttr>(b);
    if (!y || x.getType() != y.getType() || !integers) {
      return {};
    }
    return IntegerAttr::get(x.getType(), integers(x.getValue(), y.getValue(), isUnsigned(x.getType())));
  }
  auto x = dyn_cast_or_null<FloatAttr>(a);
  auto y = dyn_cast_or_null<FloatAttr>(b);
  if (!x || !y || x.getType() != y.getType() || !floats) {
    return {};
  }
  // One rounding in the element type: for f16 and bf16 equal to f32 arithmetic rounded once more.
  return makeFloat(x.getType(), floats(x.getValue(), y.getValue()));
}

// -- casts -----------------------------------------------------------------------------------------------------------

/// Mantissa bits of a float type, including the hidden one.
static int64_t precision(FloatType type) { return type.getFPMantissaWidth(); }

/// Bits that a magnitude of the integer type needs.
static int64_t magnitudeBits(Type type) {
  return static_cast<int64_t>(type.getIntOrFloatBitWidth()) - (isUnsigned(type) ? 0 : 1);
}

/// Whether every value of `from` is a value of `to` and converting keeps it.
static bool isLossless(Type from, Type to) {
  if (from == to) {
    return true;
  }
  if (isa<ComplexType>(from) || isa<ComplexType>(to)) {
    return false;
  }
  auto floatFrom = dyn_cast<FloatType>(from);
  auto floatTo = dyn_cast<FloatType>(to);
  if (floatFrom && floatTo) {
    return to.isF64() || (to.isF32() && !from.isF64());
  }
  if (floatFrom) {
    return false;
  }
  if (floatTo) {
    return magnitudeBits(from) <= precision(floatTo);
  }
  return (isUnsigned(from) || !isUnsigned(to)) && magnitudeBits(from) <= magnitudeBits(to);
}

/// convert of a number; null where executors could differ in the last bit or the result is complex.
static Attribute convertNumber(Attribute value, Type element) {
  auto floatType = dyn_cast<FloatType>(element);
  if (auto integer = dyn_cast_or_null<IntegerAttr>(value)) {
    llvm::APSInt number = toInteger(integer);
    if (floatType) {
      bool half = floatType.getWidth() == 16;
      APFloat result(half ? APFloat::IEEEsingle() : floatType.getFloatSemantics());
      auto status = result.convertFromAPInt(number, number.isSigned(), APFloat::rmNearestTiesToEven);
      if (!half) {
        return makeFloat(element, result);
      }
      // Kernels go to a half through f32; equal to one rounding only where that step is exact.
      if (status != APFloat::opOK) {
        return {};
      }
      bool inexact = false;
      result.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &inexact);
      return makeFloat(element, result);
    }
    if (element.isSignlessInteger(1)) {
      return IntegerAttr::get(element, number.isZero() ? 0 : 1);
    }
    if (isa<IntegerType>(element)) {
      return IntegerAttr::get(element, number.extOrTrunc(element.getIntOrFloatBitWidth()));
    }
    return {};
  }
  auto real = dyn_cast_or_null<FloatAttr>(value);
  if (!real) {
    return {};
  }
  APFloat number = real.getValue();
  if (element.isSignlessInteger(1)) {
    return IntegerAttr::get(element, number.isZero() ? 0 : 1);
  }
  if (isa<IntegerType>(element)) {
    llvm::APSInt result(element.getIntOrFloatBitWidth(), isUnsigned(element));
    bool exact = false;
    number.convertToInteger(result, APFloat::rmTowardZero, &exact); // saturates, NaN gives 0
    return IntegerAttr::get(element, result);
  }
  if (!floatType) {
    return {};
  }
  bool inexact = false;
  if (floatType.getWidth() == 16 && real.getType().isF64()) {
    number.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &inexact);
    if (inexact) {
      return {};
    }
  }
  number.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &inexact);
  return makeFloat(element, number);
}

OpFoldResult ConvertOp::fold(FoldAdaptor adaptor) {
  Type to = getType().getElementType();
  if (getX().getType() == getType()) {
    return getX();
  }
  if (getType().getRank() == 0) {
    if (Attribute folded = convertNumber(adaptor.getX(), to)) {
      return folded;
    }
  }
  auto inner = getX().getDefiningOp<ConvertOp>();
  if (!inner || inner.getOperation() == getOperation()) {
    return {};
  }
  Type from = inner.getX().getType().getElementType();
  Type middle = getX().getType().getElementType();
  if (!isLossless(from, middle)) {
    return {};
  }
  // An integer seen through a float saturates where a direct cast would wrap, and rounds twice on the way to a half.
  bool changesKind = isa<IntegerType>(from) && isa<FloatType>(middle);
  if (changesKind && !isLossless(from, to) && !to.isSignlessInteger(1) && !to.isF32() && !to.isF64()) {
    return {};
  }
  if (inner.getX().getType() == getType()) {
    return inner.getX();
  }
  getXMutable().assign(inner.getX());
  return getResult();
}

OpFoldResult BitcastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType()) {
    return getX();
  }
  auto inner = getX().getDefiningOp<BitcastOp>();
  if (!inner || inner.getOperation() == getOperation()) {
    return {};
  }
  if (inner.getX().getType() == getType()) {
    return inner.getX();
  }
  getXMutable().assign(inner.getX());
  return getResult();
}

// -- unary -----------------------------------------------------------------------------------------------------------

template <typename OpType>
static Value operandOfSame(OpType op) {
  auto inner = op.getX().template getDefiningOp<OpType>();
  return inner ? Value(inner.getX()) : Value();
}

OpFoldResult NegOp::fold(FoldAdaptor adaptor) {
  if (auto integer = dyn_cast_or_null<IntegerAttr>(adaptor.getX())) {
    return IntegerAttr::get(integer.getType(), -integer.getValue());
  }
  if (auto real = dyn_cast_or_null<FloatAttr>(adaptor.getX())) {
    return makeFloat(real.getType(), -real.getValue());
  }
  return operandOfSame(*this);
}

OpFoldResult AbsOp::fold(FoldAdaptor adaptor) {
  if (auto integer = dyn_cast_or_null<IntegerAttr>(adaptor.getX())) {
    return isUnsigned(integer.getType()) ? integer : IntegerAttr::get(integer.getType(), integer.getValue().abs());
  }
  if (auto real = dyn_cast_or_null<FloatAttr>(adaptor.getX())) {
    return makeFloat(real.getType(), llvm::abs(real.getValue()));
  }
  return operandOfSame(*this) ? OpFoldResult(getX()) : OpFoldResult();
}

OpFoldResult NotOp::fold(FoldAdaptor adaptor) {
  if (auto integer = dyn_cast_or_null<IntegerAttr>(adaptor.getX())) {
    return IntegerAttr::get(integer.getType(), ~integer.getValue());
  }
  return operandOfSame(*this);
}

// -- binary ----------------------------------------------------------------------------------------------------------

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  // -0.0 is the neutral element of floats; 0 that of integers.
  bool neutral =
      isa_and_nonnull<FloatAttr>(adaptor.getB()) ? isNumber(adaptor.getB(), -0.0) : isNumber(adaptor.getB(), 0);
  if (neutral && getA().getType() == getType()) {
    return getA();
  }
  return foldBinary(
      adaptor.getA(), adaptor.getB(), [](APFloat x, const APFloat &y) { return x + y; },
      [](const APInt &x, const APInt &y, bool) { return x + y; });
}

OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  if (isNumber(adaptor.getB(), 0.0) && getA().getType() == getType()) {
    return getA();
  }
  return foldBinary(
      adaptor.getA(), adaptor.getB(), [](APFloat x, const APFloat &y) { return x - y; },
      [](const APInt &x, const APInt &y, bool) { return x - y; });
}

OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (isNumber(adaptor.getB(), 1.0) && getA().getType() == getType()) {
    return getA();
  }
  return foldBinary(
      adaptor.getA(), adaptor.getB(), [](APFloat x, const APFloat &y) { return x * y; },
      [](const APInt &x, const APInt &y, bool) { return x * y; });
}

OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  if (isNumber(adaptor.getB(), 1.0) && getA().getType() == getType()) {
    return getA();
  }
  return foldBinary(
      adaptor.getA(), adaptor.getB(), [](APFloat x, const APFloat &y) { return x / y; },
      [](const APInt &x, const APInt &y, bool isUnsigned) {
        if (y.isZero()) {
          return APInt::getZero(x.getBitWidth());
        }
        return isUnsigned ? x.udiv(y) : x.sdiv(y); // MIN / -1 wraps to MIN
      });
}

OpFoldResult AndOp::fold(FoldAdaptor adaptor) {
  if (getA() == getB()) {
    return getA();
  }
  auto mask = dyn_cast_or_null<IntegerAttr>(adaptor.getB());
  if (mask && mask.getValue().isAllOnes() && getA().getType() == getType()) {
    return getA();
  }
  return foldBinary(adaptor.getA(), adaptor.getB(), nullptr,
                    [](const APInt &x, const APInt &y, bool) { return x & y; });
}

OpFoldResult OrOp::fold(FoldAdaptor adaptor) {
  if (getA() == getB()) {
    return getA();
  }
  auto mask = dyn_cast_or_null<IntegerAttr>(adaptor.getB());
  if (mask && mask.getValue().isZero() && getA().getType() == getType()) {
    return getA();
  }
  return foldBinary(adaptor.getA(), adaptor.getB(), nullptr,
                    [](const APInt &x, const APInt &y, bool) { return x | y; });
}

OpFoldResult XorOp::fold(FoldAdaptor adaptor) {
  auto mask = dyn_cast_or_null<IntegerAttr>(adaptor.getB());
  if (mask && mask.getValue().isZero() && getA().getType() == getType()) {
    return getA();
  }
  return foldBinary(adaptor.getA(), adaptor.getB(), nullptr,
                    [](const APInt &x, const APInt &y, bool) { return x ^ y; });
}

// -- comparison and choice -------------------------------------------------------------------------------------------

/// Whether the predicate holds for an order: -1, 0, 1, or 2 when a NaN takes part.
static bool holds(StringRef predicate, int order) {
  if (order == 2) {
    return predicate == "ne";
  }
  return llvm::StringSwitch<bool>(predicate)
      .Case("eq", order == 0)
      .Case("ne", order != 0)
      .Case("lt", order < 0)
      .Case("le", order <= 0)
      .Case("gt", order > 0)
      .Case("ge", order >= 0)
      .Default(false);
}

OpFoldResult CompareOp::fold(FoldAdaptor adaptor) {
  int order = 0;
  if (auto x = dyn_cast_or_null<IntegerAttr>(adaptor.getA())) {
    auto y = dyn_cast_or_null<IntegerAttr>(adaptor.getB());
    if (!y || x.getType() != y.getType()) {
      return {};
    }
    order = llvm::APSInt::compareValues(toInteger(x), toInteger(y));
  } else {
    auto a = dyn_cast_or_null<FloatAttr>(adaptor.getA());
    auto b = dyn_cast_or_null<FloatAttr>(adaptor.getB());
    if (!a || !b || a.getType() != b.getType()) {
      return {};
    }
    switch (a.getValue().compare(b.getValue())) {
    case APFloat::cmpLessThan: order = -1; break;
    case APFloat::cmpEqual: order = 0; break;
    case APFloat::cmpGreaterThan: order = 1; break;
    case APFloat::cmpUnordered: order = 2; break;
    }
  }
  return BoolAttr::get(getContext(), holds(getPredicate(), order));
}

OpFoldResult SelectOp::fold(FoldAdaptor adaptor) {
  if (getA() == getB() && getA().getType() == getType()) {
    return getA();
  }
  auto pred = dyn_cast_or_null<IntegerAttr>(adaptor.getPred());
  if (!pred) {
    return {};
  }
  Value side = pred.getValue().isZero() ? getB() : getA();
  return side.getType() == getType() ? OpFoldResult(side) : OpFoldResult();
}
