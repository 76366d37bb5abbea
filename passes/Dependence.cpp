// SPDX-License-Identifier: Apache-2.0
// Dependence of results on arguments (see Dependence.h), and sojourn-print-dependence, which prints it.
#include "passes/Dependence.h"

#include "dialect/Base.h"
#include "dialect/CoreForm.h"
#include "passes/Passes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace sojourn {
#define GEN_PASS_DEF_PRINTDEPENDENCE
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;

std::optional<DependenceSummary> sojourn::dependenceOf(ModuleOp core, std::string &reason) {
  auto step = core.lookupSymbol<func::FuncOp>(kStepName);
  if (!step || step.isExternal() || !step.getBody().hasOneBlock()) {
    reason = "the module has no straight-line function @step";
    return std::nullopt;
  }
  DependenceSummary::Graph graph;
  graph.arguments = step.getNumArguments();
  DenseMap<Value, uint32_t> nodes; // without those that depend on nothing
  for (BlockArgument argument : step.getArguments()) {
    nodes[argument] = argument.getArgNumber();
  }
  auto nodeOf = [&](Value value) {
    auto found = nodes.find(value);
    return found == nodes.end() ? DependenceSummary::kNothing : found->second;
  };
  for (Operation &op : step.getBody().front()) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (Value value : op.getOperands()) {
        graph.returned.push_back(nodeOf(value));
      }
      break;
    }
    SmallVector<uint32_t> from;
    for (Value operand : op.getOperands()) {
      if (uint32_t node = nodeOf(operand); node != DependenceSummary::kNothing) {
        from.push_back(node);
      }
    }
    llvm::sort(from);
    from.erase(llvm::unique(from), from.end());
    if (from.empty()) {
      continue;
    }
    uint32_t node = from.front();
    if (from.size() > 1) {
      node = static_cast<uint32_t>(graph.arguments + graph.ends.size());
      llvm::append_range(graph.sources, from);
      graph.ends.push_back(static_cast<uint32_t>(graph.sources.size()));
    }
    for (Value result : op.getResults()) {
      nodes[result] = node;
    }
  }
  graph.sources.shrink_to_fit();
  graph.ends.shrink_to_fit();
  return DependenceSummary(std::move(graph));
}

namespace {
struct PrintDependence : sojourn::impl::PrintDependenceBase<PrintDependence> {
  void runOnOperation() override {
    std::string reason;
    std::optional<DependenceSummary> summary = dependenceOf(getOperation(), reason);
    if (!summary) {
      getOperation().emitError() << reason;
      return signalPassFailure();
    }
    auto step = getOperation().lookupSymbol<func::FuncOp>(kStepName);
    Operation *terminator = step.getBody().front().getTerminator();
    for (size_t result = 0; result < summary->resultCount(); ++result) {
      InFlightDiagnostic remark = terminator->emitRemark() << "result #" << result << " depends on ";
      std::vector<size_t> arguments = summary->argumentsOf(result);
      if (arguments.empty()) {
        remark << "no argument";
      }
      for (auto [position, argument] : llvm::enumerate(arguments)) {
        remark << (position == 0 ? "#" : ", #") << argument;
      }
    }
  }
};
} // namespace
