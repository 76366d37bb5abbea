// SPDX-License-Identifier: Apache-2.0
// Rows through ops that work position by position.
#include "dialect/Bounds.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"
#include "dialect/rows/Support.h"

using namespace mlir;
using namespace sojourn;
using namespace sojourn::rows;

/// Of sums and public values: whether the result is again a linear image of the sums.
static bool isLinear(Operation *op, Operands operands) {
  auto isSumOrZero = [](const Fact &fact) { return fact.isSum() || fact.isZero(); };
  if (isa<NegOp>(op)) {
    return operands[0].isSum();
  }
  if (auto convert = dyn_cast<ConvertOp>(op)) {
    return operands[0].isSum() && isa<FloatType>(getElementTypeOrSelf(convert.getResult().getType())) &&
           isa<FloatType>(getElementTypeOrSelf(convert.getX().getType()));
  }
  if (isa<AddOp, SubOp>(op)) {
    return isSumOrZero(operands[0]) && isSumOrZero(operands[1]);
  }
  if (isa<MulOp>(op)) {
    return (operands[0].isSum() && operands[1].isPublic()) || (operands[0].isPublic() && operands[1].isSum());
  }
  if (isa<DivOp>(op)) {
    return operands[0].isSum() && operands[1].isPublic() && isa<FloatType>(getElementTypeOrSelf(op->getResult(0)));
  }
  if (isa<SelectOp>(op)) {
    return operands[0].isPublic() && isSumOrZero(operands[1]) && isSumOrZero(operands[2]);
  }
  return false;
}

static bool isConstantBetween(Value value, int64_t low, int64_t high) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto number = constant ? dyn_cast<IntegerAttr>(constant.getValue()) : IntegerAttr();
  return number && number.getType().isSignlessInteger(64) && number.getInt() >= low && number.getInt() <= high;
}

/// The other operand of an addition of `value` and something; null where there is none.
static Value addedTo(Value sum, Value value) {
  auto add = sum.getDefiningOp<AddOp>();
  if (!add) {
    return {};
  }
  return add.getA() == value ? add.getB() : add.getB() == value ? add.getA() : Value();
}

/// Row numbers moved by a constant, in which an absent row stays absent: select(p < 0, p, p + offset).
static bool isShift(SelectOp op) {
  auto absent = op.getPred().getDefiningOp<CompareOp>();
  Value positions = op.getA();
  Value offset = addedTo(op.getB(), positions);
  return absent && absent.getPredicate() == "lt" && absent.getA() == positions &&
         isConstantBetween(absent.getB(), 0, 0) && offset && isConstantBetween(offset, 0, bounds::kDimension);
}

/// What is left of two row numbers' difference.
static Distinct distinctOf(Operation *op, Operands operands) {
  // Numbers that are not negative move by the same; one that wraps becomes absent, and may meet another there.
  if (auto select = dyn_cast<SelectOp>(op); select && isShift(select)) {
    return std::min(operands[1].distinct, Distinct::Rows);
  }
  // x + c wraps to different numbers, but it makes rows of absent ones: -1 at two places is one row then.
  if (auto add = dyn_cast<AddOp>(op); add && operands[0].isPublic() && operands[1].isPublic()) {
    bool differ = (operands[0].distinct == Distinct::Numbers && shapeOf(add.getB()).empty()) ||
                  (operands[1].distinct == Distinct::Numbers && shapeOf(add.getA()).empty());
    return differ ? Distinct::Numbers : Distinct::No;
  }
  return Distinct::No;
}

void rows::elementwise(Operation *op, Operands operands, Analysis &analysis, Results results) {
  if (const Fact *bad = firstMixed(operands)) {
    results[0] = *bad;
    return;
  }
  if (!anyPerRow(operands)) {
    results[0] = analysis.derived(operands);
    if (results[0].kind == Kind::Derived && isLinear(op, operands)) {
      results[0].kind = Kind::Sum;
    }
    results[0].distinct = results[0].isPublic() ? distinctOf(op, operands) : Distinct::No;
    return;
  }
  if (anyCuts(operands)) {
    results[0] = meetsSum(op, operands, analysis);
    return;
  }
  // Operands that are no splats have one shape, so equal alignments are equal places.
  const Fact *first = nullptr;
  for (auto [value, fact] : llvm::zip(op->getOperands(), operands)) {
    if (!fact.isPerRow()) {
      continue;
    }
    if (first && fact.rows.draw != first->rows.draw) {
      results[0] = twoDraws(op, analysis, value);
      return;
    }
    if (first && !(fact.rows == first->rows)) {
      results[0] = analysis.mixed(op, "operands have their rows in different places", value);
      return;
    }
    first = &fact;
  }
  results[0] = Fact::of(Kind::PerRow);
  results[0].rows = first->rows;
  results[0].distinct = distinctOf(op, operands);
}
