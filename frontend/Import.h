// SPDX-License-Identifier: Apache-2.0
// Trace -> `sojourn` module in captured form. MLIR only: the recorder (torch only) and this file
// meet at Trace.h.
#pragma once

#include "frontend/Trace.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace sojourn::frontend {

/// `trace` must be finished (last record: Outputs). Never fails on what the recorder writes.
mlir::OwningOpRef<mlir::ModuleOp> importTrace(mlir::MLIRContext &context, const Trace &trace);

} // namespace sojourn::frontend
