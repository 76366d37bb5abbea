// SPDX-License-Identifier: Apache-2.0
// Rows through contractions, convolutions, pools and factors of matrices.
#include "dialect/ContractionOps.h"
#include "dialect/WindowOps.h"
#include "dialect/rows/Support.h"

using namespace mlir;
using namespace sojourn;
using namespace sojourn::rows;

namespace {
/// How a dot uses the dim that holds the rows of an operand, and which of the dims used so it is.
struct Role {
  enum { Batch, Contract, Free } use;
  int64_t index, outer, inner;
  bool operator==(const Role &) const = default;
};
} // namespace

static std::optional<Role> roleOf(const Fact &fact, ArrayRef<int64_t> shape, ArrayRef<int64_t> batch,
                                  ArrayRef<int64_t> contract) {
  std::optional<Place> place = placeOf(fact.rows, shape);
  if (!place) {
    return std::nullopt;
  }
  auto indexIn = [&](ArrayRef<int64_t> dims) { return llvm::find(dims, place->dim) - dims.begin(); };
  if (llvm::is_contained(batch, place->dim)) {
    return Role{Role::Batch, indexIn(batch), place->outer, place->inner};
  }
  if (llvm::is_contained(contract, place->dim)) {
    return Role{Role::Contract, indexIn(contract), place->outer, place->inner};
  }
  int64_t before = 0;
  for (int64_t dim = 0; dim < place->dim; ++dim) {
    before += !llvm::is_contained(batch, dim) && !llvm::is_contained(contract, dim);
  }
  return Role{Role::Free, before, place->outer, place->inner};
}

/// A product of a sum and a public value.
static bool isBilinear(Operands operands) {
  return (operands[0].isSum() && operands[1].isPublic()) || (operands[0].isPublic() && operands[1].isSum());
}

void rows::dot(Operation *op, Operands operands, Analysis &analysis, Results results) {
  auto dot = cast<DotOp>(op);
  const Fact &a = operands[0], &b = operands[1];
  if (settled(op, operands, analysis, results, isBilinear(operands))) {
    return;
  }
  ArrayRef<int64_t> shapeA = shapeOf(dot.getA()), shapeB = shapeOf(dot.getB());
  std::optional<Role> roleA, roleB;
  if (a.isPerRow() && !(roleA = roleOf(a, shapeA, dot.getLhsBatch(), dot.getLhsContract()))) {
    results[0] = straddles(op, analysis, dot.getA());
    return;
  }
  if (b.isPerRow() && !(roleB = roleOf(b, shapeB, dot.getRhsBatch(), dot.getRhsContract()))) {
    results[0] = straddles(op, analysis, dot.getB());
    return;
  }
  if (roleA && roleB) {
    if (a.rows.draw != b.rows.draw) {
      results[0] = twoDraws(op, analysis, dot.getB());
      return;
    }
    if (!a.rows.sameSlots(b.rows) || !(*roleA == *roleB) || roleA->use == Role::Free) {
      results[0] = analysis.mixed(op, "each row meets other rows of the batch", dot.getB());
      return;
    }
  }
  const Role &role = roleA ? *roleA : *roleB;
  const Fact &rows = roleA ? a : b;
  if (role.use == Role::Contract) {
    int64_t terms = 1;
    for (int64_t dim : dot.getLhsContract()) {
      terms *= shapeA[static_cast<size_t>(dim)];
    }
    results[0] = analysis.cut({.op = op,
                               .form = CutForm::Dot,
                               .operands = {a, b},
                               .draw = rows.rows.draw,
                               .tokens = terms / rows.rows.slots});
    return;
  }
  auto batches = static_cast<int64_t>(dot.getLhsBatch().size());
  auto freeA = static_cast<int64_t>(shapeA.size() - dot.getLhsBatch().size() - dot.getLhsContract().size());
  int64_t dim = role.use == Role::Batch ? role.index : batches + role.index + (roleA ? 0 : freeA);
  results[0] = perRowAt(rows, shapeOf(dot.getResult()), {.dim = dim, .outer = role.outer, .inner = role.inner});
}

void rows::convolution(Operation *op, Operands operands, Analysis &analysis, Results results) {
  const Fact &x = operands[0], &w = operands[1];
  if (settled(op, operands, analysis, results, x.isSum() && w.isPublic())) {
    return;
  }
  if (w.isPerRow()) {
    results[0] = analysis.mixed(op, "the weight of a convolution depends on rows", op->getOperand(1));
    return;
  }
  std::optional<Place> place = placeOf(x.rows, shapeOf(op->getOperand(0)));
  if (!place || place->dim != 0) {
    results[0] = analysis.mixed(op, "rows are not the batch dim of a convolution", op->getOperand(0));
    return;
  }
  results[0] = perRowAt(x, shapeOf(op->getResult(0)), *place);
}

void rows::convolutionWeightGradient(Operation *op, Operands operands, Analysis &analysis, Results results) {
  if (settled(op, operands, analysis, results, isBilinear(operands))) {
    return;
  }
  std::optional<Place> place = commonPlace(op, operands, analysis, results[0]);
  if (!place) {
    return;
  }
  if (place->dim != 0) {
    results[0] = analysis.mixed(op, "rows are not the batch dim of a convolution");
    return;
  }
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
  int64_t terms = place->outer * place->inner;
  for (int64_t size : shape.drop_front(2)) {
    terms *= size;
  }
  const Fact &rows = operands[0].isPerRow() ? operands[0] : operands[1];
  results[0] = analysis.cut({.op = op,
                             .form = CutForm::ConvGradWeight,
                             .operands = {operands[0], operands[1]},
                             .draw = rows.rows.draw,
                             .tokens = terms});
}

void rows::pool(Operation *op, Operands operands, Analysis &analysis, Results results) {
  const Fact &x = operands[0];
  if (!x.isPerRow()) {
    Fact result = x.isSum() && isa<PoolSumOp>(op) ? x : analysis.derived(operands);
    result.range = {};
    result.distinct = Distinct::No;
    llvm::fill(results, result);
    return;
  }
  std::optional<Place> place = placeOf(x.rows, shapeOf(op->getOperand(0)));
  if (!place || place->dim > 1) {
    llvm::fill(results, analysis.mixed(op, "pools over the dim that holds rows", op->getOperand(0)));
    return;
  }
  llvm::fill(results, perRowAt(x, shapeOf(op->getResult(0)), *place));
}

void rows::matrices(Operation *op, Operands operands, Analysis &analysis, Results results) {
  const Fact &x = operands[0];
  if (!x.isPerRow()) {
    llvm::fill(results, analysis.derived(operands));
    return;
  }
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
  std::optional<Place> place = placeOf(x.rows, shape);
  if (!place) {
    llvm::fill(results, straddles(op, analysis, op->getOperand(0)));
    return;
  }
  if (place->dim + 2 >= static_cast<int64_t>(shape.size())) {
    llvm::fill(results, analysis.mixed(op, "uses private rows as the rows of a matrix", op->getOperand(0)));
    return;
  }
  for (auto [fact, value] : llvm::zip_equal(results, op->getResults())) {
    fact = perRowAt(x, shapeOf(value), *place);
  }
}

void rows::matrixPairs(Operation *op, Operands operands, Analysis &analysis, Results results) {
  if (settled(op, operands, analysis, results, /*isLinear=*/false)) {
    return;
  }
  std::optional<Place> place = commonPlace(op, operands, analysis, results[0]);
  if (!place) {
    return;
  }
  const Fact *rows = llvm::find_if(operands, [](const Fact &fact) { return fact.isPerRow(); });
  if (place->dim + 2 >= static_cast<int64_t>(shapeOf(op->getOperand(0)).size())) {
    results[0] = analysis.mixed(op, "uses private rows as the rows of a matrix", op->getOperand(0));
    return;
  }
  results[0] = perRowAt(*rows, shapeOf(op->getResult(0)), *place);
}
