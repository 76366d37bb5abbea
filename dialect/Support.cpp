// SPDX-License-Identifier: Apache-2.0
// Bounds and shape arithmetic (see Support.h), and the shape checks that traits share.
#include "dialect/Dialect.h"

using namespace mlir;
using namespace sojourn;

std::optional<int64_t> sojourn::checkedNumel(ArrayRef<int64_t> shape) {
  int64_t numel = 1;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0 || size > kMaxElements) {
      return std::nullopt;
    }
    if (size == 0) {
      empty = true;
      continue;
    }
    // The other sizes must be bounded too, even when the tensor is empty: kernels multiply them.
    if (numel > kMaxElements / size) {
      return std::nullopt;
    }
    numel *= size;
  }
  return empty ? 0 : numel;
}

bool sojourn::isCoreElement(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type)) {
    return complex.getElementType().isF32() || complex.getElementType().isF64();
  }
  return type.isSignlessInteger(1) || type.isUnsignedInteger(8) || type.isSignlessInteger(8) ||
         type.isSignlessInteger(16) || type.isSignlessInteger(32) || type.isSignlessInteger(64) || type.isF16() ||
         type.isBF16() || type.isF32() || type.isF64();
}

bool sojourn::isRankZero(Type type, unsigned integerWidth) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 0 && !tensor.getEncoding() &&
         tensor.getElementType().isSignlessInteger(integerWidth);
}

bool sojourn::isScalarOf(Type type, unsigned integerWidth) {
  auto scalar = dyn_cast<ScalarType>(type);
  return scalar && scalar.getElementType().isSignlessInteger(integerWidth);
}

std::optional<int64_t> sojourn::windowOutput(int64_t size, int64_t window, int64_t stride, int64_t padding,
                                             int64_t dilation) {
  auto bounded = [](int64_t value, int64_t low) { return value >= low && value <= kMaxElements; };
  if (!bounded(size, 0) || !bounded(window, 1) || !bounded(stride, 1) || !bounded(padding, 0) ||
      !bounded(dilation, 1) || (window - 1) > kMaxElements / dilation) {
    return std::nullopt;
  }
  int64_t span = size + 2 * padding - dilation * (window - 1) - 1;
  if (span < 0) {
    return std::nullopt;
  }
  return span / stride + 1;
}

LogicalResult sojourn::detail::verifyCoreTensors(Operation *op) {
  auto check = [&](Type type, StringRef what, unsigned index) -> LogicalResult {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor) {
      return success();
    }
    if (tensor.getEncoding()) {
      return op->emitOpError() << what << " #" << index << " has type " << type
                               << ", expected a tensor without encoding";
    }
    if (tensor.getRank() > kMaxRank) {
      return op->emitOpError() << what << " #" << index << " has rank " << tensor.getRank() << ", expected at most "
                               << kMaxRank;
    }
    if (!checkedNumel(tensor.getShape())) {
      return op->emitOpError() << what << " #" << index << " has type " << type << ", expected at most 2^40 elements";
    }
    return success();
  };
  for (auto [index, type] : llvm::enumerate(op->getOperandTypes())) {
    if (failed(check(type, "operand", index))) {
      return failure();
    }
  }
  for (auto [index, type] : llvm::enumerate(op->getResultTypes())) {
    if (failed(check(type, "result", index))) {
      return failure();
    }
  }
  return success();
}
