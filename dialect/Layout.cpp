// SPDX-License-Identifier: Apache-2.0
// Layout ops: result shapes and verifiers.
#include "dialect/Bounds.h"
#include "dialect/Families.h"
#include "dialect/LayoutOps.h"
#include "dialect/rows/Rules.h"

#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace sojourn;

/// The operand as a tensor that shape arithmetic may trust.
static FailureOr<RankedTensorType> staticTensor(std::optional<Location> location, Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  if (!tensor || !checkedNumel(tensor.getShape())) {
    return emitOptionalError(location, "operand has type ", value.getType(),
                             ", expected a tensor of static shape and at most ", boundText(bounds::kValueElements),
                             " elements");
  }
  return tensor;
}

static LogicalResult requireRank(std::optional<Location> location, StringRef name, ArrayRef<int64_t> list,
                                 int64_t rank) {
  if (static_cast<int64_t>(list.size()) != rank) {
    return emitOptionalError(location, name, " has ", list.size(), " entries, expected ", rank, ", the rank of x");
  }
  return success();
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType x = getX().getType();
  RankedTensorType result = getResult().getType();
  if (x.getElementType() != result.getElementType()) {
    return emitOpError() << "result has type " << result << ", expected element type " << x.getElementType();
  }
  if (failed(requireRank(getLoc(), "'sojourn.broadcast' op dims", getDims(), x.getRank()))) {
    return failure();
  }
  int64_t previous = -1;
  for (auto [index, dim] : llvm::enumerate(getDims())) {
    if (dim <= previous || dim >= result.getRank()) {
      return emitOpError() << "dims are [" << getDims() << "], expected strictly increasing dims in [0, "
                           << result.getRank() << ")";
    }
    previous = dim;
    int64_t size = x.getDimSize(static_cast<unsigned>(index));
    int64_t target = result.getDimSize(static_cast<unsigned>(dim));
    if (size != 1 && size != target) {
      return emitOpError() << "operand dim " << index << " has size " << size << " and result dim " << dim << " size "
                           << target << ", expected equal sizes or 1";
    }
  }
  return success();
}

LogicalResult ReshapeOp::verify() {
  RankedTensorType x = getX().getType();
  RankedTensorType result = getResult().getType();
  if (x.getElementType() != result.getElementType()) {
    return emitOpError() << "result has type " << result << ", expected element type " << x.getElementType();
  }
  std::optional<int64_t> from = checkedNumel(x.getShape());
  std::optional<int64_t> to = checkedNumel(result.getShape());
  if (!from || from != to) {
    return emitOpError() << "reshapes " << x << " to " << result << ", expected equal numbers of elements";
  }
  return success();
}

LogicalResult PartsOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                        SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> x = staticTensor(location, adaptor.getX());
  auto complex = succeeded(x) ? dyn_cast<ComplexType>(x->getElementType()) : ComplexType();
  if (!complex) {
    return emitOptionalError(location, "operand has type ", adaptor.getX().getType(), ", expected complex elements");
  }
  SmallVector<int64_t> shape(x->getShape());
  shape.push_back(2);
  results.push_back(RankedTensorType::get(shape, complex.getElementType()));
  return success();
}

LogicalResult ComplexOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                          SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> x = staticTensor(location, adaptor.getX());
  if (failed(x) || !isa<FloatType>(x->getElementType()) || x->getRank() == 0 || x->getShape().back() != 2) {
    return emitOptionalError(location, "operand has type ", adaptor.getX().getType(),
                             ", expected floats [..., 2], pairs of parts");
  }
  results.push_back(RankedTensorType::get(x->getShape().drop_back(), ComplexType::get(x->getElementType())));
  return success();
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                            SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> x = staticTensor(location, adaptor.getX());
  if (failed(x) || failed(requireRank(location, "perm", adaptor.getPerm(), x->getRank()))) {
    return failure();
  }
  llvm::SmallBitVector seen(static_cast<unsigned>(x->getRank()));
  SmallVector<int64_t> shape;
  for (int64_t dim : adaptor.getPerm()) {
    if (dim < 0 || dim >= x->getRank() || seen.test(static_cast<unsigned>(dim))) {
      return emitOptionalError(location, "perm has ", dim, ", expected a permutation of [0, ", x->getRank(), ")");
    }
    seen.set(static_cast<unsigned>(dim));
    shape.push_back(x->getDimSize(static_cast<unsigned>(dim)));
  }
  results.push_back(RankedTensorType::get(shape, x->getElementType()));
  return success();
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                        SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> x = staticTensor(location, adaptor.getX());
  if (failed(x) || failed(requireRank(location, "start", adaptor.getStart(), x->getRank())) ||
      failed(requireRank(location, "limit", adaptor.getLimit(), x->getRank())) ||
      failed(requireRank(location, "stride", adaptor.getStride(), x->getRank()))) {
    return failure();
  }
  SmallVector<int64_t> shape;
  for (auto [dim, size, start, limit, stride] :
       llvm::enumerate(x->getShape(), adaptor.getStart(), adaptor.getLimit(), adaptor.getStride())) {
    if (start < 0 || limit < start || limit > size || stride < 1) {
      return emitOptionalError(location, "dim ", dim, " of size ", size, " is sliced with start ", start, ", limit ",
                               limit, ", stride ", stride, ", expected 0 <= start <= limit <= size and stride >= 1");
    }
    shape.push_back(limit == start ? 0 : (limit - start - 1) / stride + 1);
  }
  results.push_back(RankedTensorType::get(shape, x->getElementType()));
  return success();
}

LogicalResult ReverseOp::verify() {
  int64_t rank = getX().getType().getRank();
  int64_t previous = -1;
  for (int64_t dim : getDims()) {
    if (dim <= previous || dim >= rank) {
      return emitOpError() << "dims are [" << getDims() << "], expected strictly increasing dims in [0, " << rank
                           << ")";
    }
    previous = dim;
  }
  return success();
}

LogicalResult UpdateSliceOp::verify() {
  RankedTensorType x = getX().getType();
  RankedTensorType u = getU().getType();
  if (u.getElementType() != x.getElementType() || u.getRank() != x.getRank()) {
    return emitOpError() << "u has type " << u << ", expected rank and element type of " << x;
  }
  int64_t rank = x.getRank();
  if (static_cast<int64_t>(getStart().size()) != rank || static_cast<int64_t>(getStride().size()) != rank) {
    return emitOpError() << "start has " << getStart().size() << " entries and stride " << getStride().size()
                         << ", expected " << rank << ", the rank of x";
  }
  for (auto [dim, size, count, start, stride] : llvm::enumerate(x.getShape(), u.getShape(), getStart(), getStride())) {
    // Written as a division: (count - 1) * stride could overflow.
    bool inside = start >= 0 && start <= size && stride >= 1 &&
                  (count == 0 || (start < size && (count - 1) <= (size - 1 - start) / stride));
    if (!inside) {
      return emitOpError() << "writes " << count << " elements from " << start << " with stride " << stride
                           << " in dim " << dim << " of size " << size << ", expected positions inside the dim";
    }
  }
  return success();
}

/// Dims that a start moves along: one each, strictly increasing.
static LogicalResult requireMoved(std::optional<Location> location, ArrayRef<int64_t> dims, size_t starts,
                                  int64_t rank) {
  int64_t previous = -1;
  for (int64_t dim : dims) {
    if (dim <= previous || dim >= rank) {
      return emitOptionalError(location, "dims are [", dims, "], expected strictly increasing dims in [0, ", rank, ")");
    }
    previous = dim;
  }
  if (dims.size() != starts) {
    return emitOptionalError(location, "found ", starts, " starts and ", dims.size(),
                             " dims, expected one start per dim");
  }
  return success();
}

LogicalResult DynamicSliceOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                               SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> x = staticTensor(location, adaptor.getX());
  if (failed(x) || failed(requireMoved(location, adaptor.getDims(), adaptor.getStarts().size(), x->getRank()))) {
    return failure();
  }
  if (adaptor.getSizes().size() != adaptor.getDims().size()) {
    return emitOptionalError(location, "sizes has ", adaptor.getSizes().size(), " entries, expected ",
                             adaptor.getDims().size(), ", one per dim of dims");
  }
  SmallVector<int64_t> shape(x->getShape());
  for (auto [dim, size] : llvm::zip(adaptor.getDims(), adaptor.getSizes())) {
    if (size < 0 || size > shape[dim]) {
      return emitOptionalError(location, "takes ", size, " elements along dim ", dim, " of size ", shape[dim],
                               ", expected at most its size");
    }
    shape[dim] = size;
  }
  results.push_back(RankedTensorType::get(shape, x->getElementType()));
  return success();
}

LogicalResult DynamicUpdateSliceOp::verify() {
  RankedTensorType x = getX().getType();
  RankedTensorType u = getU().getType();
  if (u.getElementType() != x.getElementType() || u.getRank() != x.getRank()) {
    return emitOpError() << "u has type " << u << ", expected rank and element type of " << x;
  }
  if (failed(requireMoved(getLoc(), getDims(), getStarts().size(), x.getRank()))) {
    return failure();
  }
  for (auto [dim, size, count] : llvm::enumerate(x.getShape(), u.getShape())) {
    bool moves = llvm::is_contained(getDims(), static_cast<int64_t>(dim));
    if (moves ? count > size : count != size) {
      return emitOpError() << "u has type " << u << ", expected " << (moves ? "at most " : "") << size
                           << " elements along dim " << dim;
    }
  }
  return success();
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  if (adaptor.getInputs().empty()) {
    return emitOptionalError(location, "found no operands, expected at least one");
  }
  FailureOr<RankedTensorType> first = staticTensor(location, adaptor.getInputs().front());
  if (failed(first)) {
    return failure();
  }
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= first->getRank()) {
    return emitOptionalError(location, "dim is ", dim, ", expected one in [0, ", first->getRank(), ")");
  }
  SmallVector<int64_t> shape(first->getShape());
  for (auto [index, input] : llvm::enumerate(adaptor.getInputs())) {
    FailureOr<RankedTensorType> type = staticTensor(location, input);
    if (failed(type)) {
      return failure();
    }
    if (index == 0) {
      continue;
    }
    bool fits = type->getElementType() == first->getElementType() && type->getRank() == first->getRank();
    for (int64_t i = 0; fits && i < first->getRank(); ++i) {
      fits = i == dim || type->getDimSize(static_cast<unsigned>(i)) == shape[i];
    }
    if (!fits) {
      return emitOptionalError(location, "operand #", index, " has type ", *type, ", expected ", *first,
                               " except along dim ", dim);
    }
    if (shape[dim] > bounds::kDimension) {
      return emitOptionalError(location, "dim ", dim, " of the result exceeds ", boundText(bounds::kDimension));
    }
    shape[dim] += type->getDimSize(static_cast<unsigned>(dim));
  }
  results.push_back(RankedTensorType::get(shape, first->getElementType()));
  return success();
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                      SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> x = staticTensor(location, adaptor.getX());
  FailureOr<RankedTensorType> value = staticTensor(location, adaptor.getValue());
  if (failed(x) || failed(value)) {
    return failure();
  }
  if (value->getRank() != 0 || value->getElementType() != x->getElementType()) {
    return emitOptionalError(location, "value has type ", *value, ", expected rank 0 and element type ",
                             x->getElementType());
  }
  if (failed(requireRank(location, "low", adaptor.getLow(), x->getRank())) ||
      failed(requireRank(location, "high", adaptor.getHigh(), x->getRank())) ||
      failed(requireRank(location, "interior", adaptor.getInterior(), x->getRank()))) {
    return failure();
  }
  SmallVector<int64_t> shape;
  for (auto [dim, size, low, high, interior] :
       llvm::enumerate(x->getShape(), adaptor.getLow(), adaptor.getHigh(), adaptor.getInterior())) {
    auto bounded = [](int64_t amount) { return amount >= -bounds::kDimension && amount <= bounds::kDimension; };
    int64_t between = 0;
    bool fits = bounded(low) && bounded(high) && interior >= 0 && bounded(interior) &&
                !__builtin_mul_overflow(size > 0 ? size - 1 : 0, interior, &between) && between <= bounds::kDimension;
    int64_t padded = fits ? size + between + low + high : -1;
    if (padded < 0) {
      return emitOptionalError(location, "dim ", dim, " of size ", size, " is padded with low ", low, ", high ", high,
                               ", interior ", interior, ", expected interior >= 0 and a result size in [0, ",
                               boundText(bounds::kDimension), "]");
    }
    shape.push_back(padded);
  }
  results.push_back(RankedTensorType::get(shape, x->getElementType()));
  return success();
}

#define GET_OP_CLASSES
#include "dialect/LayoutOps.cpp.inc"

void sojourn::detail::registerLayoutOps(SojournDialect &dialect) {
  dialect.add<
#define GET_OP_LIST
#include "dialect/LayoutOps.cpp.inc"
      >();
}
