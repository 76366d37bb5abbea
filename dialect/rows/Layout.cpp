// SPDX-License-Identifier: Apache-2.0
// Rows through ops that move elements.
#include "dialect/LayoutOps.h"
#include "dialect/rows/Support.h"

using namespace mlir;
using namespace sojourn;
using namespace sojourn::rows;

/// The one operand is no per-row value: it keeps what it is, since moving and leaving out elements is linear.
static bool keeps(Operands operands, Results results) {
  if (operands[0].isPerRow()) {
    return false;
  }
  results[0] = operands[0];
  results[0].range = {};
  results[0].distinct = Distinct::No;
  return true;
}

/// Of row numbers that were moved: in a list of rank 1 again.
static Distinct asList(Operation *op, const Fact &numbers) {
  return shapeOf(op->getResult(0)).size() == 1 ? numbers.distinct : Distinct::No;
}

void rows::reshape(Operation *op, Operands operands, Analysis &, Results results) {
  if (keeps(operands, results)) {
    results[0].distinct = asList(op, operands[0]);
    return;
  }
  // Positions of the row-major order stay.
  results[0] = Fact::of(Kind::PerRow);
  results[0].rows = operands[0].rows;
  results[0].distinct = asList(op, operands[0]);
}

/// The slots' dim goes to `dimOf(dim)` with its size unchanged.
static void moved(Operation *op, Operands operands, Analysis &analysis, Results results,
                  llvm::function_ref<int64_t(int64_t)> dimOf) {
  if (keeps(operands, results)) {
    return;
  }
  std::optional<Place> place = placeOf(operands[0].rows, shapeOf(op->getOperand(0)));
  if (!place) {
    results[0] = straddles(op, analysis, op->getOperand(0));
    return;
  }
  place->dim = dimOf(place->dim);
  results[0] = perRowAt(operands[0], shapeOf(op->getResult(0)), *place);
}

void rows::parts(Operation *op, Operands operands, Analysis &analysis, Results results) {
  moved(op, operands, analysis, results, [](int64_t dim) { return dim; });
}

void rows::pairs(Operation *op, Operands operands, Analysis &analysis, Results results) {
  std::optional<Place> place =
      operands[0].isPerRow() ? placeOf(operands[0].rows, shapeOf(op->getOperand(0))) : std::nullopt;
  if (place && place->dim == static_cast<int64_t>(shapeOf(op->getResult(0)).size())) {
    results[0] = analysis.mixed(op, "uses rows as the parts of a number", op->getOperand(0));
    return;
  }
  moved(op, operands, analysis, results, [](int64_t dim) { return dim; });
}

void rows::transpose(Operation *op, Operands operands, Analysis &analysis, Results results) {
  ArrayRef<int64_t> perm = cast<TransposeOp>(op).getPerm();
  moved(op, operands, analysis, results,
        [&](int64_t dim) { return static_cast<int64_t>(llvm::find(perm, dim) - perm.begin()); });
}

void rows::broadcast(Operation *op, Operands operands, Analysis &analysis, Results results) {
  ArrayRef<int64_t> dims = cast<BroadcastOp>(op).getDims();
  // The slots' dim has at least two elements, so it does not grow.
  moved(op, operands, analysis, results, [&](int64_t dim) { return dims[static_cast<size_t>(dim)]; });
}

void rows::slice(Operation *op, Operands operands, Analysis &analysis, Results results) {
  auto cut = cast<SliceOp>(op);
  if (keeps(operands, results)) {
    results[0].distinct = operands[0].distinct;
    return;
  }
  ArrayRef<int64_t> shape = shapeOf(cut.getX());
  std::optional<Place> place = placeOf(operands[0].rows, shape);
  if (!place) {
    results[0] = straddles(op, analysis, cut.getX());
    return;
  }
  auto dim = static_cast<size_t>(place->dim);
  int64_t start = cut.getStart()[dim], step = cut.getStride()[dim];
  int64_t size = shapeOf(cut.getResult())[dim];
  if (start == 0 && size == shape[dim]) {
    results[0] = perRowAt(operands[0], shapeOf(cut.getResult()), *place);
    return;
  }
  Fact part = operands[0];
  int64_t inner = place->inner;
  if (step == inner && start < inner && size == place->outer * part.rows.slots) {
    // The same place of every row, as in one moment of a sequence.
    results[0] = perRowAt(part, shapeOf(cut.getResult()), {place->dim, place->outer, 1});
    return;
  }
  bool isElements = step % inner == 0, isRows = step == 1 && start % inner == 0 && size % inner == 0;
  if (place->outer != 1 || (!isElements && !isRows) || part.rows.start) {
    results[0] = analysis.mixed(op, "takes a part of a dim that holds rows and other elements", cut.getX());
    return;
  }
  part.rows.slots = isElements ? size : size / inner;
  if (part.rows.slots < 2) {
    results[0] = analysis.mixed(op, "takes a single row out of the batch", cut.getX());
    return;
  }
  part.rows.first += part.rows.step * (start / inner);
  part.rows.step *= isElements ? step / inner : 1;
  results[0] = perRowAt(part, shapeOf(cut.getResult()), {place->dim, 1, isElements ? 1 : inner});
}

void rows::reverse(Operation *op, Operands operands, Analysis &analysis, Results results) {
  ArrayRef<int64_t> dims = cast<ReverseOp>(op).getDims();
  if (keeps(operands, results)) {
    return;
  }
  std::optional<Place> place = placeOf(operands[0].rows, shapeOf(op->getOperand(0)));
  if (!place) {
    results[0] = straddles(op, analysis, op->getOperand(0));
  } else if (llvm::is_contained(dims, place->dim)) {
    results[0] = analysis.mixed(op, "reverses the order of rows", op->getOperand(0));
  } else {
    results[0] = perRowAt(operands[0], shapeOf(op->getResult(0)), *place);
  }
}

void rows::pad(Operation *op, Operands operands, Analysis &analysis, Results results) {
  auto pad = cast<PadOp>(op);
  if (settled(op, operands, analysis, results, operands[0].isSum() && operands[1].isZero())) {
    return;
  }
  std::optional<Place> place = placeOf(operands[0].rows, shapeOf(pad.getX()));
  if (!place) {
    results[0] = straddles(op, analysis, pad.getX());
    return;
  }
  auto dim = static_cast<size_t>(place->dim);
  int64_t low = pad.getLow()[dim], high = pad.getHigh()[dim], apart = pad.getInterior()[dim] + 1;
  if (low < 0 || high < 0 || low + high != apart - 1) {
    results[0] = analysis.mixed(op, "pads the dim that holds rows", pad.getX());
    return;
  }
  // Every element becomes as many, of its own row.
  place->inner *= apart;
  results[0] = perRowAt(operands[0], shapeOf(pad.getResult()), *place);
}

static bool areSumsOrZero(Operands operands) {
  return llvm::all_of(operands, [](const Fact &fact) { return fact.isSum() || fact.isZero(); });
}

void rows::concat(Operation *op, Operands operands, Analysis &analysis, Results results) {
  auto concat = cast<ConcatOp>(op);
  if (settled(op, operands, analysis, results, areSumsOrZero(operands))) {
    return;
  }
  std::optional<Place> place = commonPlace(op, operands, analysis, results[0]);
  if (!place) {
    return;
  }
  if (place->dim == concat.getDim()) {
    results[0] = analysis.mixed(op, "concatenates batches of rows");
    return;
  }
  const Fact *rows = llvm::find_if(operands, [](const Fact &fact) { return fact.isPerRow(); });
  results[0] = perRowAt(*rows, shapeOf(concat.getResult()), *place);
}

/// A window `u` is written into `x`: whole rows.
template <class Update>
static void writeWindow(Update update, Operands operands, Analysis &analysis, Results results) {
  std::optional<Place> place = commonPlace(update, operands, analysis, results[0]);
  if (!place) {
    return;
  }
  auto dim = static_cast<size_t>(place->dim);
  if (shapeOf(update.getX())[dim] != shapeOf(update.getU())[dim]) {
    results[0] = analysis.mixed(update, "writes a part of the dim that holds rows");
    return;
  }
  const Fact *rows = llvm::find_if(operands, [](const Fact &fact) { return fact.isPerRow(); });
  results[0] = perRowAt(*rows, shapeOf(update.getResult()), *place);
}

void rows::updateSlice(Operation *op, Operands operands, Analysis &analysis, Results results) {
  auto update = cast<UpdateSliceOp>(op);
  if (settled(op, operands, analysis, results, areSumsOrZero(operands))) {
    return;
  }
  writeWindow(update, operands, analysis, results);
}

void rows::dynamicSlice(Operation *op, Operands operands, Analysis &analysis, Results results) {
  auto cut = cast<DynamicSliceOp>(op);
  if (!llvm::all_of(operands.drop_front(), [](const Fact &fact) { return fact.isPublic(); })) {
    if (!settled(op, operands, analysis, results, /*isLinear=*/false)) {
      results[0] = analysis.mixed(op, "takes a part at a position that depends on rows", cut.getX());
    }
    return;
  }
  if (keeps(operands, results)) {
    results[0].distinct = operands[0].distinct;
    return;
  }
  ArrayRef<int64_t> shape = shapeOf(cut.getX()), part = shapeOf(cut.getResult());
  std::optional<Place> place = placeOf(operands[0].rows, shape);
  if (!place) {
    results[0] = straddles(op, analysis, cut.getX());
    return;
  }
  auto dim = static_cast<size_t>(place->dim);
  if (part[dim] == shape[dim]) {
    results[0] = perRowAt(operands[0], part, *place);
    return;
  }
  Fact fact = operands[0];
  // Of all slots alone: what is laid beside the part is laid beside all slots, and the start is clamped there.
  if (place->outer != 1 || place->inner != 1 || fact.rows.first != 0 || fact.rows.step != 1 || fact.rows.start ||
      fact.rows.slots != analysis.draws()[fact.rows.draw].slots) {
    results[0] = analysis.mixed(op, "takes a part of a dim that holds rows and other elements, at a run-time position",
                                cut.getX());
    return;
  }
  if (part[dim] < 2) {
    results[0] = analysis.mixed(op, "takes a single row out of the batch", cut.getX());
    return;
  }
  fact.rows.among = fact.rows.slots;
  fact.rows.slots = part[dim];
  fact.rows.start = cut.getStarts()[static_cast<size_t>(llvm::find(cut.getDims(), place->dim) - cut.getDims().begin())];
  results[0] = perRowAt(fact, part, {place->dim, 1, 1});
}

void rows::dynamicUpdateSlice(Operation *op, Operands operands, Analysis &analysis, Results results) {
  auto update = cast<DynamicUpdateSliceOp>(op);
  if (!llvm::all_of(operands.drop_front(2), [](const Fact &fact) { return fact.isPublic(); })) {
    if (!settled(op, operands, analysis, results, /*isLinear=*/false)) {
      results[0] = analysis.mixed(op, "writes at a position that depends on rows");
    }
    return;
  }
  if (settled(op, operands, analysis, results, areSumsOrZero(operands.take_front(2)))) {
    return;
  }
  writeWindow(update, operands, analysis, results);
}
