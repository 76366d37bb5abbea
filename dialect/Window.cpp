// SPDX-License-Identifier: Apache-2.0
// Pooling: result shapes; no window may lie wholly in the padding of pool_max.
#include "dialect/Families.h"
#include "dialect/WindowOps.h"
#include "dialect/rows/Rules.h"

using namespace mlir;
using namespace sojourn;

template <typename Adaptor>
static FailureOr<RankedTensorType> inferPool(std::optional<Location> location, Adaptor adaptor, bool needsElement) {
  auto x = dyn_cast<RankedTensorType>(adaptor.getX().getType());
  if (!x || !checkedNumel(x.getShape()) || x.getRank() < 3 || x.getRank() > 5) {
    return emitOptionalError(location, "x has type ", adaptor.getX().getType(),
                             ", expected [N, C, spatial] with 1 to 3 spatial dims");
  }
  size_t spatial = static_cast<size_t>(x.getRank()) - 2;
  for (ArrayRef<int64_t> list :
       {adaptor.getWindow(), adaptor.getStride(), adaptor.getPadding(), adaptor.getDilation()}) {
    if (list.size() != spatial) {
      return emitOptionalError(location, "window, stride, padding or dilation has ", list.size(), " entries, expected ",
                               spatial, ", the number of spatial dims");
    }
  }
  SmallVector<int64_t> shape(x.getShape().take_front(2));
  for (size_t i = 0; i < spatial; ++i) {
    int64_t size = x.getDimSize(static_cast<unsigned>(i + 2));
    int64_t window = adaptor.getWindow()[i];
    int64_t stride = adaptor.getStride()[i];
    int64_t padding = adaptor.getPadding()[i];
    int64_t dilation = adaptor.getDilation()[i];
    std::optional<int64_t> out = windowOutput(size, window, stride, padding, dilation);
    if (!out) {
      return emitOptionalError(location, "spatial dim ", i, " of size ", size, " with window ", window, ", stride ",
                               stride, ", padding ", padding, ", dilation ", dilation,
                               ", expected positive numbers and a window that fits");
    }
    // With these two every window touches an element, so the largest one and its index exist.
    if (needsElement && (2 * padding > dilation * (window - 1) + 1 || (padding > 0 && size < dilation))) {
      return emitOptionalError(location, "spatial dim ", i, " of size ", size, " has padding ", padding,
                               ", expected at most half of the window and no dilation above the size");
    }
    shape.push_back(*out);
  }
  return RankedTensorType::get(shape, x.getElementType());
}

LogicalResult PoolSumOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                          SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> type = inferPool(location, adaptor, /*needsElement=*/false);
  if (failed(type)) {
    return failure();
  }
  results.push_back(*type);
  return success();
}

LogicalResult PoolMaxOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                          SmallVectorImpl<Type> &results) {
  FailureOr<RankedTensorType> type = inferPool(location, adaptor, /*needsElement=*/true);
  if (failed(type)) {
    return failure();
  }
  results.push_back(*type);
  results.push_back(type->clone(IntegerType::get(context, 64)));
  return success();
}

#define GET_OP_CLASSES
#include "dialect/WindowOps.cpp.inc"

void sojourn::detail::registerWindowOps(SojournDialect &dialect) {
  dialect.add<
#define GET_OP_LIST
#include "dialect/WindowOps.cpp.inc"
      >();
}
