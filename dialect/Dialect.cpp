// SPDX-License-Identifier: Apache-2.0
// Registration, the generated op classes, constant materialization, and the attributes that carry the signature.
#include "dialect/Dialect.h"

using namespace mlir;
using namespace sojourn;

#include "dialect/Dialect.cpp.inc"

#include "dialect/Interfaces.cpp.inc"

#define GET_OP_CLASSES
#include "dialect/Ops.cpp.inc"

void SojournDialect::initialize() {
  registerTypes();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialect/Ops.cpp.inc"
      >();
}

Operation *SojournDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto tensorType = dyn_cast<RankedTensorType>(type);
  auto typed = dyn_cast<TypedAttr>(value);
  if (!tensorType || !typed || tensorType.getRank() != 0 || typed.getType() != tensorType.getElementType()) {
    return nullptr;
  }
  return ConstantOp::create(builder, loc, tensorType, typed);
}

StringRef sojourn::stringify(StepArg kind) {
  switch (kind) {
  case StepArg::State: return "state";
  case StepArg::Upload: return "upload";
  case StepArg::Slot: return "slot";
  case StepArg::Seed: return "seed";
  case StepArg::Table: return "table";
  case StepArg::Coin: return "coin";
  }
  llvm_unreachable("every StepArg has a name");
}

StringRef sojourn::stringify(StepResult kind) {
  switch (kind) {
  case StepResult::Commit: return "commit";
  case StepResult::Keep: return "keep";
  case StepResult::Publish: return "publish";
  }
  llvm_unreachable("every StepResult has a name");
}

std::optional<StepArg> sojourn::parseStepArg(StringRef text) {
  for (StepArg kind : {StepArg::State, StepArg::Upload, StepArg::Slot, StepArg::Seed, StepArg::Table, StepArg::Coin}) {
    if (stringify(kind) == text) {
      return kind;
    }
  }
  return std::nullopt;
}

std::optional<StepResult> sojourn::parseStepResult(StringRef text) {
  for (StepResult kind : {StepResult::Commit, StepResult::Keep, StepResult::Publish}) {
    if (stringify(kind) == text) {
      return kind;
    }
  }
  return std::nullopt;
}

LogicalResult SojournDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  auto text = dyn_cast<StringAttr>(attribute.getValue());
  if (attribute.getName() == kPromotionAttr) {
    if (!text || (text.getValue() != "torch" && text.getValue() != "numpy")) {
      return op->emitOpError() << kPromotionAttr << " is " << attribute.getValue()
                               << ", expected \"torch\" or \"numpy\"";
    }
  } else if (attribute.getName() == kPhaseAttr) {
    if (!text || !llvm::is_contained({"captured", "functional", "promoted", "decomposed", "core"}, text.getValue())) {
      return op->emitOpError() << kPhaseAttr << " is " << attribute.getValue()
                               << ", expected \"captured\", \"functional\", \"promoted\", \"decomposed\" or \"core\"";
    }
  }
  return success();
}

LogicalResult SojournDialect::verifyRegionArgAttribute(Operation *op, unsigned regionIndex, unsigned argIndex,
                                                       NamedAttribute attribute) {
  if (attribute.getName() == kKindAttr) {
    auto text = dyn_cast<StringAttr>(attribute.getValue());
    if (!text || !parseStepArg(text.getValue())) {
      return op->emitOpError() << "argument #" << argIndex << " has " << kKindAttr << " = " << attribute.getValue()
                               << ", expected \"state\", \"upload\", \"slot\", \"seed\", \"table\" or \"coin\"";
    }
  }
  return success();
}

LogicalResult SojournDialect::verifyRegionResultAttribute(Operation *op, unsigned regionIndex, unsigned resultIndex,
                                                          NamedAttribute attribute) {
  if (attribute.getName() == kResultAttr) {
    auto text = dyn_cast<StringAttr>(attribute.getValue());
    if (!text || !parseStepResult(text.getValue())) {
      return op->emitOpError() << "result #" << resultIndex << " has " << kResultAttr << " = " << attribute.getValue()
                               << ", expected \"commit\", \"keep\" or \"publish\"";
    }
  } else if (attribute.getName() == kTargetAttr) {
    auto target = dyn_cast<IntegerAttr>(attribute.getValue());
    if (!target || !target.getType().isSignlessInteger(64)) {
      return op->emitOpError() << "result #" << resultIndex << " has " << kTargetAttr << " = " << attribute.getValue()
                               << ", expected an argument index of type i64";
    }
  } else if (attribute.getName() == kTrainedAttr && !isa<UnitAttr>(attribute.getValue())) {
    return op->emitOpError() << "result #" << resultIndex << " has " << kTrainedAttr << " = " << attribute.getValue()
                             << ", expected it without a value";
  }
  return success();
}
