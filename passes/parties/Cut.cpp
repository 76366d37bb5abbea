// SPDX-License-Identifier: Apache-2.0
#include "passes/parties/Cut.h"

#include "dialect/ContractionOps.h"
#include "dialect/IndexOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/rows/Support.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sojourn;
using namespace sojourn::parties;

RankedTensorType parties::cutType(RankedTensorType type, const rows::Place &place, const Segments &segments,
                                  unsigned role) {
  SmallVector<int64_t> shape(type.getShape());
  shape[static_cast<size_t>(place.dim)] = place.outer * rowsAt(segments, role) * place.inner;
  return type.clone(shape);
}

/// The first operand in parts; there is one.
static unsigned rowsOfOp(Operation *op, const Placement &placement) {
  auto *found = llvm::find_if(op->getOpOperands(),
                              [&](OpOperand &operand) { return placement.whereOf(operand.get()).isParts(); });
  return found->getOperandNumber();
}

/// The rows' dim in the other operand of a product, where both have it.
static std::optional<rows::Place> placeInProduct(DotOp dot, bool isLeft, rows::Place place) {
  auto [batch, otherBatch] =
      isLeft ? std::pair(dot.getLhsBatch(), dot.getRhsBatch()) : std::pair(dot.getRhsBatch(), dot.getLhsBatch());
  auto [contract, otherContract] = isLeft ? std::pair(dot.getLhsContract(), dot.getRhsContract())
                                          : std::pair(dot.getRhsContract(), dot.getLhsContract());
  for (auto [own, other] : {std::pair(batch, otherBatch), std::pair(contract, otherContract)}) {
    if (const auto *found = llvm::find(own, place.dim); found != own.end()) {
      place.dim = other[static_cast<size_t>(found - own.begin())];
      return place;
    }
  }
  return std::nullopt;
}

/// Rows are added at places: index and update have them along the same dims.
static std::optional<rows::Place> placeInPut(PutOp put, unsigned operand, unsigned ofRows, rows::Place place) {
  enum : unsigned { X, Index, Update };
  const int64_t dim = put.getDim(), indexRank = static_cast<int64_t>(rows::shapeOf(put.getI()).size());
  if (ofRows == Index) {
    place.dim += dim;
    return operand == Update ? std::optional(place) : std::nullopt;
  }
  if (ofRows == Update && place.dim >= dim && place.dim < dim + indexRank) {
    place.dim -= dim;
    return operand == Index ? std::optional(place) : std::nullopt;
  }
  if (operand == Index) {
    return std::nullopt; // the same places in each row
  }
  if (ofRows == Update && place.dim >= dim + indexRank) {
    place.dim -= indexRank - 1;
  } else if (ofRows == X && place.dim > dim) {
    place.dim += indexRank - 1;
  }
  return place;
}

std::optional<rows::Place> parties::placeOfKnown(Operation *op, unsigned operand, const Placement &placement) {
  if (rows::shapeOf(op->getOperand(operand)).empty()) {
    return std::nullopt;
  }
  const unsigned ofRows = rowsOfOp(op, placement);
  Value rows = op->getOperand(ofRows);
  const rows::Place place = *placeOf(placement.whereOf(rows), rows::shapeOf(rows));
  if (auto dot = dyn_cast<DotOp>(op)) {
    return placeInProduct(dot, ofRows == 0, place);
  }
  if (auto put = dyn_cast<PutOp>(op)) {
    return placeInPut(put, operand, ofRows, place);
  }
  // Weights of a convolution, and what is looked up or where, are the same for each row.
  if (isa<ConvOp, ConvGradInputOp, TakeOp>(op)) {
    return std::nullopt;
  }
  return place; // both operands have the rows' dim, of one size
}

Value parties::sliced(OpBuilder &builder, Location location, Value value, ArrayRef<int64_t> start,
                      ArrayRef<int64_t> limit, ArrayRef<int64_t> stride) {
  SmallVector<int64_t> shape;
  for (auto [from, to, step] : llvm::zip(start, limit, stride)) {
    shape.push_back(static_cast<int64_t>(llvm::divideCeil(to - from, step)));
  }
  RankedTensorType type = cast<RankedTensorType>(value.getType()).clone(shape);
  return SliceOp::create(builder, location, type, value, start, limit, stride);
}

Value parties::joined(OpBuilder &builder, Location location, ArrayRef<Value> values, int64_t dim) {
  if (values.size() == 1) {
    return values.front();
  }
  SmallVector<int64_t> shape(rows::shapeOf(values.front()));
  for (Value value : values.drop_front()) {
    shape[static_cast<size_t>(dim)] += rows::shapeOf(value)[static_cast<size_t>(dim)];
  }
  RankedTensorType type = cast<RankedTensorType>(values.front().getType()).clone(shape);
  return ConcatOp::create(builder, location, type, values, dim);
}

/// A value that repeats along the rows' dim repeats along the role's rows.
static Value cutBroadcast(OpBuilder &builder, Location location, Value value, const rows::Place &place,
                          RankedTensorType type) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast) {
    return {};
  }
  const auto *from = llvm::find(broadcast.getDims(), place.dim);
  if (from != broadcast.getDims().end() &&
      rows::shapeOf(broadcast.getX())[static_cast<size_t>(from - broadcast.getDims().begin())] != 1) {
    return {};
  }
  return BroadcastOp::create(builder, location, type, broadcast.getX(), broadcast.getDimsAttr());
}

Value parties::cutKnown(OpBuilder &builder, Location location, Value value, const rows::Place &place,
                        const Segments &segments, unsigned role) {
  auto type = cast<RankedTensorType>(value.getType());
  RankedTensorType ownType = cutType(type, place, segments, role);
  if (Value broadcast = cutBroadcast(builder, location, value, place, ownType)) {
    return broadcast;
  }
  // [before and outer, rows, inner and after]
  const auto dim = static_cast<size_t>(place.dim);
  int64_t before = place.outer, after = place.inner, rows = rowsOf(segments);
  for (auto [at, size] : llvm::enumerate(type.getShape())) {
    before *= at < dim ? size : 1;
    after *= at > dim ? size : 1;
  }
  Value flat = ReshapeOp::create(builder, location, type.clone({before, rows, after}), value);
  SmallVector<Value> taken;
  auto take = [&](int64_t begin, int64_t end) {
    taken.push_back(sliced(builder, location, flat, {0, begin, 0}, {before, end, after}, {1, 1, 1}));
  };
  int64_t begin = 0;
  for (const Segment &segment : segments) {
    if (segment.role == role) {
      take(begin, begin + segment.rows);
    }
    begin += segment.rows;
  }
  if (taken.empty()) {
    take(0, 0);
  }
  return ReshapeOp::create(builder, location, ownType, joined(builder, location, taken, 1));
}
