// SPDX-License-Identifier: Apache-2.0
// Columns that are taken out of a read of several: a pass of the owner that reads them alone.
#ifndef SOJOURN_PASSES_PRIVACY_READCOLUMNS_H
#define SOJOURN_PASSES_PRIVACY_READCOLUMNS_H

#include "passes/Rows.h"

namespace sojourn {

/// A read of several columns has one range, that of all of them: a dose in [0, 1] beside an age in [18, 100] may be 100
/// to the analysis, and so may the dose that is sliced out. Where a slice of a private read, or of casts of it, takes
/// columns of a smaller range, it becomes a read of these columns at the same rows (and the same casts), of which each
/// element is that of the slice to the bit. A slice at a number of the step (column k of a loop) counts where the
/// inputs say the number. No proof rests on it: the result is analysed from scratch.
void readSlicedColumns(mlir::func::FuncOp step, const RowInputs &inputs);

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_READCOLUMNS_H
