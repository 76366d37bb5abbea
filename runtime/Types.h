// SPDX-License-Identifier: Apache-2.0
// MLIR types to the program's types.
#ifndef SOJOURN_RUNTIME_TYPES_H
#define SOJOURN_RUNTIME_TYPES_H
#include "dialect/ElementTypes.h"
#include "runtime/Tensor.h"
#include "mlir/IR/BuiltinTypes.h"
#include <optional>

namespace sojourn::runtime {

using sojourn::elementOf;
using sojourn::typeOf;
/// nullopt unless `type` is a ranked tensor of static shape over a known element.
std::optional<TensorType> tensorTypeOf(mlir::Type type);
/// Element and sizes of one entry of a table's column (a plain number has none); nullopt unless known.
std::optional<TensorType> entryTypeOf(mlir::Type column);
/// Bits of a float attribute's value, as the format stores it (IEEE float64).
uint64_t bitsOfReal(const llvm::APFloat &value);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_TYPES_H
