// SPDX-License-Identifier: Apache-2.0
// The lists of row numbers at which a step reads private tables: none may name a row twice. What is known before a step
// runs is checked then; what is computed later is made so while it runs. Rests on no fact of the row analysis.
#ifndef SOJOURN_PASSES_PRIVACY_ROWLISTS_H
#define SOJOURN_PASSES_PRIVACY_ROWLISTS_H

#include "passes/Rows.h"

#include "mlir/IR/OwningOpRef.h"

namespace sojourn {

/// When the numbers of a list are known.
enum class ListTime : uint8_t {
  Plan,    ///< with the program: no argument is part of it
  Message, ///< with the message: computed from public states, uploads, slots and seeds
  Run      ///< computed from coins, rows or private states
};

/// A program whose results are the lists of that time (Plan, without arguments, or Message, with all of the step's but
/// coins), each once, as kept results; null where there are none. `step` is as `guardRowLists` gets it, so that each
/// list is either here or there.
mlir::OwningOpRef<mlir::ModuleOp> rowListsProgram(mlir::func::FuncOp step, const RowInputs &inputs, ListTime time);

/// Of a list as it was computed: whether a row stands in it twice. Negative numbers name none. Long lists take seconds:
/// `isStopped` is asked now and then, and where it says so there is no answer.
std::optional<bool> namesRowTwice(
    llvm::ArrayRef<int64_t> rows, llvm::function_ref<bool()> isStopped = [] { return false; });

/// Puts `first_rows` behind each list of the time Run, for the reads and the clipped sums that use it.
void guardRowLists(mlir::func::FuncOp step, const RowInputs &inputs);

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_ROWLISTS_H
