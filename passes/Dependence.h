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
/// attributes are no way: they are the program's, not the data's. Kept as a graph, because sets would take a bit per
/// result and argument: a deep model has tens of thousands of both.
class DependenceSummary {
public:
  /// Analyses a module in core form; time and memory are linear in its operands. Nothing, with the reason, where there
  /// is no step.
  static std::optional<DependenceSummary> compute(mlir::ModuleOp core, std::string &reason);

  size_t argumentCount() const { return arguments; }
  size_t resultCount() const { return returned.size(); }
  /// Per result the union of what the arguments that it depends on bring, one word each. One walk over the graph.
  std::vector<uint64_t> gather(llvm::ArrayRef<uint64_t> ofArguments) const;
  bool dependsOn(size_t result, size_t argument) const;
  /// Arguments that the result depends on, ascending. Walks the graph: for people and tests.
  std::vector<size_t> argumentsOf(size_t result) const;
  /// Memory that the summary takes.
  size_t bytes() const;

private:
  static constexpr uint32_t kNothing = UINT32_MAX;

  llvm::ArrayRef<uint32_t> sourcesOf(size_t node) const;

  /// Arguments are the first nodes. Each further one is the union of earlier ones, two at least: a value that comes
  /// from one alone is that one.
  size_t arguments = 0;
  std::vector<uint32_t> sources;  ///< of the nodes after the arguments, one run after the other
  std::vector<uint32_t> ends;     ///< where each run ends
  std::vector<uint32_t> returned; ///< the node of each result, or kNothing
};

} // namespace sojourn

#endif // SOJOURN_PASSES_DEPENDENCE_H
