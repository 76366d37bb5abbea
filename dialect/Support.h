// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic that cannot overflow: the owner runs these on hostile programs.
#ifndef SOJOURN_DIALECT_SUPPORT_H
#define SOJOURN_DIALECT_SUPPORT_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace sojourn {

/// Bytes of an element in memory: a boolean takes one, a complex number those of both parts. 0 for what is no number.
int64_t elementBytes(mlir::Type element);

/// Product of the sizes; nullopt for a negative size or a product above `most`, in which sizes of 0 count as 1.
std::optional<int64_t> checkedNumel(llvm::ArrayRef<int64_t> shape, int64_t most);
/// Likewise, of a value: at most bounds::kValueElements.
std::optional<int64_t> checkedNumel(llvm::ArrayRef<int64_t> shape);

/// What a tensor exceeds of what the program format holds, as "expected at most ..."; empty where it fits. Its element
/// type is not looked at but for its width.
std::string outOfBounds(mlir::RankedTensorType tensor);
/// "2^32": a bound in a text; the exact number where it is no power of two.
std::string boundText(int64_t bound);

/// Whether the type is an element of core form.
bool isCoreElement(mlir::Type type);
/// Whether the type is !sojourn.unresolved.
bool isUnresolved(mlir::Type type);
/// Whether the type is a rank-0 tensor of signless integers of that width.
bool isRankZero(mlir::Type type, unsigned integerWidth);
/// Whether the type is !sojourn.scalar of a signless integer of that width.
bool isScalarOf(mlir::Type type, unsigned integerWidth);

/// Why the name is none of SpecialFunctions.def with so many operands; empty where it is one.
std::string unknownSpecial(llvm::StringRef function, unsigned arity);

/// Output size of a sliding window; nullopt when the attributes are out of range or the window does not fit.
std::optional<int64_t> windowOutput(int64_t size, int64_t window, int64_t stride, int64_t padding, int64_t dilation);

} // namespace sojourn

#endif // SOJOURN_DIALECT_SUPPORT_H
