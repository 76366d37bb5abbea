// SPDX-License-Identifier: Apache-2.0
// Reductions, scans and sorting: result shapes and verifiers.
#include "dialect/Bounds.h"
#include "dialect/Families.h"
#include "dialect/ReductionOps.h"
#include "dialect/rows/Rules.h"

using namespace mlir;
using namespace sojourn;

static FailureOr<RankedTensorType> staticTensor(std::optional<Location> location, Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  if (!tensor || !checkedNumel(tensor.getShape())) {
    return emitOptionalError(location, "operand has type ", value.getType(),
                             ", expected a tensor of static shape and at most ", boundText(bounds::kValueElements),
                             " elements");
  }
  return tensor;
}

static LogicalResult inferReduce(std::optional<Location> location, Value x, ArrayRef<int64_t> dims, bool needsElements,
                                 SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> type = staticTensor(location, x);
  if (failed(type)) {
    return failure();
  }
  SmallVector<int64_t> shape;
  size_t next = 0;
  for (int64_t dim = 0; dim < type->getRank(); ++dim) {
    int64_t size = type->getDimSize(static_cast<unsigned>(dim));
    if (next < dims.size() && dims[next] == dim) {
      ++next;
      if (needsElements && size == 0) {
        return emitOptionalError(location, "reduces dim ", dim, " of ", *type, ", expected at least one element");
      }
    } else {
      shape.push_back(size);
    }
  }
  if (next != dims.size()) {
    return emitOptionalError(location, "dims has ", dims[next], " at position ", next,
                             ", expected strictly increasing dims in [0, ", type->getRank(), ")");
  }
  results.push_back(RankedTensorType::get(shape, type->getElementType()));
  return success();
}

#define SOJOURN_INFER_REDUCE(OpType, needsElements)                                                                    \
  LogicalResult OpType::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,      \
                                         SmallVectorImpl<Type> &results) {                                             \
    return inferReduce(location, adaptor.getX(), adaptor.getDims(), needsElements, results);                           \
  }
SOJOURN_INFER_REDUCE(ReduceSumOp, false)
SOJOURN_INFER_REDUCE(ReduceProdOp, false)
SOJOURN_INFER_REDUCE(ReduceMaxOp, true)
SOJOURN_INFER_REDUCE(ReduceMinOp, true)
#undef SOJOURN_INFER_REDUCE

static LogicalResult inferArg(MLIRContext *context, std::optional<Location> location, Value x, int64_t dim,
                              SmallVectorImpl<Type> &results) {
  SmallVector<Type> reduced;
  auto type = dyn_cast<RankedTensorType>(x.getType());
  if (type && (dim < 0 || dim >= type.getRank())) {
    return emitOptionalError(location, "dim is ", dim, ", expected one in [0, ", type.getRank(), ")");
  }
  if (failed(inferReduce(location, x, dim, /*needsElements=*/true, reduced))) {
    return failure();
  }
  results.push_back(cast<RankedTensorType>(reduced.front()).clone(IntegerType::get(context, 64)));
  return success();
}

LogicalResult ArgMaxOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  return inferArg(context, location, adaptor.getX(), adaptor.getDim(), results);
}

LogicalResult ArgMinOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  return inferArg(context, location, adaptor.getX(), adaptor.getDim(), results);
}

template <typename OpType>
static LogicalResult verifyScan(OpType op) {
  int64_t rank = op.getX().getType().getRank();
  if (op.getDim() < 0 || op.getDim() >= rank) {
    return op.emitOpError() << "dim is " << op.getDim() << ", expected one in [0, " << rank << ")";
  }
  return success();
}

LogicalResult CumSumOp::verify() { return verifyScan(*this); }
LogicalResult CumProdOp::verify() { return verifyScan(*this); }
LogicalResult CumMaxOp::verify() { return verifyScan(*this); }
LogicalResult CumMinOp::verify() { return verifyScan(*this); }
LogicalResult CumLogSumExpOp::verify() { return verifyScan(*this); }

static LogicalResult inferSorted(MLIRContext *context, std::optional<Location> location, Value x, int64_t dim,
                                 std::optional<int64_t> k, SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> type = staticTensor(location, x);
  if (failed(type)) {
    return failure();
  }
  if (dim < 0 || dim >= type->getRank()) {
    return emitOptionalError(location, "dim is ", dim, ", expected one in [0, ", type->getRank(), ")");
  }
  SmallVector<int64_t> shape(type->getShape());
  if (k) {
    if (*k < 0 || *k > shape[dim]) {
      return emitOptionalError(location, "k is ", *k, ", expected one in [0, ", shape[dim], "]");
    }
    shape[dim] = *k;
  }
  results.push_back(RankedTensorType::get(shape, type->getElementType()));
  results.push_back(RankedTensorType::get(shape, IntegerType::get(context, 64)));
  return success();
}

LogicalResult SortOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                       SmallVectorImpl<Type> &results) {
  return inferSorted(context, location, adaptor.getX(), adaptor.getDim(), std::nullopt, results);
}

LogicalResult TopKOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                       SmallVectorImpl<Type> &results) {
  return inferSorted(context, location, adaptor.getX(), adaptor.getDim(), adaptor.getK(), results);
}

#define GET_OP_CLASSES
#include "dialect/ReductionOps.cpp.inc"

void sojourn::detail::registerReductionOps(SojournDialect &dialect) {
  dialect.add<
#define GET_OP_LIST
#include "dialect/ReductionOps.cpp.inc"
      >();
}
