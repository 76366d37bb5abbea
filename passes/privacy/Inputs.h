// SPDX-License-Identifier: Apache-2.0
// What owner and client share around the privacy passes: facts of tables as their inputs, and refusals as texts.
#ifndef SOJOURN_PASSES_PRIVACY_INPUTS_H
#define SOJOURN_PASSES_PRIVACY_INPUTS_H

#include "passes/Rows.h"

#include "mlir/IR/Diagnostics.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <utility>

namespace sojourn {

/// Of one table argument.
struct TableFacts {
  bool isPrivate = false;
  std::optional<int64_t> rows = std::nullopt;
  /// By column: between what every entry lies. A column that is here without bounds holds what its type can hold; one
  /// that is not here, anything.
  llvm::StringMap<std::optional<std::pair<double, double>>> columns;
};

/// `isPublic` of an argument that is no table, `table` of one that is, by number; null: private, without bounds.
RowInputs inputsOf(mlir::func::FuncOp step, llvm::function_ref<bool(unsigned)> isPublic,
                   llvm::function_ref<const TableFacts *(unsigned)> table);

/// Ranges of the slots, from their words in order: for steps on whole tables and parts of them, whose bounds follow
/// from them. Where rows are drawn it changes nothing: learning rates would make a new proof of every step.
void setSlots(mlir::func::FuncOp step, llvm::ArrayRef<uint64_t> words, RowInputs &inputs);
/// Where the elements of a public argument lie, closed; for tensors that somebody looked at.
void setExtent(mlir::func::FuncOp step, unsigned argument, double low, double high, RowInputs &inputs);
/// Whether the owner draws rows in a step; the order of a split draws none.
bool samplesRows(mlir::func::FuncOp step);

/// Keeps the first error that passes report while it lives, with the notes that belong to it.
class FirstError {
public:
  /// `place`: the text of a location.
  FirstError(mlir::MLIRContext &context, std::string (*place)(mlir::Location));
  /// "the program cannot be made private" where nothing was reported.
  std::string text() const;
  /// Where it is, or empty.
  const std::string &location() const { return location_; }

private:
  std::string text_, location_;
  mlir::ScopedDiagnosticHandler handler_;
};

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_INPUTS_H
