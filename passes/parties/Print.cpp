// SPDX-License-Identifier: Apache-2.0
// Placement and parts for people and tests: sojourn-placement and sojourn-part.
#include "dialect/Base.h"
#include "dialect/CoreForm.h"
#include "passes/Passes.h"
#include "passes/parties/Part.h"

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

namespace {
struct PrintPlacement : sojourn::impl::PrintPlacementBase<PrintPlacement> {
  void runOnOperation() override {
    std::unique_ptr<parties::Placement> placement = place(getOperation());
    if (!placement) {
      return signalPassFailure();
    }
    auto step = getOperation().lookupSymbol<func::FuncOp>(kStepName);
    for (Operation &op : step.getBody().front()) {
      for (Value result : op.getResults()) {
        InFlightDiagnostic remark = op.emitRemark() << describe(placement->whereOf(result));
        if (const int64_t roles = placement->meetingOf(&op)) {
          remark << ", from exchange " << placement->levelOf(&op) << " among " << parties::listed(roles);
        }
      }
    }
    Operation *exit = step.getBody().front().getTerminator();
    for (auto [number, value] : llvm::enumerate(exit->getOperands())) {
      const auto index = static_cast<unsigned>(number);
      InFlightDiagnostic remark = exit->emitRemark()
                                  << "result #" << number << " is " << describe(placement->whereOfResult(index));
      if (llvm::is_contained(placement->told(), index)) {
        const parties::Where &from = placement->whereOf(value);
        remark << ", sent by role " << (from.isParts() ? from.segments->front().role : from.role)
               << " in the last exchange";
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
    FailureOr<parties::RolePart> made = partOf(module, *placement, role);
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
