// SPDX-License-Identifier: Apache-2.0
// Rows through ops along dims: reductions, scans, sorts.
#include "dialect/ReductionOps.h"
#include "dialect/rows/Support.h"

using namespace mlir;
using namespace sojourn;
using namespace sojourn::rows;

/// Where the slots lie once `dims` are gone.
static Place without(Place place, ArrayRef<int64_t> dims) {
  int64_t before = llvm::count_if(dims, [&](int64_t dim) { return dim < place.dim; });
  return {place.dim - before, place.outer, place.inner};
}

void rows::reduceSum(Operation *op, Operands operands, Analysis &analysis, Results results) {
  auto sum = cast<ReduceSumOp>(op);
  const Fact &x = operands[0];
  if (!x.isPerRow()) {
    results[0] = x;
    results[0].range = {};
    results[0].distinct = Distinct::No;
    return;
  }
  ArrayRef<int64_t> shape = shapeOf(sum.getX());
  std::optional<Place> place = placeOf(x.rows, shape);
  if (!place) {
    results[0] = straddles(op, analysis, sum.getX());
    return;
  }
  if (!llvm::is_contained(sum.getDims(), place->dim)) {
    results[0] = perRowAt(x, shapeOf(sum.getResult()), without(*place, sum.getDims()));
    return;
  }
  int64_t terms = 1;
  for (int64_t dim : sum.getDims()) {
    terms *= shape[static_cast<size_t>(dim)];
  }
  results[0] = analysis.cut(
      {.op = op, .form = CutForm::ReduceSum, .operands = {x}, .draw = x.rows.draw, .tokens = terms / x.rows.slots});
}

/// Reductions that are no sums: their dims go away, and rows may not be among them.
void rows::reduce(Operation *op, Operands operands, Analysis &analysis, Results results) {
  const Fact &x = operands[0];
  if (!x.isPerRow()) {
    results[0] = analysis.derived(operands);
    return;
  }
  SmallVector<int64_t> dims;
  if (auto list = op->getAttrOfType<DenseI64ArrayAttr>("dims")) {
    llvm::append_range(dims, list.asArrayRef());
  } else {
    dims.push_back(op->getAttrOfType<IntegerAttr>("dim").getInt());
  }
  std::optional<Place> place = placeOf(x.rows, shapeOf(op->getOperand(0)));
  if (!place) {
    results[0] = straddles(op, analysis, op->getOperand(0));
  } else if (llvm::is_contained(dims, place->dim)) {
    results[0] = analysis.mixed(op, "is taken over rows", op->getOperand(0));
  } else {
    results[0] = perRowAt(x, shapeOf(op->getResult(0)), without(*place, dims));
  }
}

void rows::transform(Operation *op, Operands operands, Analysis &analysis, Results results) {
  const Fact &x = operands[0];
  if (!x.isPerRow()) {
    results[0] = analysis.derived(operands);
    return;
  }
  std::optional<Place> place = placeOf(x.rows, shapeOf(op->getOperand(0)));
  if (!place) {
    results[0] = straddles(op, analysis, op->getOperand(0));
  } else if (llvm::is_contained(op->getAttrOfType<DenseI64ArrayAttr>("dims").asArrayRef(), place->dim)) {
    results[0] = analysis.mixed(op, "is taken over rows", op->getOperand(0));
  } else {
    results[0] = perRowAt(x, shapeOf(op->getResult(0)), *place);
  }
}

void rows::along(Operation *op, Operands operands, Analysis &analysis, Results results) {
  const Fact &x = operands[0];
  if (!x.isPerRow()) {
    Fact result = x.isSum() && isa<CumSumOp>(op) ? x : analysis.derived(operands);
    result.range = {};
    result.distinct = Distinct::No;
    llvm::fill(results, result);
    return;
  }
  std::optional<Place> place = placeOf(x.rows, shapeOf(op->getOperand(0)));
  if (!place) {
    llvm::fill(results, straddles(op, analysis, op->getOperand(0)));
  } else if (place->dim == op->getAttrOfType<IntegerAttr>("dim").getInt()) {
    llvm::fill(results, analysis.mixed(op, "runs along rows", op->getOperand(0)));
  } else {
    llvm::fill(results, perRowAt(x, shapeOf(op->getResult(0)), *place));
  }
}
