// SPDX-License-Identifier: Apache-2.0
// sojourn-forget-types: one walk; what is computed from a result that lost its type loses its own.
#include "passes/Aten.h"
#include "dialect/CapturedOps.h"
#include "passes/Passes.h"

namespace sojourn {
#define GEN_PASS_DEF_FORGETTYPES
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;

namespace {

struct ForgetTypes : sojourn::impl::ForgetTypesBase<ForgetTypes> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (failed(expectOneBlock(function))) {
        return signalPassFailure();
      }
      for (auto op : function.getOps<AtenOp>()) {
        if (llvm::any_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>)) {
          op.emitError() << "returns values, expected captured form; remove the types before functionalization";
          return signalPassFailure();
        }
      }
      for (Operation &op : function.getBody().getOps()) {
        bool isCall = isa<AtenOp>(op);
        if (isCall || (isa<ViewOp, MovedViewOp>(op) && forgotten.contains(op.getOperand(0)))) {
          for (Value result : op.getResults()) {
            forget(result);
          }
        } else if (isa<LoadOp>(op) && forgotten.contains(op.getOperand(0))) {
          // Positions of rows: a value that core ops read has its type.
          restore(op.getOperand(0), cast<RankedTensorType>(op.getResult(0).getType()).getElementType());
        }
      }
      function.setFunctionType(FunctionType::get(&getContext(), function.getArgumentTypes(),
                                                 function.getBody().front().getTerminator()->getOperandTypes()));
    }
  }

private:
  void forget(Value value) {
    if (auto ref = dyn_cast<RefType>(value.getType())) {
      value.setType(with(ref, UnresolvedType::get(&getContext())));
      forgotten.insert(value);
    }
  }
  void restore(Value value, Type element) {
    value.setType(with(cast<RefType>(value.getType()), element));
    forgotten.erase(value);
  }
  static RefType with(RefType ref, Type element) {
    return RefType::get(ref.getShape(), element, ref.getStrides(), ref.getOffset());
  }

  DenseSet<Value> forgotten;
};

} // namespace
