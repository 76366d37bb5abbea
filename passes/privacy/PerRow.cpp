// SPDX-License-Identifier: Apache-2.0
// Per-row forms of cuts and of what is linear in them (see PerRow.h).
#include "passes/privacy/PerRow.h"
#include "dialect/ContractionOps.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/IndexOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/OwnerOps.h"
#include "dialect/ReductionOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"

#include "dialect/rows/Support.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sojourn;
using rows::Alignment;
using rows::Cut;
using rows::CutForm;

PerRow::PerRow(ClippedSumOp op, const rows::Analysis &analysis, Emit &emit, Type element)
    : op_(op), analysis_(analysis), emit_(emit), element_(element), slots_(Emit::shape(op.getSlots())[0]) {
  for (auto [argument, input] : llvm::zip(op.getBody().front().getArguments(), op.getInputs())) {
    outside_.map(argument, input);
  }
  for (const Cut &cut : analysis.cuts()) {
    cuts_[cut.op] = &cut;
  }
}

const Cut *PerRow::cutOf(Operation *op) const { return op ? cuts_.lookup(op) : nullptr; }

const Alignment &PerRow::rowsOf(const Cut &cut) const {
  auto found = llvm::find_if(cut.operands, [](const rows::Fact &fact) { return fact.isPerRow(); });
  return found->rows;
}

bool PerRow::isNarrow(Value value) {
  llvm::DenseSet<Operation *> seen;
  SmallVector<Value> todo = {value};
  while (!todo.empty()) {
    Value at = todo.pop_back_val();
    if (!Emit::element(at).isF32()) {
      return false;
    }
    Operation *op = at.getDefiningOp();
    if (!op || op->getParentOp() != op_.getOperation() || !seen.insert(op).second) {
      continue;
    }
    for (auto [k, operand] : llvm::enumerate(op->getOperands())) {
      if (!isa<PutOp>(op) || k != 1) { // row numbers
        todo.push_back(operand);
      }
    }
  }
  return true;
}

/// An alignment of those slots at a place of a shape.
static Alignment at(const Alignment &rows, ArrayRef<int64_t> shape, const rows::Place &place) {
  rows::Fact fact = rows::Fact::of(rows::Kind::PerRow);
  fact.rows = rows;
  return rows::perRowAt(fact, shape, place).rows;
}

Alignment PerRow::alignmentOf(const Cut &cut, unsigned operand) const {
  if (cut.operands[operand].isPerRow()) {
    return cut.operands[operand].rows;
  }
  const Alignment &rows = rowsOf(cut);
  ArrayRef<int64_t> shape = rows::shapeOf(cut.op->getOperand(operand));
  auto placeOf = [&](unsigned k) { return *rows::placeOf(cut.operands[k].rows, rows::shapeOf(cut.op->getOperand(k))); };
  if (auto dot = dyn_cast<DotOp>(cut.op)) {
    rows::Place place = placeOf(1 - operand);
    ArrayRef<int64_t> from = operand == 0 ? dot.getRhsContract() : dot.getLhsContract();
    ArrayRef<int64_t> to = operand == 0 ? dot.getLhsContract() : dot.getRhsContract();
    place.dim = to[static_cast<size_t>(llvm::find(from, place.dim) - from.begin())];
    return at(rows, shape, place);
  }
  if (auto put = dyn_cast<PutOp>(cut.op)) {
    // Between the row numbers [i] and the updates [before, i, after].
    rows::Place place = placeOf(operand == 2 ? 1 : 2);
    place.dim += operand == 2 ? put.getDim() : -put.getDim();
    return at(rows, shape, place);
  }
  return at(rows, shape, placeOf(1 - operand)); // the batch dim of a convolution
}

std::pair<Value, int64_t> PerRow::split(Value x, const Alignment &rows) {
  rows::Place place = *rows::placeOf(rows, Emit::shape(x));
  if (place.outer == 1 && place.inner == 1) {
    return {x, place.dim};
  }
  SmallVector<int64_t> sizes(Emit::shape(x));
  auto dim = sizes.begin() + place.dim;
  *dim = place.outer;
  sizes.insert(dim + 1, {rows.slots, place.inner});
  return {emit_.reshape(x, sizes), place.dim + 1};
}

Value PerRow::partOf(Value vector, const Alignment &rows) {
  if (Emit::shape(vector)[0] == rows.slots) {
    return vector;
  }
  auto type = RankedTensorType::get({rows.slots}, Emit::element(vector));
  if (rows.start) {
    return DynamicSliceOp::create(emit_.builder, emit_.location, type, vector, outside(rows.start),
                                  ArrayRef<int64_t>{0}, ArrayRef<int64_t>{rows.slots});
  }
  int64_t limit = rows.first + rows.step * (rows.slots - 1) + 1;
  return SliceOp::create(emit_.builder, emit_.location, type, vector, ArrayRef<int64_t>{rows.first},
                         ArrayRef<int64_t>{limit}, ArrayRef<int64_t>{rows.step});
}

Value PerRow::scaled(Value x, const Alignment &rows, Value factor, Value keep) {
  SmallVector<int64_t> shape(Emit::shape(x));
  auto [view, dim] = split(own(x), rows);
  SmallVector<int64_t> sizes(Emit::shape(view));
  if (factor) {
    view = emit_.mul(view, emit_.broadcast(partOf(own(factor), rows), sizes, {dim}));
  }
  Value kept = emit_.broadcast(partOf(keep, rows), sizes, {dim});
  return emit_.reshape(emit_.select(kept, view, zero()), shape);
}

Value PerRow::scaled(Value x, Value factor, Value keep) {
  SmallVector<int64_t> sizes(Emit::shape(x));
  Value view = own(x);
  if (factor) {
    view = emit_.mul(view, emit_.broadcast(own(factor), sizes, {0}));
  }
  return emit_.select(emit_.broadcast(keep, sizes, {0}), view, zero());
}

Value PerRow::sparse(Value x, const Alignment &rows, int64_t most) {
  SmallVector<int64_t> shape(Emit::shape(x)), others;
  auto [view, dim] = split(own(x), rows);
  SmallVector<int64_t> sizes(Emit::shape(view));
  for (int64_t other = 0; other < static_cast<int64_t>(sizes.size()); ++other) {
    if (other != dim) {
      others.push_back(other);
    }
  }
  Value count = emit_.sum(emit_.wide(emit_.compare("ne", view, zero())), others);
  Value kept = emit_.compare("le", count, emit_.constant(static_cast<double>(most)));
  return emit_.reshape(emit_.select(emit_.broadcast(kept, sizes, {dim}), view, zero()), shape);
}

Value PerRow::spread(Value x, const Alignment &rows) {
  if (rows.slots == slots_) {
    return x;
  }
  SmallVector<int64_t> sizes(Emit::shape(x)), zeros(sizes.size()), low(zeros), high(zeros), interior(zeros);
  if (rows.start) {
    sizes[0] = slots_;
    Value nothing = emit_.broadcast(emit_.constant(0, Emit::element(x)), sizes, {});
    return DynamicUpdateSliceOp::create(emit_.builder, emit_.location, nothing.getType(), nothing, x,
                                        outside(rows.start), ArrayRef<int64_t>{0});
  }
  low[0] = rows.first;
  interior[0] = rows.step - 1;
  high[0] = slots_ - 1 - rows.first - rows.step * (rows.slots - 1);
  sizes[0] = slots_;
  return PadOp::create(emit_.builder, emit_.location, RankedTensorType::get(sizes, Emit::element(x)), x,
                       emit_.constant(0, Emit::element(x)), low, high, interior);
}

/// Dim `dim` first, the others in order.
static Value toFront(Emit &emit, Value x, int64_t dim) {
  SmallVector<int64_t> perm = {dim};
  for (int64_t k = 0; k < static_cast<int64_t>(Emit::shape(x).size()); ++k) {
    if (k != dim) {
      perm.push_back(k);
    }
  }
  return emit.transpose(x, perm);
}

Value PerRow::matrices(const Cut &cut, unsigned operand) {
  auto dot = cast<DotOp>(cut.op);
  Value x = own(outside(cut.op->getOperand(operand)));
  ArrayRef<int64_t> batch = operand == 0 ? dot.getLhsBatch() : dot.getRhsBatch();
  ArrayRef<int64_t> contract = operand == 0 ? dot.getLhsContract() : dot.getRhsContract();
  Alignment rows = alignmentOf(cut, operand);
  rows::Place place = *rows::placeOf(rows, Emit::shape(x));
  bool isSplit = place.outer != 1 || place.inner != 1;
  auto [view, rowDim] = split(x, rows);
  // Dims of the operand as dims of the view: the one that holds the rows became three where it was split.
  auto moved = [&](int64_t dim) { return dim + (isSplit && dim > place.dim ? 2 : 0); };
  SmallVector<int64_t> perm = {rowDim};
  int64_t batches = 1, terms = 1, free = 1;
  auto append = [&](int64_t dim, int64_t &size) {
    perm.push_back(dim);
    size *= Emit::shape(view)[static_cast<size_t>(dim)];
  };
  for (int64_t dim : batch) {
    append(moved(dim), batches);
  }
  for (int64_t dim : contract) {
    if (dim != place.dim) {
      append(moved(dim), terms);
    } else if (isSplit) {
      append(place.dim, terms);
      append(place.dim + 2, terms);
    }
  }
  for (int64_t dim = 0; dim < static_cast<int64_t>(Emit::shape(x).size()); ++dim) {
    if (!llvm::is_contained(batch, dim) && !llvm::is_contained(contract, dim)) {
      append(moved(dim), free);
    }
  }
  return emit_.reshape(emit_.transpose(view, perm), {rows.slots, batches, terms, free});
}

Value PerRow::plainMatrices(const Cut &cut, unsigned operand) {
  Value x = matrices(cut, operand);
  ArrayRef<int64_t> sizes = Emit::shape(x);
  return emit_.reshape(x, {sizes[0], sizes[2], sizes[3]});
}

std::pair<Value, Value> PerRow::scatter(const Cut &cut) {
  auto put = cast<PutOp>(cut.op);
  Value index = outside(put.getI()), update = own(outside(put.getU()));
  Alignment rows = alignmentOf(cut, 1);
  auto [indexView, indexDim] = split(index, rows);
  index = toFront(emit_, indexView, indexDim);
  index = emit_.reshape(index, {rows.slots, Emit::numel(Emit::shape(index)) / rows.slots});
  // [before, i, after] to [i, before, after], the slots of i first.
  int64_t before = put.getDim(), rank = static_cast<int64_t>(rows::shapeOf(put.getI()).size());
  SmallVector<int64_t> perm;
  for (int64_t k = 0; k < rank; ++k) {
    perm.push_back(before + k);
  }
  for (int64_t k = 0; k < static_cast<int64_t>(Emit::shape(update).size()); ++k) {
    if (k < before || k >= before + rank) {
      perm.push_back(k);
    }
  }
  update = emit_.transpose(update, perm);
  rows::Place place = *rows::placeOf(rows, rows::shapeOf(put.getI()));
  auto [view, dim] = split(update, at(rows, Emit::shape(update), place));
  update = toFront(emit_, view, dim);
  int64_t terms = Emit::shape(index)[1];
  return {index, emit_.reshape(update, {rows.slots, terms, Emit::numel(Emit::shape(update)) / rows.slots / terms})};
}

/// The largest divisor of a size that is no more than 1024.
static int64_t lineOf(int64_t size) {
  int64_t line = std::min<int64_t>(size, 1024);
  while (size % line != 0) {
    --line;
  }
  return line;
}

Value PerRow::squares(Value x) {
  int64_t rows = Emit::shape(x)[0], size = std::max<int64_t>(1, Emit::numel(Emit::shape(x)) / rows),
          line = lineOf(size);
  if (!Emit::element(x).isF32() || (line < 16 && line < size)) {
    SmallVector<int64_t> dims;
    for (int64_t dim = 1; dim < static_cast<int64_t>(Emit::shape(x).size()); ++dim) {
      dims.push_back(dim);
    }
    x = emit_.wide(x);
    return emit_.sum(emit_.mul(x, x), dims);
  }
  // Short sums in f32; with what rounding and numbers too small for f32 may have taken.
  x = emit_.reshape(x, {rows, size / line, line});
  Value sums = emit_.sum(emit_.wide(emit_.sum(emit_.mul(x, x), {2})), {1});
  double lost = 2 * static_cast<double>(line + 2) * 0x1p-24, flushed = static_cast<double>(size) * 0x1p-125;
  return emit_.add(emit_.mul(sums, emit_.constant(1 + lost)), emit_.constant(flushed));
}

/// Slots first, everything else behind.
static Value flat(Emit &emit, PerRow &per, Value x, const Alignment &rows) {
  auto [view, dim] = per.split(emit.convert(x, per.element()), rows);
  Value front = toFront(emit, view, dim);
  return emit.reshape(front, {rows.slots, Emit::numel(Emit::shape(front)) / rows.slots});
}

Value PerRow::squaredMass(const Cut &cut) {
  auto terms = [&](double count) { return emit_.constant(count); };
  auto squaresOf = [&](unsigned operand) {
    return squares(flat(emit_, *this, outside(cut.op->getOperand(operand)), alignmentOf(cut, operand)));
  };
  // By Cauchy's inequality, over the terms of a row.
  Value mass;
  switch (cut.form) {
  case CutForm::ReduceSum: mass = emit_.mul(squaresOf(0), terms(static_cast<double>(cut.tokens))); break;
  case CutForm::Dot: mass = emit_.mul(squaresOf(0), squaresOf(1)); break;
  case CutForm::ConvGradWeight: {
    double taps = static_cast<double>(Emit::numel(rows::shapeOf(cut.op->getResult(0)).drop_front(2)));
    mass = emit_.mul(emit_.mul(squaresOf(0), squaresOf(1)), terms(taps));
    break;
  }
  case CutForm::Put: mass = emit_.mul(squares(scatter(cut).second), terms(static_cast<double>(cut.tokens))); break;
  }
  return spread(mass, rowsOf(cut));
}

Value PerRow::blocks(const Cut &cut) {
  ArrayRef<int64_t> shape = rows::shapeOf(cut.op->getResult(0));
  const Alignment &rows = rowsOf(cut);
  SmallVector<int64_t> sizes = {rows.slots};
  llvm::append_range(sizes, shape);
  Value result;
  switch (cut.form) {
  case CutForm::ReduceSum: {
    auto reduce = cast<ReduceSumOp>(cut.op);
    Value x = own(outside(reduce.getX()));
    rows::Place place = *rows::placeOf(rows, Emit::shape(x));
    bool isSplit = place.outer != 1 || place.inner != 1;
    auto [view, rowDim] = split(x, rows);
    SmallVector<int64_t> dims;
    for (int64_t dim : reduce.getDims()) {
      if (dim != place.dim) {
        dims.push_back(dim + (isSplit && dim > place.dim ? 2 : 0));
      }
    }
    if (isSplit) {
      dims.append({place.dim, place.dim + 2});
    }
    llvm::sort(dims);
    int64_t before = llvm::count_if(dims, [&](int64_t dim) { return dim < rowDim; });
    result = toFront(emit_, emit_.sum(view, dims), rowDim - before);
    break;
  }
  case CutForm::Dot: result = emit_.dot(matrices(cut, 0), matrices(cut, 1), {0, 1}, {0, 1}, {2}, {2}); break;
  case CutForm::ConvGradWeight: {
    auto op = cast<ConvGradWeightOp>(cut.op);
    // Each image is a group of its own.
    auto grouped = [&](unsigned operand) {
      Value x = own(outside(cut.op->getOperand(operand)));
      SmallVector<int64_t> merged = {1, Emit::shape(x)[0] * Emit::shape(x)[1]};
      llvm::append_range(merged, Emit::shape(x).drop_front(2));
      return emit_.reshape(x, merged);
    };
    int64_t images = rows::shapeOf(op.getG())[0];
    SmallVector<int64_t> weights(shape);
    weights[0] *= images;
    Value each = ConvGradWeightOp::create(emit_.builder, emit_.location, RankedTensorType::get(weights, element_),
                                          grouped(0), grouped(1), op.getStride(), op.getPadding(), op.getDilation(),
                                          op.getGroups() * images);
    rows::Place place = *rows::placeOf(alignmentOf(cut, 0), rows::shapeOf(op.getG()));
    int64_t size = Emit::numel(shape);
    each = emit_.reshape(each, {place.outer, rows.slots, place.inner, size});
    result = emit_.sum(each, {0, 2});
    break;
  }
  case CutForm::Put: {
    auto put = cast<PutOp>(cut.op);
    auto [index, update] = scatter(cut);
    int64_t width = Emit::shape(update)[2], terms = Emit::shape(index)[1];
    ArrayRef<int64_t> target = rows::shapeOf(put.getX());
    auto dim = static_cast<size_t>(put.getDim());
    int64_t places = target[dim];
    // Row s writes at s * places + index where the index is in range, else nowhere.
    Value wideIndex = emit_.convert(index, emit_.builder.getI64Type());
    Value first = emit_.constant(0, emit_.builder.getI64Type());
    Value inRange = emit_.both(
        emit_.compare("ge", wideIndex, first),
        emit_.compare("lt", wideIndex, emit_.constant(static_cast<double>(places), emit_.builder.getI64Type())));
    Value slot = IotaOp::create(emit_.builder, emit_.location,
                                RankedTensorType::get({rows.slots, terms}, emit_.builder.getI64Type()), 0);
    Value position =
        emit_.add(emit_.mul(slot, emit_.constant(static_cast<double>(places), emit_.builder.getI64Type())), wideIndex);
    position = emit_.select(inRange, position, emit_.constant(-1, emit_.builder.getI64Type()));
    Value zeros = emit_.broadcast(zero(), {rows.slots * places, width}, {});
    Value sums = PutOp::create(emit_.builder, emit_.location, zeros.getType(), zeros, position, update, 0, "add");
    // [slots, places, before, after] to [slots, before, places, after].
    int64_t before = Emit::numel(target.take_front(dim)), after = Emit::numel(target.drop_front(dim + 1));
    result = emit_.transpose(emit_.reshape(sums, {rows.slots, places, before, after}), {0, 2, 1, 3});
    break;
  }
  }
  return spread(emit_.reshape(result, sizes), rows);
}

Value PerRow::blocks(Value value) {
  if (Value known = blocksOf_.lookup(value)) {
    return known;
  }
  Operation *op = value.getDefiningOp();
  Value result;
  auto withSlots = [&](ArrayRef<int64_t> shape) {
    SmallVector<int64_t> sizes = {slots_};
    llvm::append_range(sizes, shape);
    return sizes;
  };
  if (const Cut *cut = cutOf(op)) {
    result = blocks(*cut);
  } else if (!op || op->getParentOp() != op_.getOperation() || !analysis_.factOf(value).isSum()) {
    // A zero, the same for every row.
    Value nothing = own(outside(value));
    SmallVector<int64_t> dims;
    for (size_t k = 0; k < Emit::shape(nothing).size(); ++k) {
      dims.push_back(static_cast<int64_t>(k) + 1);
    }
    result = emit_.broadcast(nothing, withSlots(Emit::shape(nothing)), dims);
  } else {
    SmallVector<int64_t> sizes = withSlots(rows::shapeOf(value));
    auto type = RankedTensorType::get(sizes, element_);
    auto plusOne = [](ArrayRef<int64_t> list, int64_t first) {
      SmallVector<int64_t> all = {first};
      llvm::append_range(all, list);
      return all;
    };
    auto at = [&](unsigned k) {
      Value x = blocks(op->getOperand(k));
      // A splat of the region is one number per slot.
      return Emit::shape(x).size() == 1 && sizes.size() > 1 ? emit_.broadcast(x, sizes, {0}) : x;
    };
    OpBuilder &builder = emit_.builder;
    Location location = emit_.location;
    result = TypeSwitch<Operation *, Value>(op)
                 .Case<ConvertOp>([&](auto) { return blocks(op->getOperand(0)); })
                 .Case<NegOp>([&](auto) { return NegOp::create(builder, location, type, at(0)); })
                 .Case<AddOp>([&](auto) { return AddOp::create(builder, location, type, at(0), at(1)); })
                 .Case<SubOp>([&](auto) { return SubOp::create(builder, location, type, at(0), at(1)); })
                 .Case<ReshapeOp>([&](auto) { return emit_.reshape(blocks(op->getOperand(0)), sizes); })
                 .Case<TransposeOp>([&](TransposeOp transpose) {
                   SmallVector<int64_t> perm = {0};
                   for (int64_t dim : transpose.getPerm()) {
                     perm.push_back(dim + 1);
                   }
                   return emit_.transpose(blocks(op->getOperand(0)), perm);
                 })
                 .Case<ConcatOp>([&](ConcatOp concat) {
                   SmallVector<Value> parts;
                   for (Value part : concat.getInputs()) {
                     parts.push_back(blocks(part));
                   }
                   return emit_.concat(parts, concat.getDim() + 1);
                 })
                 .Case<SliceOp>([&](SliceOp slice) {
                   return SliceOp::create(builder, location, type, blocks(slice.getX()), plusOne(slice.getStart(), 0),
                                          plusOne(slice.getLimit(), slots_), plusOne(slice.getStride(), 1));
                 })
                 .Case<PadOp>([&](PadOp pad) {
                   return PadOp::create(builder, location, type, blocks(pad.getX()), zero(), plusOne(pad.getLow(), 0),
                                        plusOne(pad.getHigh(), 0), plusOne(pad.getInterior(), 0));
                 })
                 .Case<PutOp>([&](PutOp put) {
                   return PutOp::create(builder, location, type, blocks(put.getX()), outside(put.getI()),
                                        blocks(put.getU()), put.getDim() + 1, "add");
                 });
  }
  blocksOf_[value] = result;
  return result;
}
