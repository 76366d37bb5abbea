// SPDX-License-Identifier: Apache-2.0
// Registration, constant materialization, and the attributes that carry the signature.
#include "dialect/Base.h"
#include "dialect/CoreForm.h"
#include "dialect/Families.h"
#include "dialect/SourceOps.h"

using namespace mlir;
using namespace sojourn;

#include "dialect/Dialect.cpp.inc"

#include "dialect/Interfaces.cpp.inc"

void SojournDialect::initialize() {
  registerTypes();
  registerAttributes();
  detail::registerCapturedOps(*this);
  detail::registerContractionOps(*this);
  detail::registerElementwiseOps(*this);
  detail::registerIndexOps(*this);
  detail::registerLayoutOps(*this);
  detail::registerOwnerOps(*this);
  detail::registerReductionOps(*this);
  detail::registerRowOps(*this);
  detail::registerSourceOps(*this);
  detail::registerUnaryOps(*this);
  detail::registerWindowOps(*this);
}

Operation *SojournDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto tensorType = dyn_cast<RankedTensorType>(type);
  auto typed = dyn_cast<TypedAttr>(value);
  if (!tensorType || !typed || tensorType.getRank() != 0 || typed.getType() != tensorType.getElementType()) {
    return nullptr;
  }
  return ConstantOp::create(builder, loc, tensorType, typed);
}

/// "state", "upload" or ...: the names of a list, quoted.
template <size_t N, typename Kind>
static std::string choices(const std::array<Kind, N> &kinds) {
  std::string text;
  for (size_t i = 0; i < N; ++i) {
    text += (i == 0 ? "\"" : i + 1 == N ? "\" or \"" : "\", \"") + std::string(nameOf(kinds[i]));
  }
  return text + "\"";
}

LogicalResult SojournDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  auto text = dyn_cast<StringAttr>(attribute.getValue());
  if (attribute.getName() == kPromotionAttr) {
    if (!text || (text.getValue() != "torch" && text.getValue() != "numpy")) {
      return op->emitOpError() << kPromotionAttr << " is " << attribute.getValue()
                               << ", expected \"torch\" or \"numpy\"";
    }
  } else if (attribute.getName() == kDefaultFloatAttr) {
    auto type = dyn_cast<TypeAttr>(attribute.getValue());
    if (!type || !isCoreElement(type.getValue()) || !isa<FloatType>(type.getValue())) {
      return op->emitOpError() << kDefaultFloatAttr << " is " << attribute.getValue()
                               << ", expected f16, bf16, f32 or f64";
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
                               << ", expected " << choices(kStepArgs);
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
                               << ", expected " << choices(kStepResults);
    }
  } else if (attribute.getName() == kTargetAttr) {
    auto target = dyn_cast<IntegerAttr>(attribute.getValue());
    if (!target || !target.getType().isSignlessInteger(64)) {
      return op->emitOpError() << "result #" << resultIndex << " has " << kTargetAttr << " = " << attribute.getValue()
                               << ", expected an argument index of type i64";
    }
  } else if (attribute.getName() == kTrainedAttr && !isa<UnitAttr>(attribute.getValue())) {
    return op->emitOpError() << "result #" << resultIndex << " has " << kTrainedAttr << " = " << attribute.getValue()
                             << ", expected no value";
  }
  return success();
}
