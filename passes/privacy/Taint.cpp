// SPDX-License-Identifier: Apache-2.0
// The walk (see Taint.h).
#include "passes/privacy/Taint.h"

#include "dialect/CoreForm.h"
#include "dialect/OwnerOps.h"
#include "dialect/RowOps.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace sojourn;

std::vector<bool> sojourn::taintedResults(func::FuncOp step, const RowInputs &inputs) {
  llvm::DenseSet<Value> tainted;
  auto isKnown = [&](unsigned number) { return number < inputs.arguments.size(); };
  for (BlockArgument argument : step.getArguments()) {
    unsigned number = argument.getArgNumber();
    auto kind = step.getArgAttrOfType<StringAttr>(number, kKindAttr);
    bool isCoin = kind && kind.getValue() == stringify(StepArg::Coin);
    bool isTable = isa<TableType>(argument.getType()); // its rows come by reads
    bool isClean = isCoin    ? llvm::all_of(argument.getUsers(), llvm::IsaPred<NoiseOp>)
                   : isTable ? true
                             : inputs.isPublic(number);
    if (!isClean) {
      tainted.insert(argument);
    }
  }
  Block &body = step.getBody().front();
  for (Operation &op : body) {
    auto read = dyn_cast<ReadRowsOp>(op);
    auto draw = dyn_cast<SampleRowsOp>(op);
    bool isSource = draw && draw.getExpected();
    if (read) {
      unsigned table = cast<BlockArgument>(read.getTable()).getArgNumber();
      isSource = !isKnown(table) || inputs.arguments[table].table.isPrivate;
    }
    bool isReached = llvm::any_of(op.getOperands(), [&](Value value) { return tainted.contains(value); });
    if (isa<NoiseOp>(op) || (!isSource && !isReached)) {
      continue;
    }
    for (Value result : op.getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      if (!type || !llvm::is_contained(type.getShape(), 0)) { // no elements tell nothing
        tainted.insert(result);
      }
    }
  }
  std::vector<bool> results;
  for (Value value : body.getTerminator()->getOperands()) {
    results.push_back(tainted.contains(value));
  }
  return results;
}
