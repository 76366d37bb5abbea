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

std::optional<DependenceSummary> DependenceSummary::compute(ModuleOp core, std::string &reason) {
  auto step = core.lookupSymbol<func::FuncOp>(kStepName);
  if (!step || step.isExternal() || !step.getBody().hasOneBlock()) {
    reason = "the module has no straight-line function @step";
    return std::nullopt;
  }
  DependenceSummary summary;
  summary.arguments = step.getNumArguments();
  DenseMap<Value, uint32_t> nodes; // without those that depend on nothing
  for (BlockArgument argument : step.getArguments()) {
    nodes[argument] = argument.getArgNumber();
  }
  auto nodeOf = [&](Value value) {
    auto found = nodes.find(value);
    return found == nodes.end() ? kNothing : found->second;
  };
  for (Operation &op : step.getBody().front()) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (Value value : op.getOperands()) {
        summary.returned.push_back(nodeOf(value));
      }
      break;
    }
    SmallVector<uint32_t> from;
    for (Value operand : op.getOperands()) {
      if (uint32_t node = nodeOf(operand); node != kNothing) {
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
      node = static_cast<uint32_t>(summary.arguments + summary.ends.size());
      llvm::append_range(summary.sources, from);
      summary.ends.push_back(static_cast<uint32_t>(summary.sources.size()));
    }
    for (Value result : op.getResults()) {
      nodes[result] = node;
    }
  }
  summary.sources.shrink_to_fit();
  summary.ends.shrink_to_fit();
  return summary;
}

ArrayRef<uint32_t> DependenceSummary::sourcesOf(size_t node) const {
  size_t index = node - arguments, begin = index == 0 ? 0 : ends[index - 1];
  return ArrayRef(sources).slice(begin, ends[index] - begin);
}

std::vector<uint64_t> DependenceSummary::gather(ArrayRef<uint64_t> ofArguments) const {
  std::vector<uint64_t> words(ofArguments.begin(), ofArguments.end());
  words.resize(arguments + ends.size());
  uint32_t at = 0;
  for (size_t node = 0; node < ends.size(); ++node) {
    uint64_t word = 0;
    for (; at < ends[node]; ++at) {
      word |= words[sources[at]];
    }
    words[arguments + node] = word;
  }
  std::vector<uint64_t> ofResults;
  ofResults.reserve(returned.size());
  for (uint32_t node : returned) {
    ofResults.push_back(node == kNothing ? 0 : words[node]);
  }
  return ofResults;
}

std::vector<size_t> DependenceSummary::argumentsOf(size_t result) const {
  std::vector<bool> seen(arguments + ends.size());
  if (returned.at(result) != kNothing) {
    seen[returned[result]] = true;
  }
  for (size_t node = seen.size(); node-- > arguments;) {
    for (uint32_t source : seen[node] ? sourcesOf(node) : ArrayRef<uint32_t>()) {
      seen[source] = true;
    }
  }
  std::vector<size_t> list;
  for (size_t argument = 0; argument < arguments; ++argument) {
    if (seen[argument]) {
      list.push_back(argument);
    }
  }
  return list;
}

bool DependenceSummary::dependsOn(size_t result, size_t argument) const {
  return llvm::is_contained(argumentsOf(result), argument);
}

size_t DependenceSummary::bytes() const {
  return sizeof(*this) + (sources.capacity() + ends.capacity() + returned.capacity()) * sizeof(uint32_t);
}

namespace {
struct PrintDependence : sojourn::impl::PrintDependenceBase<PrintDependence> {
  void runOnOperation() override {
    std::string reason;
    std::optional<DependenceSummary> summary = DependenceSummary::compute(getOperation(), reason);
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
