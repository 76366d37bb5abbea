// SPDX-License-Identifier: Apache-2.0
// What each result of a program is computed from: labels of results are joined from the labels of these arguments. The
// summary is plain data and outlives the module.
#ifndef SOJOURN_PASSES_DEPENDENCE_H
#define SOJOURN_PASSES_DEPENDENCE_H

#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/ArrayRef.h"

#include <optional>
#include <string>
#include <vector>

namespace sojourn {

/// For every result of @step the set of arguments from which there is a way to it through operands. Shapes and
/// attributes are no way: they are the program's, not the data's.
class DependenceSummary {
public:
  /// Analyses a module in core form. Memory is linear in the values of the program plus one bit per result and
  /// argument; time is one walk over the operands per 64 arguments. Nothing, with the reason, where these exceed a
  /// bound.
  static std::optional<DependenceSummary> compute(mlir::ModuleOp core, std::string &reason);

  size_t argumentCount() const { return arguments; }
  size_t resultCount() const { return setOf.size(); }
  bool dependsOn(size_t result, size_t argument) const;
  /// Arguments that the result depends on, ascending.
  std::vector<size_t> argumentsOf(size_t result) const;
  /// Memory that the summary takes.
  size_t bytes() const;

private:
  llvm::ArrayRef<uint64_t> wordsOf(size_t result) const;

  size_t arguments = 0, words = 0;
  /// Per result its set; results with equal sets share one.
  std::vector<uint32_t> setOf;
  /// The sets, `words` words each: bit a % 64 of word a / 64 is argument a.
  std::vector<uint64_t> sets;
};

} // namespace sojourn

#endif // SOJOURN_PASSES_DEPENDENCE_H
