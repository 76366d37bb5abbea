// SPDX-License-Identifier: Apache-2.0
// MLIR types to the program's element types and back.
#pragma once
#include "runtime/Tensor.h"
#include "mlir/IR/BuiltinTypes.h"
#include <optional>

namespace sojourn::runtime {

std::optional<Element> elementOf(mlir::Type type);
mlir::Type typeOf(mlir::MLIRContext *context, Element element);
/// nullopt unless `type` is a ranked tensor of static shape over a known element.
std::optional<TensorType> tensorTypeOf(mlir::Type type);
/// Element and sizes of one entry of a table's column (a plain number has none); nullopt unless known.
std::optional<TensorType> entryTypeOf(mlir::Type column);
/// Bits of a float attribute's value, as the format stores it (IEEE float64).
uint64_t bitsOfReal(const llvm::APFloat &value);

} // namespace sojourn::runtime
