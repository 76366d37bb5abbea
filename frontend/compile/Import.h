// SPDX-License-Identifier: Apache-2.0
// Trace -> `sojourn` module in captured form. MLIR only: the recorder (torch only) and this file
// meet at Trace.h.
#ifndef SOJOURN_FRONTEND_COMPILE_IMPORT_H
#define SOJOURN_FRONTEND_COMPILE_IMPORT_H

#include "frontend/recording/Trace.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>
#include <vector>

namespace sojourn::frontend {

/// Source lines of one op record.
struct OpLines {
  SourceLine here, forward; ///< empty files where unknown
};

/// The lines of every op record. Asks the interpreter: no lock may be held.
std::vector<OpLines> resolveLines(const Trace &trace);

/// `trace` must be finished (last record: Outputs). Never fails on what the recorder writes. Without
/// `lines`, ops are located by the position of their record (`recordAt` reads it back).
mlir::OwningOpRef<mlir::ModuleOp> importTrace(mlir::MLIRContext &context, const Trace &trace,
                                              const std::vector<OpLines> *lines);
std::optional<size_t> recordAt(mlir::Location location);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_COMPILE_IMPORT_H
