// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms: result types.
#include "dialect/Bounds.h"
#include "dialect/ContractionOps.h"

#include "llvm/ADT/SmallBitVector.h"

#include <limits>

using namespace mlir;
using namespace sojourn;

/// An operand whose `dims` can be transformed.
static FailureOr<RankedTensorType> transformed(std::optional<Location> location, Type type, ArrayRef<int64_t> dims) {
  auto x = dyn_cast<RankedTensorType>(type);
  if (!x || !checkedNumel(x.getShape())) {
    return emitOptionalError(location, "operand has type ", type, ", expected a tensor of static shape and at most ",
                             boundText(bounds::kValueElements), " elements");
  }
  llvm::SmallBitVector seen(static_cast<unsigned>(x.getRank()));
  for (int64_t dim : dims) {
    if (dim < 0 || dim >= x.getRank() || seen.test(static_cast<unsigned>(dim))) {
      return emitOptionalError(location, "dims are [", dims, "], expected distinct dims in [0, ", x.getRank(), ")");
    }
    seen.set(static_cast<unsigned>(dim));
    int64_t size = x.getDimSize(static_cast<unsigned>(dim));
    if (size < 1 || size > std::numeric_limits<int32_t>::max()) {
      return emitOptionalError(location, "dim ", dim, " of ", x, " has size ", size, ", expected one in [1, 2^31)");
    }
  }
  if (dims.empty()) {
    return emitOptionalError(location, "dims are empty, expected at least one");
  }
  return x;
}

static RankedTensorType resized(RankedTensorType x, int64_t dim, int64_t size, Type element) {
  SmallVector<int64_t> shape(x.getShape());
  shape[static_cast<size_t>(dim)] = size;
  return RankedTensorType::get(shape, element);
}

LogicalResult FftC2cOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> x = transformed(location, adaptor.getX().getType(), adaptor.getDims());
  if (failed(x)) {
    return failure();
  }
  results.push_back(*x);
  return success();
}

LogicalResult FftR2cOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> x = transformed(location, adaptor.getX().getType(), adaptor.getDims());
  if (failed(x)) {
    return failure();
  }
  int64_t last = adaptor.getDims().back();
  results.push_back(
      resized(*x, last, x->getDimSize(static_cast<unsigned>(last)) / 2 + 1, ComplexType::get(x->getElementType())));
  return success();
}

LogicalResult FftC2rOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> x = transformed(location, adaptor.getX().getType(), adaptor.getDims());
  if (failed(x)) {
    return failure();
  }
  auto complex = dyn_cast<ComplexType>(x->getElementType());
  if (!complex) {
    return emitOptionalError(location, "operand has type ", adaptor.getX().getType(), ", expected complex elements");
  }
  int64_t last = adaptor.getDims().back(), size = adaptor.getSize();
  int64_t entries = x->getDimSize(static_cast<unsigned>(last));
  if (size < 1 || size / 2 + 1 != entries) {
    return emitOptionalError(location, "size is ", size, ", expected ", 2 * entries - 2, " or ", 2 * entries - 1,
                             " for the ", entries, " entries of dim ", last);
  }
  results.push_back(resized(*x, last, size, complex.getElementType()));
  return success();
}
