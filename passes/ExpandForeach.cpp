// SPDX-License-Identifier: Apache-2.0
// sojourn-expand-foreach: optimizers call `_foreach_*` on all parameters at once; one call per parameter is what the
// rest of the compiler knows. Merging them again is the owner's business.
#include "passes/ExpandForeach.h"
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
  Value part =
      SliceOp::create(builder, loc, vector, ArrayRef<int64_t>{i}, ArrayRef<int64_t>{i + 1}, ArrayRef<int64_t>{1});
  return ReshapeOp::create(builder, loc, RankedTensorType::get({}, type.getElementType()), part);
}

static LogicalResult expandForeach(OpBuilder &builder, AtenOp op) {
  size_t count = op->getNumResults();
  StringRef name = op.getBaseName();
  name.consume_front("_foreach_");
  bool hasScalar = op.getArg("scalar") || op.getArg("scalars");
  StringRef base = elementBase(name, hasScalar);
  for (auto [argument, arg] : llvm::zip(op.getNames(), op.getArgs())) {
    auto list = dyn_cast<ArrayAttr>(arg);
    if (list && list.size() != count) {
      return op.emitError()
             << "argument " << argument << " has " << list.size() << " elements, expected " << count
             << ", one per result; a tensor that is in the list twice is not supported yet, pass it once";
    }
  }
  SmallVector<Value> results;
  for (size_t i = 0; i < count; ++i) {
    AtenBuilder call(builder, op.getLoc(), base);
    for (auto [nameAttr, arg] : llvm::zip(op.getNames(), op.getArgs())) {
      StringRef argument = cast<StringAttr>(nameAttr).getValue();
      StringRef renamed = elementArgument(base, argument);
      if (auto list = dyn_cast<ArrayAttr>(arg)) {
        call.arg(renamed, op, list[i]);
        continue;
      }
      Value value = operandOf(op, arg);
      auto vector = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
      if (argument == "scalars" && vector && vector.getRank() == 1) {
        call.arg(renamed, elementOfVector(builder, op.getLoc(), value, static_cast<int64_t>(i)));
      } else {
        call.arg(renamed, op, arg);
      }
      if (base == "linalg_vector_norm" && argument == "ord") {
        call.arg("dim", op, builder.getUnitAttr()).arg("keepdim", op, builder.getBoolAttr(false));
      }
    }
    AtenOp element = call.build(op->getResult(i).getType());
    if (op->hasAttr(kMutatedAttr)) {
      element->setAttr(kMutatedAttr, builder.getDenseI64ArrayAttr({0}));
    }
    results.push_back(element->getResult(0));
  }
  op->replaceAllUsesWith(results);
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
          if (failed(expandForeach(builder, op))) {
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
