// SPDX-License-Identifier: Apache-2.0
// Core form as a checkable predicate: what the passes promise and what the owner demands.
#include "dialect/CoreForm.h"

#include "dialect/Base.h"
#include "dialect/OwnerOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace sojourn;

/// Who made a module: a client, or an owner by rewriting or by parting.
enum class Form : uint8_t { Received, WithCoins, OfRole };

static bool isCoreTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && !tensor.getEncoding() && tensor.hasStaticShape() && isCoreElement(tensor.getElementType()) &&
         outOfBounds(tensor).empty();
}

static LogicalResult verifyArguments(func::FuncOp step, bool withCoins) {
  StepArg previous = StepArg::State;
  for (unsigned i = 0; i < step.getNumArguments(); ++i) {
    Type type = step.getArgument(i).getType();
    auto text = step.getArgAttrOfType<StringAttr>(i, kKindAttr);
    std::optional<StepArg> kind = text ? parseStepArg(text.getValue()) : std::nullopt;
    if (!kind) {
      return step.emitOpError() << "argument #" << i << " has no " << kKindAttr
                                << ", expected state, upload, slot, seed or table";
    }
    if (*kind < previous) {
      return step.emitOpError() << "argument #" << i << " is of kind " << stringify(*kind) << " after one of kind "
                                << stringify(previous) << ", expected states, uploads, slots, seeds, tables";
    }
    previous = *kind;
    if (*kind == StepArg::Coin && !withCoins) {
      return step.emitOpError() << "argument #" << i << " is of kind coin, which only an owner appends";
    }
    bool fits = false;
    StringRef expected;
    switch (*kind) {
    case StepArg::State:
    case StepArg::Upload:
      fits = isCoreTensor(type);
      expected = "a tensor of static shape and core element";
      break;
    case StepArg::Slot: {
      auto tensor = dyn_cast<RankedTensorType>(type);
      fits = isRankZero(type, 64) || isRankZero(type, 1) ||
             (tensor && !tensor.getEncoding() && tensor.getRank() == 0 && tensor.getElementType().isF64());
      expected = "tensor<f64>, tensor<i64> or tensor<i1>";
      break;
    }
    case StepArg::Seed:
      fits = isRankZero(type, 64);
      expected = "tensor<i64>";
      break;
    case StepArg::Table:
      fits = isa<TableType>(type);
      expected = "!sojourn.table";
      break;
    case StepArg::Coin:
      fits = isCoreTensor(type) && cast<RankedTensorType>(type).getElementType().isSignlessInteger(64);
      expected = "an i64 tensor of static shape";
      break;
    }
    if (!fits) {
      return step.emitOpError() << "argument #" << i << " of kind " << stringify(*kind) << " has type " << type
                                << ", expected " << expected;
    }
  }
  return success();
}

static LogicalResult verifyResults(func::FuncOp step) {
  llvm::SmallBitVector committed(step.getNumArguments());
  for (auto [i, type] : llvm::enumerate(step.getResultTypes())) {
    if (!isCoreTensor(type)) {
      return step.emitOpError() << "result #" << i << " has type " << type
                                << ", expected a tensor of static shape and core element";
    }
    auto text = step.getResultAttrOfType<StringAttr>(i, kResultAttr);
    std::optional<StepResult> kind = text ? parseStepResult(text.getValue()) : std::nullopt;
    if (!kind) {
      return step.emitOpError() << "result #" << i << " has no " << kResultAttr << ", expected commit, keep or publish";
    }
    if (*kind == StepResult::Publish && step.getResultAttr(i, kTrainedAttr)) {
      return step.emitOpError() << "result #" << i << " of kind publish has " << kTrainedAttr
                                << ", expected it only on committed or kept results";
    }
    auto target = step.getResultAttrOfType<IntegerAttr>(i, kTargetAttr);
    if (*kind != StepResult::Commit) {
      if (target) {
        return step.emitOpError() << "result #" << i << " of kind " << stringify(*kind) << " has " << kTargetAttr
                                  << ", expected it only on commits";
      }
      continue;
    }
    if (!target || !target.getType().isSignlessInteger(64)) {
      return step.emitOpError() << "result #" << i << " is a commit without " << kTargetAttr
                                << ", expected the index of a state";
    }
    int64_t index = target.getInt();
    bool inRange = index >= 0 && index < static_cast<int64_t>(step.getNumArguments());
    auto argKind = inRange ? step.getArgAttrOfType<StringAttr>(static_cast<unsigned>(index), kKindAttr) : StringAttr();
    if (!argKind || argKind.getValue() != stringify(StepArg::State)) {
      return step.emitOpError() << "result #" << i << " commits to argument " << index << ", expected a state";
    }
    Type state = step.getArgument(static_cast<unsigned>(index)).getType();
    if (state != type) {
      return step.emitOpError() << "result #" << i << " has type " << type << " and commits to argument " << index
                                << " of type " << state << ", expected equal types";
    }
    if (committed.test(static_cast<unsigned>(index))) {
      return step.emitOpError() << "argument " << index << " is committed twice, again by result #" << i;
    }
    committed.set(static_cast<unsigned>(index));
  }
  return success();
}

static LogicalResult verifyBody(func::FuncOp step, Form form) {
  for (Operation &op : step.getBody().front()) {
    if (isa<func::ReturnOp>(op)) {
      continue;
    }
    const bool isOwners =
        (form == Form::WithCoins && isa<FirstRowsOp>(op)) || (form == Form::OfRole && isa<AcrossSumOp>(op));
    if (!op.hasTrait<CoreOp>() && !isOwners) {
      return op.emitOpError() << "is not an op of core form";
    }
    for (Type type : op.getOperandTypes()) {
      if (!isCoreTensor(type) && !isa<TableType>(type)) {
        return op.emitOpError() << "has an operand of type " << type << ", expected a tensor of core form";
      }
    }
    for (Type type : op.getResultTypes()) {
      if (!isCoreTensor(type)) {
        return op.emitOpError() << "has a result of type " << type << ", expected a tensor of core form";
      }
    }
  }
  return success();
}

static LogicalResult verify(ModuleOp module, Form form) {
  auto promotion = module->getAttrOfType<StringAttr>(kPromotionAttr);
  if (!promotion || (promotion.getValue() != "torch" && promotion.getValue() != "numpy")) {
    return module.emitOpError() << "has no " << kPromotionAttr << ", expected \"torch\" or \"numpy\"";
  }
  func::FuncOp step;
  for (Operation &op : *module.getBody()) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function || step) {
      return op.emitOpError() << "is next to @" << kStepName << ", expected one function and nothing else";
    }
    step = function;
  }
  if (!step || step.getSymName() != kStepName) {
    return module.emitOpError() << "has no function @" << kStepName;
  }
  if (step.isExternal() || !step.getBody().hasOneBlock()) {
    return step.emitOpError() << "has " << step.getBody().getBlocks().size() << " blocks, expected one";
  }
  if (failed(verifyArguments(step, form == Form::WithCoins)) || failed(verifyResults(step)) ||
      (form != Form::OfRole && failed(verifyParties(module, step)))) {
    return failure();
  }
  return verifyBody(step, form);
}

LogicalResult sojourn::verifyCoreForm(ModuleOp module) { return verify(module, Form::Received); }
LogicalResult sojourn::verifyCoreFormWithCoins(ModuleOp module) { return verify(module, Form::WithCoins); }
LogicalResult sojourn::verifyCoreFormOfRole(ModuleOp module) { return verify(module, Form::OfRole); }

void sojourn::registerDialects(DialectRegistry &registry) { registry.insert<SojournDialect, func::FuncDialect>(); }

void sojourn::loadDialects(MLIRContext &context) { context.loadDialect<SojournDialect, func::FuncDialect>(); }
