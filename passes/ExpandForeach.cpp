// SPDX-License-Identifier: Apache-2.0
// sojourn-expand-foreach: optimizers call `_foreach_*` on all parameters at once; one call per parameter is what the
// rest of the compiler knows. Merging them again is the owner's business.
#include "passes/ExpandForeach.h"

#include "dialect/CapturedOps.h"
#include "dialect/CoreForm.h"
#include "dialect/LayoutOps.h"
#include "passes/Passes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

namespace sojourn {
#define GEN_PASS_DEF_EXPANDFOREACH
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;

/// The operator per element, for those whose name is not the rest of the foreach name.
static StringRef elementBase(StringRef base, bool hasScalar) {
  return llvm::StringSwitch<StringRef>(base)
      .Case("norm", "linalg_vector_norm")
      .Case("maximum", hasScalar ? "clamp_min" : "maximum")
      .Case("minimum", hasScalar ? "clamp_max" : "minimum")
      .Default(base);
}

/// The name under which the operator per element knows an argument.
static StringRef elementArgument(StringRef base, StringRef name) {
  bool scalar = name == "scalar" || name == "scalars";
  if (base == "clamp_min" || base == "clamp_max") {
    return scalar || name == "other" ? (base == "clamp_min" ? "min" : "max") : name;
  }
  if (base == "addcmul" || base == "addcdiv") {
    return scalar ? "value" : name;
  }
  if (base == "lerp") {
    return name == "tensors1" ? "end" : name == "weights" || scalar ? "weight" : name;
  }
  return !scalar ? name : base == "pow" ? "exponent" : "other";
}

/// Element i of a vector, as rank 0.
static Value elementOfVector(OpBuilder &builder, Location loc, Value vector, int64_t i) {
  auto type = cast<RankedTensorType>(vector.getType());
  Value part = SliceOp::create(builder, loc, type.clone(ArrayRef<int64_t>{1}), vector, ArrayRef<int64_t>{i},
                               ArrayRef<int64_t>{i + 1}, ArrayRef<int64_t>{1});
  return ReshapeOp::create(builder, loc, RankedTensorType::get({}, type.getElementType()), part);
}

FailureOr<SmallVector<AtenOp>> sojourn::expandForeach(OpBuilder &builder, AtenOp op, size_t count, bool inPlace) {
  std::string name = functionalBase(op.getBaseName());
  bool hasScalar = op.getArg("scalar") || op.getArg("scalars");
  StringRef base = elementBase(StringRef(name).drop_front(StringRef("_foreach_").size()), hasScalar);
  for (auto [argument, arg] : llvm::zip(op.getNames(), op.getArgs())) {
    auto list = dyn_cast<ArrayAttr>(arg);
    if (list && list.size() != count) {
      return op.emitError()
             << "argument " << argument << " has " << list.size() << " elements, expected " << count
             << ", one per result; a tensor that is in the list twice is not supported yet, pass it once";
    }
  }
  SmallVector<AtenOp> elements;
  for (size_t i = 0; i < count; ++i) {
    AtenBuilder call(builder, op.getLoc(), inPlace ? (base + "_").str() : base.str());
    for (auto [nameAttr, arg] : llvm::zip(op.getNames(), op.getArgs())) {
      StringRef argument = cast<StringAttr>(nameAttr).getValue();
      StringRef renamed = elementArgument(base, argument);
      if (auto list = dyn_cast<ArrayAttr>(arg)) {
        call.arg(renamed, op, list[i]);
        continue;
      }
      Value value = operandOf(op, arg);
      if (argument == "scalars" && value) {
        auto vector = dyn_cast<RankedTensorType>(value.getType());
        if (!vector || vector.getRank() != 1) {
          return op.emitError() << "takes scalars of type " << value.getType() << ", expected a vector of one per "
                                << "element; pass them as a list of numbers";
        }
        call.arg(renamed, elementOfVector(builder, op.getLoc(), value, static_cast<int64_t>(i)));
      } else {
        call.arg(renamed, op, arg);
      }
      if (base == "linalg_vector_norm" && argument == "ord") {
        call.arg("dim", op, builder.getUnitAttr()).arg("keepdim", op, builder.getBoolAttr(false));
      }
    }
    elements.push_back(call.build(inPlace ? TypeRange() : TypeRange(op->getResult(i).getType())));
    copyTypeRules(op, elements.back());
    if (inPlace) {
      elements.back().setMutates({0}); // self comes first
    }
  }
  return elements;
}

static LogicalResult replaceForeach(OpBuilder &builder, AtenOp op) {
  FailureOr<SmallVector<AtenOp>> elements = expandForeach(builder, op, op->getNumResults(), /*inPlace=*/false);
  if (failed(elements)) {
    return failure();
  }
  for (auto [element, result] : llvm::zip(*elements, op->getResults())) {
    if (op->hasAttr(kMutatedAttr)) {
      element->setAttr(kMutatedAttr, builder.getDenseI64ArrayAttr({0}));
    }
    result.replaceAllUsesWith(element->getResult(0));
  }
  op->erase();
  return success();
}

namespace {
struct ExpandForeach : sojourn::impl::ExpandForeachBase<ExpandForeach> {
  void runOnOperation() override {
    OpBuilder builder(&getContext());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      for (AtenOp op : llvm::make_early_inc_range(function.getOps<AtenOp>())) {
        builder.setInsertionPoint(op);
        if (op.getBaseName().starts_with("_foreach_")) {
          if (failed(replaceForeach(builder, op))) {
            return signalPassFailure();
          }
        } else if (auto replacements = expandFusedOptimizer(builder, op)) {
          if (failed(*replacements)) {
            return signalPassFailure();
          }
          op->replaceAllUsesWith(**replacements);
          op->erase();
        }
      }
    }
  }
};
} // namespace
