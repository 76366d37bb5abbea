// SPDX-License-Identifier: Apache-2.0
// A pass for sojourn-opt, as a plugin: matrix products of f32 see their operands as bfloat16 units would.
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

namespace {

/// `value` as another element type, by the cast that the dialect has for it.
mlir::Value convert(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value, mlir::Type element) {
  auto type = mlir::cast<mlir::RankedTensorType>(value.getType()).clone(element);
  mlir::OperationState cast(location, "sojourn.convert", value, type);
  return builder.create(cast)->getResult(0);
}

struct RoundDots : mlir::PassWrapper<RoundDots, mlir::OperationPass<mlir::func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RoundDots)

  llvm::StringRef getArgument() const override { return "tour-round-dots"; }
  llvm::StringRef getDescription() const override { return "Rounds f32 operands of matrix products to bfloat16"; }

  void runOnOperation() override {
    getOperation().walk([](mlir::Operation *op) {
      if (op->getName().getStringRef() != "sojourn.dot") {
        return;
      }
      mlir::OpBuilder builder(op);
      for (mlir::OpOperand &operand : op->getOpOperands()) {
        mlir::Type wide = mlir::getElementTypeOrSelf(operand.get().getType());
        if (wide.isF32()) {
          mlir::Value rounded = convert(builder, op->getLoc(), operand.get(), builder.getBF16Type());
          operand.set(convert(builder, op->getLoc(), rounded, wide));
        }
      }
    });
  }
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "tour", LLVM_VERSION_STRING, [] { mlir::PassRegistration<RoundDots>(); }};
}
