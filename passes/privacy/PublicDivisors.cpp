// SPDX-License-Identifier: Apache-2.0
// Private scalars that divide per-row values become public constants (see Privacy.h): else every gradient depends on
// every row through the number that the loss is divided by.
#include "dialect/CoreForm.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/SourceOps.h"
#include "passes/privacy/Privacy.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace sojourn;

/// The scalar that a value repeats: through reshapes, broadcasts and casts of one element.
static Value scalarBehind(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp, BroadcastOp>(op)) {
      break;
    }
    value = op->getOperand(0);
  }
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && checkedNumel(type.getShape()) == 1 ? value : Value();
}

/// The constant that stands for a divisor (or for a factor, which is one over a divisor); nothing where no bound is
/// proved.
static std::optional<double> constantFor(const rows::Range &range, bool isDivisor) {
  if (!range.isBounded()) {
    return std::nullopt;
  }
  double number = isDivisor ? range.high : range.low;
  return number > 0 ? std::optional(number) : std::nullopt;
}

/// Whether parameters are trained with what follows from a value. A statistic that is only published gets no other
/// divisor than the one that was written.
static bool trains(func::FuncOp step, Value value) {
  llvm::DenseSet<Operation *> seen;
  SmallVector<Value> todo = {value};
  while (!todo.empty()) {
    for (OpOperand &use : todo.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      if (user->hasTrait<OpTrait::IsTerminator>()) {
        auto kind = step.getResultAttrOfType<StringAttr>(use.getOperandNumber(), kResultAttr);
        bool isCommit = kind && parseStepResult(kind.getValue()) == StepResult::Commit;
        if (isCommit || step.getResultAttr(use.getOperandNumber(), kTrainedAttr)) {
          return true;
        }
      } else if (seen.insert(user).second) {
        llvm::append_range(todo, user->getResults());
      }
    }
  }
  return false;
}

/// Of the cuts behind a value: by what their draws have fewer rows to expect than slots.
static double expectedShare(const rows::Fact &fact, const rows::Analysis &analysis) {
  const rows::Draw &draw = analysis.draws()[analysis.cuts()[fact.cuts->front()].draw];
  return draw.sampled ? static_cast<double>(draw.expected) / static_cast<double>(draw.slots) : 1;
}

llvm::DenseSet<Value> sojourn::publicDivisors(func::FuncOp step, const RowInputs &inputs,
                                              std::vector<std::string> &notes) {
  llvm::DenseSet<Value> constants;
  // One hides the next: a step has few.
  for (int round = 0; round < 16; ++round) {
    rows::Analysis analysis;
    analyseRows(step, inputs, analysis);
    Value found;
    double number = 0, share = 1;
    for (Operation &op : step.getBody().front()) {
      // A quotient, a product, or a choice between a number and nothing, row by row.
      if (!isa<DivOp, MulOp, SelectOp>(op)) {
        continue;
      }
      for (unsigned k = isa<MulOp>(op) ? 0 : 1; k < op.getNumOperands() && !found; ++k) {
        Value scalar = scalarBehind(op.getOperand(k));
        bool meetsRows = llvm::any_of(op.getOpOperands(), [&](OpOperand &other) {
          return other.getOperandNumber() != k && analysis.factOf(other.get()).isPerRow();
        });
        if (!scalar || !meetsRows || !analysis.factOf(scalar).hasCuts()) {
          continue;
        }
        bool isDivisor = isa<DivOp>(op);
        // A factor that is a public number over the divisor.
        if (auto ratio = scalar.getDefiningOp<DivOp>(); ratio && !isDivisor) {
          Value below = scalarBehind(ratio->getOperand(1));
          if (below && analysis.factOf(ratio->getOperand(0)).isPublic() && analysis.factOf(below).hasCuts()) {
            scalar = below;
            isDivisor = true;
          }
        }
        std::optional<double> constant = constantFor(analysis.factOf(scalar).range, isDivisor);
        if (constant && trains(step, op.getResult(0))) {
          found = scalar;
          number = *constant;
          share = expectedShare(analysis.factOf(scalar), analysis);
        }
      }
    }
    if (!found) {
      return constants;
    }
    OpBuilder builder(found.getContext());
    builder.setInsertionPointAfterValue(found);
    auto type = cast<RankedTensorType>(found.getType());
    Location location = found.getLoc();
    TypedAttr attribute = isa<FloatType>(type.getElementType())
                              ? TypedAttr(builder.getFloatAttr(type.getElementType(), number))
                              : builder.getIntegerAttr(type.getElementType(), static_cast<int64_t>(number));
    Value constant = ConstantOp::create(builder, location, RankedTensorType::get({}, type.getElementType()), attribute);
    if (type.getRank() != 0) {
      constant = ReshapeOp::create(builder, location, type, constant);
    }
    found.replaceAllUsesExcept(constant, constant.getDefiningOp());
    constants.insert(constant);
    notes.push_back(llvm::formatv("a private divisor of the loss was replaced by its largest possible value{0}, "
                                  "{1:f4}",
                                  share == 1 ? "" : " in a batch of the expected size", number * share));
  }
  return constants;
}
