// SPDX-License-Identifier: Apache-2.0
// Element types as MLIR spells them. The other conversions stand where torch and NumPy are known.
#ifndef SOJOURN_DIALECT_ELEMENTTYPES_H
#define SOJOURN_DIALECT_ELEMENTTYPES_H

#include "dialect/elements/Elements.h"

#include "mlir/IR/Types.h"

#include <optional>

namespace sojourn {

/// The element type of core form that an MLIR type is; nullopt where it is none (or null).
std::optional<Element> elementOf(mlir::Type type);
/// i1, ui8, i8 ... i64, f16, bf16, f32, f64, complex<f32>, complex<f64>.
mlir::Type typeOf(mlir::MLIRContext *context, Element element);

} // namespace sojourn

#endif // SOJOURN_DIALECT_ELEMENTTYPES_H
