// SPDX-License-Identifier: Apache-2.0
// Where the elements of results lie. Bounds are computed in double and moved outward by more than the kernels'
// rounding.
#include "dialect/ContractionOps.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/IndexOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/ReductionOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"
#include "dialect/WindowOps.h"
#include "dialect/rows/Support.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace sojourn;
using namespace sojourn::rows;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

static Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }

/// Whole numbers up to this are exact in a float type, and so are their sums and products below it.
static double wholeLimit(Type element) {
  auto type = dyn_cast<FloatType>(element);
  return type ? std::ldexp(1.0, static_cast<int>(type.getFPMantissaWidth())) : 0x1p53;
}

/// An upper bound of the relative error of `ulps` units in the last place.
static double relativeError(Type element, double ulps) {
  auto type = dyn_cast<FloatType>(element);
  return type ? ulps * std::ldexp(1.0, 1 - static_cast<int>(type.getFPMantissaWidth())) : 0x1p-50;
}

Range rows::rangeOfType(Type type) {
  Type element = getElementTypeOrSelf(type);
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer) {
    return {};
  }
  unsigned width = integer.getWidth();
  if (width == 1) {
    return Range::of(0, 1, /*whole=*/true);
  }
  if (integer.isUnsigned()) {
    return Range::of(0, std::ldexp(1.0, static_cast<int>(width)), /*whole=*/true);
  }
  double half = std::ldexp(1.0, static_cast<int>(width) - 1);
  return Range::of(-half, half, /*whole=*/true);
}

/// The result of arithmetic whose exact value lies in `exact`, with `ulps` of rounding; what overflows or wraps is
/// unknown. Whole numbers that the type holds are exact.
static Range rounded(Range exact, Type element, double ulps = 1) {
  if (std::isnan(exact.low) || std::isnan(exact.high)) {
    return rangeOfType(element);
  }
  if (auto integer = dyn_cast<IntegerType>(element)) {
    Range all = rangeOfType(element);
    // Doubles near the ends of 64-bit integers are not exact.
    bool fits =
        exact.low >= all.low && exact.high < all.high && (integer.getWidth() < 53 || exact.magnitude() < 0x1p53);
    return fits && exact.whole ? exact : all;
  }
  auto type = dyn_cast<FloatType>(element);
  if (!type) {
    return {};
  }
  if (exact.whole && exact.isBounded() && exact.magnitude() <= wholeLimit(element)) {
    return exact;
  }
  double largest = llvm::APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
  double error = relativeError(element, ulps);
  // What is below the normal numbers is off by their distance, or flushed.
  double tiny = llvm::APFloat::getSmallestNormalized(type.getFloatSemantics()).convertToDouble();
  auto outward = [&](double bound, double direction) {
    if (std::isinf(bound)) {
      return bound;
    }
    if (bound == 0 && ulps <= 1) { // correct rounding keeps signs
      return 0.0;
    }
    double moved = bound + direction * (std::abs(bound) * error * (1 + 0x1p-20) + tiny);
    return std::nextafter(moved, direction * kInfinity);
  };
  Range result{outward(exact.low, -1), outward(exact.high, 1), exact.nan, false};
  if (result.low < -largest) {
    result.low = -kInfinity;
  }
  if (result.high > largest) {
    result.high = kInfinity;
  }
  return result;
}

Range rows::flushedRange(Range range, Type type) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  if (!element || element.isF16()) { // computed in f32, where its denormal numbers are normal
    return range;
  }
  const double tiny = llvm::APFloat::getSmallestNormalized(element.getFloatSemantics()).convertToDouble();
  range.low = range.low > 0 && range.low < tiny ? 0 : range.low;
  range.high = range.high < 0 && range.high > -tiny ? 0 : range.high;
  return range;
}

Range rows::convertedRange(const Range &range, Type element) {
  if (isa<ComplexType>(element)) {
    return {};
  }
  if (element.isInteger(1)) {
    bool never = range.isConstant() && range.low == 0;
    bool always = !range.nan && (range.low > 0 || range.high < 0);
    return Range::of(always ? 1 : 0, never ? 0 : 1, /*whole=*/true);
  }
  if (isa<IntegerType>(element)) {
    if (!range.isBounded()) {
      return rangeOfType(element);
    }
    return rounded(Range::of(std::trunc(range.low), std::trunc(range.high), /*whole=*/true), element);
  }
  return range.nan ? Range() : rounded(range, element);
}

/// Least and greatest of f over the corners of two ranges.
template <typename F>
static Range corners(const Range &a, const Range &b, F f) {
  double low = kInfinity, high = -kInfinity;
  for (double x : {a.low, a.high}) {
    for (double y : {b.low, b.high}) {
      double value = f(x, y);
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  return {low, high, false, a.whole && b.whole};
}

/// A nondecreasing function, within `ulps` of its value.
template <typename F>
static Range monotone(const Range &x, Type element, double ulps, F f) {
  if (!x.isBounded()) {
    return {};
  }
  return rounded({f(x.low), f(x.high), false, false}, element, ulps);
}

/// For functions whose result has the sign of the argument; rounding keeps it.
static Range keepingSign(Range result, const Range &x) {
  if (!result.nan) {
    result.low = x.low >= 0 ? std::max(result.low, 0.0) : result.low;
    result.high = x.high <= 0 ? std::min(result.high, 0.0) : result.high;
  }
  return result;
}

static Range rangeOfCompare(CompareOp op, const Range &a, const Range &b) {
  Range unknown = Range::of(0, 1, /*whole=*/true);
  if (!a.isBounded() || !b.isBounded()) {
    return unknown;
  }
  auto decided = [&](bool always, bool never) {
    return always ? Range::of(1, 1, true) : never ? Range::of(0, 0, true) : unknown;
  };
  bool less = a.high<b.low, greater = a.low> b.high, equal = a.isConstant() && b.isConstant() && a.low == b.low;
  return llvm::StringSwitch<Range>(op.getPredicate())
      .Case("eq", decided(equal, less || greater))
      .Case("ne", decided(less || greater, equal))
      .Case("lt", decided(less, a.low >= b.high))
      .Case("le", decided(a.high <= b.low, greater))
      .Case("gt", decided(greater, a.high <= b.low))
      .Case("ge", decided(a.low >= b.high, less))
      .Default(unknown);
}

/// The largest number of the type that sums of these elements are added up in.
static double largestSum(FloatType type) {
  const llvm::fltSemantics &own = type.getFloatSemantics();
  return llvm::APFloat::getLargest(type.getWidth() < 32 ? llvm::APFloat::IEEEsingle() : own).convertToDouble();
}

/// A sum of `terms` elements, each in `x`, in any order of addition. Kernels add in lanes: one may reach +infinity and
/// another -infinity, and then the sum is NaN. That cannot be where all magnitudes together fit, roundings included.
static Range sumOf(const Range &x, double terms, Type element) {
  if (!x.isBounded()) {
    return rangeOfType(element);
  }
  if (auto type = dyn_cast<FloatType>(element)) {
    double most = terms * x.magnitude() * (1 + relativeError(element, 2 * terms));
    if (!(most <= largestSum(type))) {
      return {};
    }
  }
  Range exact{terms * x.low, terms * x.high, false, x.whole};
  // A sum of mixed signs errs by its magnitudes, not by its value.
  double slack = x.whole && terms * x.magnitude() <= wholeLimit(element)
                     ? 0
                     : terms * x.magnitude() * relativeError(element, 2 * terms);
  double low = x.low >= 0 ? std::max(0.0, exact.low - slack) : exact.low - slack;
  double high = x.high <= 0 ? std::min(0.0, exact.high + slack) : exact.high + slack;
  return rounded({low, high, false, x.whole}, element);
}

static double termsOf(Value operand, Value result) {
  double terms = 1, results = 1;
  for (int64_t size : shapeOf(operand)) {
    terms *= static_cast<double>(size);
  }
  for (int64_t size : shapeOf(result)) {
    results *= static_cast<double>(size);
  }
  return results == 0 ? 0 : terms / results;
}

static Range rangeOfElementwise(Operation *op, Operands operands) {
  Type element = elementOf(op->getResult(0));
  auto at = [&](unsigned k) -> const Range & { return operands[k].range; };
  auto bounded = [&] { return llvm::all_of(operands, [](const Fact &fact) { return fact.range.isBounded(); }); };
  auto real = [](double (*f)(double)) { return [f](double x) { return f(x); }; };
  return TypeSwitch<Operation *, Range>(op)
      .Case<ConvertOp>([&](auto) { return convertedRange(at(0), element); })
      .Case<CompareOp>([&](auto compare) { return rangeOfCompare(compare, at(0), at(1)); })
      .Case<SelectOp>([&](auto) {
        return at(0).low == 1 ? at(1) : at(0).high == 0 && !at(0).nan ? at(2) : at(1).hull(at(2));
      })
      .Case<NegOp>([&](auto) {
        return rounded({-at(0).high, -at(0).low, at(0).nan, at(0).whole}, element, 0);
      })
      .Case<AbsOp>([&](auto) {
        const Range &x = at(0);
        double low = x.low > 0 ? x.low : x.high < 0 ? -x.high : 0;
        return rounded({low, std::max(std::abs(x.low), std::abs(x.high)), x.nan, x.whole}, element, 0);
      })
      .Case<FloorOp, CeilOp, RoundOp>([&](auto) {
        return bounded() ? rounded(Range::of(std::floor(at(0).low), std::ceil(at(0).high), true), element) : Range();
      })
      .Case<SignOp>([&](auto) {
        double low = at(0).low > 0 ? 1 : at(0).low == 0 ? 0 : -1, high = at(0).high < 0 ? -1 : at(0).high == 0 ? 0 : 1;
        return Range{low, high, at(0).nan, true};
      })
      .Case<NotOp>([&](auto) {
        return element.isInteger(1) ? Range::of(1 - at(0).high, 1 - at(0).low, true) : rangeOfType(element);
      })
      .Case<AndOp, OrOp, XorOp, ShlOp, ShrOp>([&](auto) { return rangeOfType(element); })
      .Case<AddOp>([&](auto) {
        return bounded() ? rounded({at(0).low + at(1).low, at(0).high + at(1).high, false, at(0).whole && at(1).whole},
                                   element)
                         : rangeOfType(element);
      })
      .Case<SubOp>([&](auto) {
        return bounded() ? rounded({at(0).low - at(1).high, at(0).high - at(1).low, false, at(0).whole && at(1).whole},
                                   element)
                         : rangeOfType(element);
      })
      .Case<MulOp>([&](MulOp mul) {
        if (!bounded()) {
          return rangeOfType(element);
        }
        Range exact = corners(at(0), at(1), [](double x, double y) { return x * y; });
        if (mul.getA() == mul.getB()) { // a square
          double most = std::max(at(0).low * at(0).low, at(0).high * at(0).high);
          bool crosses = at(0).low <= 0 && at(0).high >= 0;
          exact.low = crosses ? 0 : std::min(at(0).low * at(0).low, at(0).high * at(0).high);
          exact.high = most;
          Range result = rounded(exact, element);
          if (!result.nan && isa<FloatType>(element)) { // integers may have wrapped
            result.low = std::max(result.low, 0.0);
          }
          return result;
        }
        return rounded(exact, element);
      })
      .Case<DivOp>([&](auto) {
        bool hasZero = at(1).low <= 0 && at(1).high >= 0;
        if (!bounded() || hasZero) {
          return rangeOfType(element);
        }
        Range exact = corners(at(0), at(1), [](double x, double y) { return x / y; });
        if (isa<IntegerType>(element)) {
          return rounded(Range::of(std::trunc(exact.low), std::trunc(exact.high), true), element);
        }
        exact.whole = false;
        return rounded(exact, element);
      })
      .Case<MaxOp>([&](auto) {
        return Range{std::max(at(0).low, at(1).low), std::max(at(0).high, at(1).high), at(0).nan || at(1).nan,
                     at(0).whole && at(1).whole};
      })
      .Case<MinOp>([&](auto) {
        return Range{std::min(at(0).low, at(1).low), std::min(at(0).high, at(1).high), at(0).nan || at(1).nan,
                     at(0).whole && at(1).whole};
      })
      .Case<SinOp, CosOp>([&](auto) { return bounded() ? rounded(Range::of(-1, 1), element, 4) : Range(); })
      .Case<TanhOp, ErfOp>([&](auto) {
        return at(0).nan ? Range{-1.0001, 1.0001, true, false} : Range::of(-1.0001, 1.0001);
      })
      .Case<LogisticOp>([&](auto) {
        return at(0).nan ? Range{0, 1.0001, true, false} : Range::of(0, 1.0001);
      })
      .Case<ErfcOp>([&](auto) {
        return at(0).nan ? Range{0, 2.0001, true, false} : Range::of(0, 2.0001);
      })
      .Case<ExpOp>([&](auto) {
        Range result = monotone(at(0), element, 8, real(std::exp));
        result.low = result.nan ? result.low : std::max(result.low, 0.0);
        return result;
      })
      .Case<SqrtOp>([&](auto) {
        if (!at(0).isBounded() || at(0).low < 0) {
          return Range();
        }
        Range result = monotone(at(0), element, 2, real(std::sqrt));
        result.low = std::max(result.low, 0.0);
        return result;
      })
      .Case<LogOp>([&](auto) {
        return at(0).isBounded() && at(0).low > 0 ? monotone(at(0), element, 8, real(std::log)) : Range();
      })
      .Case<Log1pOp>([&](auto) {
        if (!at(0).isBounded() || at(0).low <= -1) {
          return Range();
        }
        return keepingSign(monotone(at(0), element, 8, real(std::log1p)), at(0));
      })
      .Case<Expm1Op>([&](auto) { return keepingSign(monotone(at(0), element, 8, real(std::expm1)), at(0)); })
      .Case<PowOp>([&](auto) {
        // Of a base that is not negative it is monotone in each operand, so that its extremes are at corners.
        bool isMonotone = at(0).low > 0 || (at(0).low == 0 && at(1).low > 0);
        if (!bounded() || !isMonotone || !isa<FloatType>(element)) {
          return rangeOfType(element);
        }
        Range exact = corners(at(0), at(1), [](double x, double y) { return std::pow(x, y); });
        exact.whole = false;
        Range result = rounded(exact, element, 16);
        result.low = result.nan ? result.low : std::max(result.low, 0.0);
        return result;
      })
      .Default([&](auto) { return rangeOfType(element); });
}

Range rows::rangeOf(Operation *op, unsigned result, Operands operands) {
  Value value = op->getResult(result);
  Type element = elementOf(value);
  auto at = [&](unsigned k) -> const Range & { return operands[k].range; };
  if (op->hasTrait<Elementwise>()) {
    return isa<ComplexType>(element) ? Range() : rangeOfElementwise(op, operands);
  }
  return TypeSwitch<Operation *, Range>(op)
      .Case<ConstantOp>([&](ConstantOp constant) -> Range {
        if (auto number = dyn_cast<IntegerAttr>(constant.getValue())) {
          double x = element.isInteger(1)          ? static_cast<double>(number.getValue().getZExtValue())
                     : element.isUnsignedInteger() ? static_cast<double>(number.getValue().getZExtValue())
                                                   : static_cast<double>(number.getValue().getSExtValue());
          return std::abs(x) < 0x1p53 ? Range::of(x, x, true) : rangeOfType(element);
        }
        if (auto number = dyn_cast<FloatAttr>(constant.getValue())) {
          double x = number.getValueAsDouble();
          return std::isnan(x) ? Range() : Range::of(x, x, x == std::trunc(x));
        }
        return {};
      })
      .Case<IotaOp>([&](IotaOp iota) {
        double size = static_cast<double>(shapeOf(iota.getResult())[static_cast<size_t>(iota.getDim())]);
        return rounded(Range::of(0, std::max(0.0, size - 1), true), element);
      })
      .Case<RngBitsOp>([&](auto) { return Range::of(0, 0x1p32, true); })
      .Case<RngUniformOp>([&](auto) { return Range::of(0, 1); })
      .Case<ReshapeOp, TransposeOp, BroadcastOp, SliceOp, DynamicSliceOp, ReverseOp>([&](auto) { return at(0); })
      .Case<PadOp, UpdateSliceOp, DynamicUpdateSliceOp>([&](auto) { return at(0).hull(at(1)); })
      .Case<ConcatOp>([&](auto) {
        Range range = at(0);
        for (const Fact &fact : operands.drop_front()) {
          range = range.hull(fact.range);
        }
        return range;
      })
      .Case<TakeOp, TakeAlongOp>([&](auto) { return at(0).hull(Range::of(0, 0, true)); })
      .Case<PutOp, PutAlongOp>(
          [&](auto put) { return put.getKind() == "set" ? at(0).hull(at(2)) : rangeOfType(element); })
      .Case<ReduceMaxOp, ReduceMinOp, CumMaxOp, CumMinOp>([&](auto) { return at(0); })
      .Case<SortOp, TopKOp>([&](auto) {
        double size =
            static_cast<double>(cost::size(op->getOperand(0), op->getAttrOfType<IntegerAttr>("dim").getInt()));
        return result == 0 ? at(0) : Range::of(0, std::max(0.0, size - 1), true);
      })
      .Case<ArgMaxOp, ArgMinOp>([&](auto arg) {
        double size = static_cast<double>(cost::size(arg.getX(), arg.getDim()));
        return Range::of(0, std::max(0.0, size - 1), true);
      })
      .Case<ReduceSumOp>([&](ReduceSumOp sum) { return sumOf(at(0), termsOf(sum.getX(), sum.getResult()), element); })
      .Case<CumSumOp>([&](CumSumOp sum) {
        double size = static_cast<double>(cost::size(sum.getX(), sum.getDim()));
        return sumOf(at(0).hull(Range::of(0, 0, true)), size, element);
      })
      .Case<DotOp>([&](DotOp dot) {
        if (!at(0).isBounded() || !at(1).isBounded()) {
          return rangeOfType(element);
        }
        double terms = 1;
        for (int64_t dim : dot.getLhsContract()) {
          terms *= static_cast<double>(shapeOf(dot.getA())[static_cast<size_t>(dim)]);
        }
        Range product = corners(at(0), at(1), [](double x, double y) { return x * y; });
        return sumOf(product, terms, element);
      })
      .Case<CholeskyOp>([&](CholeskyOp cholesky) {
        ArrayRef<int64_t> shape = shapeOf(cholesky.getX());
        return result == 0 ? rangeOfType(element) : Range::of(0, static_cast<double>(shape.back()), true);
      })
      .Case<PoolMaxOp>([&](PoolMaxOp pool) { return result == 0 ? at(0) : rangeOfType(element); })
      .Default([&](auto) { return rangeOfType(element); });
}

std::optional<Range> rows::presentRangeOf(Operation *op, unsigned result, Operands operands) {
  if (llvm::none_of(operands, [](const Fact &fact) { return fact.present.has_value(); })) {
    return std::nullopt;
  }
  SmallVector<Fact, 4> present(operands);
  for (Fact &fact : present) {
    fact.range = fact.presentRange();
  }
  return rangeOf(op, result, present);
}
