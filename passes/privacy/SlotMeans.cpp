// SPDX-License-Identifier: Apache-2.0
// From sums forward to where they are divided by the slots (see SlotMeans.h).
#include "passes/privacy/SlotMeans.h"

#include "dialect/ElementwiseOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/ReductionOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"

#include <cmath>

using namespace mlir;
using namespace sojourn;

SmallVector<Operation *> SlotMeans::of(Value sum, int64_t slots, const rows::Analysis &analysis) {
  SmallVector<Operation *> means;
  llvm::DenseSet<Operation *> seen;
  SmallVector<std::pair<Value, double>> todo = {{sum, 1}};
  while (!todo.empty()) {
    auto [value, factor] = todo.pop_back_val();
    for (Operation *op : value.getUsers()) {
      bool isProduct = isa<MulOp, DivOp>(op);
      bool keeps = isProduct || isa<AddOp, SubOp, NegOp, MaxOp, ConvertOp, ReshapeOp, TransposeOp, BroadcastOp, SliceOp,
                                    ConcatOp, ReduceSumOp>(op);
      if (++work > kWorkMost || !keeps || !seen.insert(op).second) {
        continue;
      }
      double product = factor;
      if (isProduct) {
        bool isFirst = op->getOperand(0) == value;
        Value other = op->getOperand(isFirst ? 1 : 0);
        const rows::Fact fact = analysis.factOf(other);
        if (other == value || (isa<DivOp>(op) && (!isFirst || !fact.isPublic()))) {
          continue; // a ratio of sums, or their product
        }
        if (fact.range.isConstant() && fact.range.low != 0) {
          double number = std::abs(fact.range.low);
          product = isa<MulOp>(op) ? factor * number : factor / number;
        }
        bool isFloat = isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType()));
        bool isMean = product * static_cast<double>(slots - 1) <= 1 + 1e-6;
        if (isFloat && (isMean || (isa<DivOp>(op) && divisors.contains(other)))) {
          means.push_back(op);
          continue;
        }
      }
      todo.push_back({op->getResult(0), product});
    }
  }
  return means;
}

void SlotMeans::scale(Operation *mean, double factor) {
  if (!scaled.insert(mean).second) {
    return;
  }
  OpBuilder builder(mean->getContext());
  builder.setInsertionPointAfter(mean);
  Value value = mean->getResult(0);
  Type element = getElementTypeOrSelf(value.getType());
  Value constant = ConstantOp::create(builder, mean->getLoc(), RankedTensorType::get({}, element),
                                      builder.getFloatAttr(element, factor));
  Value product = MulOp::create(builder, mean->getLoc(), value.getType(), value, constant);
  value.replaceAllUsesExcept(product, product.getDefiningOp());
}
