// SPDX-License-Identifier: Apache-2.0
// Dependence of results on arguments (see Dependence.h), and sojourn-print-dependence, which prints it. One word per
// value holds 64 arguments at a time, so that a long program with many arguments needs no set per value.
#include "passes/Dependence.h"

#include "passes/Passes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Hashing.h"

#include <map>

namespace sojourn {
#define GEN_PASS_DEF_PRINTDEPENDENCE
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;

/// Operands read over all walks, and bits of results times arguments: what an analysis may take.
static constexpr uint64_t kReads = uint64_t(1) << 33, kBits = uint64_t(1) << 30;

namespace {
/// The edges of the program as plain numbers, so that walking them again and again is cheap: values are numbered,
/// arguments first, and an op is a run of operands.
struct Edges {
  std::vector<uint32_t> operands;
  struct Op {
    uint32_t firstOperand, firstResult, results;
  };
  std::vector<Op> ops;
  std::vector<uint32_t> returned;
  uint32_t values = 0;
};
} // namespace

static Edges readEdges(func::FuncOp step) {
  Edges edges;
  DenseMap<Value, uint32_t> numbers;
  for (BlockArgument argument : step.getArguments()) {
    numbers[argument] = edges.values++;
  }
  for (Operation &op : step.getBody().front()) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (Value value : op.getOperands()) {
        edges.returned.push_back(numbers.lookup(value));
      }
      break;
    }
    edges.ops.push_back({static_cast<uint32_t>(edges.operands.size()), edges.values, op.getNumResults()});
    for (Value operand : op.getOperands()) {
      edges.operands.push_back(numbers.lookup(operand));
    }
    for (Value result : op.getResults()) {
      numbers[result] = edges.values++;
    }
  }
  edges.ops.push_back({static_cast<uint32_t>(edges.operands.size()), edges.values, 0});
  return edges;
}

std::optional<DependenceSummary> DependenceSummary::compute(ModuleOp core, std::string &reason) {
  auto step = core.lookupSymbol<func::FuncOp>(kStepName);
  if (!step || step.isExternal() || !step.getBody().hasOneBlock()) {
    reason = "the module has no straight-line function @step";
    return std::nullopt;
  }
  Edges edges = readEdges(step);
  DependenceSummary summary;
  summary.arguments = step.getNumArguments();
  summary.words = (summary.arguments + 63) / 64;
  uint64_t reads = cost::times({summary.words, edges.operands.size() + edges.values});
  uint64_t bits = cost::times({summary.words, 64, edges.returned.size()});
  if (reads > kReads || bits > kBits) {
    reason = "the step has " + std::to_string(summary.arguments) + " arguments, " +
             std::to_string(edges.operands.size()) + " operands and " + std::to_string(edges.returned.size()) +
             " results, more than what depends on what can be kept for; split the step";
    return std::nullopt;
  }

  std::vector<uint64_t> rows(summary.words * edges.returned.size());
  std::vector<uint64_t> from(edges.values);
  for (size_t word = 0; word < summary.words; ++word) {
    for (size_t argument = 0; argument < summary.arguments; ++argument) {
      from[argument] = argument / 64 == word ? uint64_t(1) << (argument % 64) : 0;
    }
    for (size_t op = 0; op + 1 < edges.ops.size(); ++op) {
      uint64_t bits = 0;
      for (uint32_t k = edges.ops[op].firstOperand; k < edges.ops[op + 1].firstOperand; ++k) {
        bits |= from[edges.operands[k]];
      }
      for (uint32_t k = 0; k < edges.ops[op].results; ++k) {
        from[edges.ops[op].firstResult + k] = bits;
      }
    }
    for (size_t result = 0; result < edges.returned.size(); ++result) {
      rows[result * summary.words + word] = from[edges.returned[result]];
    }
  }

  // Equal sets become one.
  std::map<ArrayRef<uint64_t>, uint32_t> known;
  for (size_t result = 0; result < edges.returned.size(); ++result) {
    ArrayRef<uint64_t> row(rows.data() + result * summary.words, summary.words);
    auto [entry, isNew] = known.try_emplace(row, static_cast<uint32_t>(known.size()));
    if (isNew) {
      summary.sets.insert(summary.sets.end(), row.begin(), row.end());
    }
    summary.setOf.push_back(entry->second);
  }
  return summary;
}

ArrayRef<uint64_t> DependenceSummary::wordsOf(size_t result) const {
  return ArrayRef<uint64_t>(sets).slice(setOf.at(result) * words, words);
}

bool DependenceSummary::dependsOn(size_t result, size_t argument) const {
  return argument < arguments && (wordsOf(result)[argument / 64] >> (argument % 64) & 1) != 0;
}

std::vector<size_t> DependenceSummary::argumentsOf(size_t result) const {
  std::vector<size_t> list;
  for (auto [word, bits] : llvm::enumerate(wordsOf(result))) {
    for (uint64_t rest = bits; rest != 0; rest &= rest - 1) {
      list.push_back(word * 64 + static_cast<size_t>(llvm::countr_zero(rest)));
    }
  }
  return list;
}

size_t DependenceSummary::bytes() const { return sizeof(*this) + setOf.capacity() * 4 + sets.capacity() * 8; }

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
