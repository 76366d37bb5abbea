// SPDX-License-Identifier: Apache-2.0
// What each result of a program is computed from: labels of results are joined from the labels of these arguments.
// Plain data, without MLIR; Dependence.h computes it.
#ifndef SOJOURN_PASSES_DEPENDENCESUMMARY_H
#define SOJOURN_PASSES_DEPENDENCESUMMARY_H

#include "llvm/ADT/ArrayRef.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sojourn {

/// For every result of @step the set of arguments from which there is a way to it through operands. Shapes and
/// attributes are no way: they are the program's, not the data's. Kept as a graph, because sets would take a bit per
/// result and argument: a deep model has tens of thousands of both.
class DependenceSummary {
public:
  /// Of a result that depends on no argument.
  static constexpr uint32_t kNothing = UINT32_MAX;

  /// Arguments are the first nodes. Each further one is the union of earlier ones: `sources` of these nodes, one run
  /// after the other, and where each run ends. `returned`: the node of each result, or kNothing.
  struct Graph {
    size_t arguments = 0;
    std::vector<uint32_t> sources, ends, returned;
    /// Whether every node is a union of earlier ones, and every result a node or nothing.
    bool isValid() const;
    bool operator==(const Graph &) const = default;
  };

  DependenceSummary() = default;
  /// The graph must be valid.
  explicit DependenceSummary(Graph graph) : graph_(std::move(graph)) {}

  const Graph &graph() const { return graph_; }
  size_t argumentCount() const { return graph_.arguments; }
  size_t resultCount() const { return graph_.returned.size(); }
  /// Per result the union of what the arguments that it depends on bring, one word each. One walk over the graph.
  std::vector<uint64_t> gather(llvm::ArrayRef<uint64_t> ofArguments) const;
  bool dependsOn(size_t result, size_t argument) const;
  /// Arguments that the result depends on, ascending. Walks the graph: for people and tests.
  std::vector<size_t> argumentsOf(size_t result) const;
  /// Memory that the summary takes.
  size_t bytes() const;
  bool operator==(const DependenceSummary &) const = default;

private:
  llvm::ArrayRef<uint32_t> sourcesOf(size_t node) const;

  Graph graph_;
};

} // namespace sojourn

#endif // SOJOURN_PASSES_DEPENDENCESUMMARY_H
