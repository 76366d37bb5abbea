// SPDX-License-Identifier: Apache-2.0
// The op classes of RowOps.td.
#ifndef SOJOURN_DIALECT_ROWOPS_H
#define SOJOURN_DIALECT_ROWOPS_H

#include "dialect/Base.h"
#include "dialect/Part.h"

#define GET_OP_CLASSES
#include "dialect/RowOps.h.inc"

namespace sojourn {
/// Which part of its table the op draws of, from the table down.
llvm::SmallVector<Side> partOf(SampleRowsOp sample);
} // namespace sojourn

#endif // SOJOURN_DIALECT_ROWOPS_H
