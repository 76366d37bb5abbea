// SPDX-License-Identifier: Apache-2.0
// Rows through reads and writes at computed positions.
#include "dialect/IndexOps.h"
#include "dialect/rows/Support.h"

using namespace mlir;
using namespace sojourn;
using namespace sojourn::rows;

void rows::take(Operation *op, Operands operands, Analysis &analysis, Results results) {
  auto take = cast<TakeOp>(op);
  const Fact &x = operands[0], &index = operands[1];
  if (settled(op, operands, analysis, results, x.isSum() && index.isPublic())) {
    return;
  }
  if (x.isPerRow() && index.isPerRow()) {
    results[0] = analysis.mixed(op, "chooses rows by values of rows", take.getI());
    return;
  }
  const Fact &rows = x.isPerRow() ? x : index;
  Value operand = x.isPerRow() ? take.getX() : take.getI();
  std::optional<Place> place = placeOf(rows.rows, shapeOf(operand));
  if (!place) {
    results[0] = straddles(op, analysis, operand);
    return;
  }
  if (index.isPerRow()) {
    place->dim += take.getDim();
  } else if (place->dim == take.getDim()) {
    results[0] = analysis.mixed(op, "takes rows of the batch by number: the slot of each row is lost", take.getI());
    return;
  } else if (place->dim > take.getDim()) {
    place->dim += static_cast<int64_t>(shapeOf(take.getI()).size()) - 1;
  }
  results[0] = perRowAt(rows, shapeOf(take.getResult()), *place);
}

/// take_along and put_along: the same row reads and writes itself, along another dim.
static void withinRows(Operation *op, int64_t dim, Operands operands, Analysis &analysis, Results results) {
  if (settled(op, operands, analysis, results, false)) {
    return;
  }
  std::optional<Place> place = commonPlace(op, operands, analysis, results[0]);
  if (!place) {
    return;
  }
  if (place->dim == dim) {
    results[0] = analysis.mixed(op, "reads or writes along rows");
    return;
  }
  // Outside of `dim` the sizes of x and the index are equal (verified), so a row stays the same row.
  const Fact *rows = llvm::find_if(operands, [](const Fact &fact) { return fact.isPerRow(); });
  results[0] = perRowAt(*rows, shapeOf(op->getResult(0)), *place);
}

void rows::takeAlong(Operation *op, Operands operands, Analysis &analysis, Results results) {
  withinRows(op, cast<TakeAlongOp>(op).getDim(), operands, analysis, results);
  if (!anyPerRow(operands) && operands[0].isSum() && operands[1].isPublic()) {
    results[0].kind = Kind::Sum;
  }
}

void rows::putAlong(Operation *op, Operands operands, Analysis &analysis, Results results) {
  withinRows(op, cast<PutAlongOp>(op).getDim(), operands, analysis, results);
}

void rows::put(Operation *op, Operands operands, Analysis &analysis, Results results) {
  auto put = cast<PutOp>(op);
  const Fact &x = operands[0], &index = operands[1], &update = operands[2];
  bool isAdd = put.getKind() == "add";
  bool isLinear = (x.isSum() || x.isZero()) && (update.isSum() || update.isZero());
  if (settled(op, operands, analysis, results, isAdd && index.isPublic() && isLinear)) {
    return;
  }
  int64_t dim = put.getDim();
  auto indexRank = static_cast<int64_t>(shapeOf(put.getI()).size());
  std::optional<Place> inX, inIndex, inUpdate;
  if ((x.isPerRow() && !(inX = placeOf(x.rows, shapeOf(put.getX())))) ||
      (index.isPerRow() && !(inIndex = placeOf(index.rows, shapeOf(put.getI())))) ||
      (update.isPerRow() && !(inUpdate = placeOf(update.rows, shapeOf(put.getU()))))) {
    results[0] = straddles(op, analysis, put.getU());
    return;
  }
  bool overRows = inIndex || (inUpdate && inUpdate->dim >= dim && inUpdate->dim < dim + indexRank);
  if (overRows) { // rows are summed into places
    if (inIndex) {
      inIndex->dim += dim;
    }
    if (!isAdd) {
      results[0] = analysis.mixed(op, "rows overwrite each other", put.getU());
    } else if (x.isPerRow() || !x.isZero()) {
      results[0] = analysis.mixed(op, "adds rows onto values other than zeros", put.getX());
    } else if (index.isPerRow() && update.isPerRow() && index.rows.draw != update.rows.draw) {
      results[0] = twoDraws(op, analysis, put.getU());
    } else if (inIndex && inUpdate && (!(*inIndex == *inUpdate) || !index.rows.sameSlots(update.rows))) {
      results[0] = analysis.mixed(op, "operands have their rows in different places", put.getU());
    } else {
      const Fact &rows = inUpdate ? update : index;
      int64_t terms = 1;
      for (int64_t size : shapeOf(put.getI())) {
        terms *= size;
      }
      results[0] = analysis.cut({.op = op,
                                 .form = CutForm::Put,
                                 .operands = {x, index, update},
                                 .draw = rows.rows.draw,
                                 .tokens = terms / rows.rows.slots});
    }
    return;
  }
  // Public places, in every row the same.
  if (inUpdate && inUpdate->dim >= dim + indexRank) {
    inUpdate->dim -= indexRank - 1;
  }
  const Place &place = inUpdate ? *inUpdate : *inX;
  const Fact &rows = inUpdate ? update : x;
  if (place.dim == dim) {
    results[0] = analysis.mixed(op, "writes rows of the batch by number", put.getI());
  } else if (inX && inUpdate && (!(*inX == *inUpdate) || !x.rows.sameSlots(update.rows))) {
    results[0] = analysis.mixed(op, "operands have their rows in different places", put.getU());
  } else {
    results[0] = perRowAt(rows, shapeOf(put.getResult()), place);
  }
}
