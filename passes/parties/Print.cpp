// SPDX-License-Identifier: Apache-2.0
// Placement and parts for people and tests: sojourn-placement and sojourn-part.
#include "dialect/Base.h"
#include "dialect/CoreForm.h"
#include "passes/Passes.h"
#include "passes/parties/Part.h"

#include <map>

namespace sojourn {
#define GEN_PASS_DEF_PRINTPLACEMENT
#define GEN_PASS_DEF_PARTSTEP
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;

/// Of a module in core form; null, with an error, where it is none or a value cannot be placed.
static std::unique_ptr<parties::Placement> place(ModuleOp module) {
  if (failed(verifyCoreForm(module))) {
    return nullptr;
  }
  FailureOr<std::unique_ptr<parties::Placement>> placement =
      parties::Placement::of(module.lookupSymbol<func::FuncOp>(kStepName));
  return succeeded(placement) ? std::move(*placement) : nullptr;
}

std::string parties::noteOf(const Placement &placement, Operation *op) {
  std::string text;
  for (Value result : op->getResults()) {
    text += (text.empty() ? "" : "; ") + describe(placement.whereOf(result));
  }
  if (const int64_t roles = placement.meetingOf(op)) {
    text += ", from exchange " + std::to_string(placement.levelOf(op)) + " among " + listed(roles);
  }
  return text;
}

/// Of a result that is told: the role that sends it.
static unsigned senderOf(const parties::Where &from) {
  return from.isParts() ? from.segments->front().role : from.role;
}

std::string parties::exchangesText(const Placement &placement, func::FuncOp step, size_t limit,
                                   llvm::function_ref<bool(Operation *)> isMasked,
                                   llvm::function_ref<std::string(Location)> lineOf) {
  std::map<std::pair<unsigned, std::string>, std::string> sums; // by exchange and kind
  size_t bytes = 0;
  auto valueText = [&](Type type, Location location) {
    std::string text, line = lineOf(location);
    llvm::raw_string_ostream(text) << type;
    return line.empty() ? text : text + " (" + line + ")";
  };
  for (Operation &op : step.getBody().front()) {
    const int64_t roles = placement.meetingOf(&op);
    if (roles != 0 && bytes < limit) {
      const std::string value = valueText(op.getResult(0).getType(), op.getLoc());
      const std::string kind = isMasked(&op) ? "masked sums over " : "sums over ";
      std::string &all = sums[{placement.levelOf(&op), kind + listed(roles)}];
      all += (all.empty() ? "" : ", ") + value;
      bytes += value.size();
    }
  }
  std::string text;
  for (const auto &[key, values] : sums) {
    if (text.size() >= limit) {
      break;
    }
    text += "exchange " + std::to_string(key.first) + ", " + key.second + ": " + values + "\n";
  }
  Operation *exit = step.getBody().front().getTerminator();
  for (unsigned index : placement.told()) {
    if (text.size() >= limit) {
      break;
    }
    const Value value = exit->getOperand(index);
    text += "last exchange, from role " + std::to_string(senderOf(placement.whereOf(value))) +
            " to all: " + valueText(value.getType(), value.getLoc()) + "\n";
  }
  text += bytes >= limit || text.size() >= limit ? "...\n" : "";
  return text;
}

namespace {
struct PrintPlacement : sojourn::impl::PrintPlacementBase<PrintPlacement> {
  void runOnOperation() override {
    std::unique_ptr<parties::Placement> placement = place(getOperation());
    if (!placement) {
      return signalPassFailure();
    }
    auto step = getOperation().lookupSymbol<func::FuncOp>(kStepName);
    for (Operation &op : step.getBody().front()) {
      if (op.getNumResults() > 0) {
        op.emitRemark() << parties::noteOf(*placement, &op);
      }
    }
    Operation *exit = step.getBody().front().getTerminator();
    for (auto [number, value] : llvm::enumerate(exit->getOperands())) {
      const auto index = static_cast<unsigned>(number);
      InFlightDiagnostic remark = exit->emitRemark()
                                  << "result #" << number << " is " << describe(placement->whereOfResult(index));
      if (llvm::is_contained(placement->told(), index)) {
        const parties::Where &from = placement->whereOf(value);
        remark << ", sent by role " << senderOf(from) << " in the last exchange";
      }
    }
  }
};

struct PartStep : sojourn::impl::PartStepBase<PartStep> {
  using PartStepBase::PartStepBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::unique_ptr<parties::Placement> placement = place(module);
    if (!placement) {
      return signalPassFailure();
    }
    if (role >= placement->parties()) {
      module.emitError() << "role is " << role.getValue() << ", the step has " << placement->parties()
                         << " roles, from 0";
      return signalPassFailure();
    }
    FailureOr<parties::RolePart> made =
        partOf(module, *placement, role, masked ? parties::Sums::Masked : parties::Sums::Clear);
    if (failed(made)) {
      return signalPassFailure();
    }
    parties::RolePart &part = *made;
    module.getBody()->clear();
    module.getBody()->getOperations().splice(module.getBody()->end(), part.module->getBody()->getOperations());
    module->setDiscardableAttrs((*part.module)->getDiscardableAttrDictionary());
    if (failed(verifyCoreFormOfRole(module))) {
      signalPassFailure();
    }
  }
};
} // namespace
