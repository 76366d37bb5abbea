// SPDX-License-Identifier: Apache-2.0
// MLIR types to the program's types.
#include "runtime/Types.h"

namespace sojourn::runtime {

std::optional<TensorType> tensorTypeOf(mlir::Type type) {
  auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || tensor.getEncoding()) {
    return std::nullopt;
  }
  std::optional<Element> element = elementOf(tensor.getElementType());
  if (!element) {
    return std::nullopt;
  }
  TensorType result;
  result.element = *element;
  result.dims.assign(tensor.getShape().begin(), tensor.getShape().end());
  return result;
}

std::optional<TensorType> entryTypeOf(mlir::Type column) {
  if (std::optional<TensorType> entry = tensorTypeOf(column)) {
    return entry;
  }
  std::optional<Element> element = elementOf(column);
  return element ? std::optional(TensorType{*element, {}}) : std::nullopt;
}

uint64_t bitsOfReal(const llvm::APFloat &value) {
  llvm::APFloat wide = value;
  bool lossy = false;
  wide.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return wide.bitcastToAPInt().getZExtValue();
}

} // namespace sojourn::runtime
