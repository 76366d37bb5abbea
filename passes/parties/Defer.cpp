// SPDX-License-Identifier: Apache-2.0
// Quotients by a number of rows, which roles know only after an exchange, moved behind the sums that they scale (pass
// sojourn-defer-scales).
#include "dialect/Base.h"
#include "dialect/ContractionOps.h"
#include "dialect/CoreForm.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/IndexOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/ReductionOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"
#include "dialect/WindowOps.h"
#include "passes/Passes.h"
#include "passes/parties/Placement.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>
#include <optional>

namespace sojourn {
#define GEN_PASS_DEF_DEFERSCALES
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;
using namespace sojourn::parties;

namespace {

bool isZero(Value value) {
  while (Operation *made = value.getDefiningOp()) {
    if (!isa<BroadcastOp, ReshapeOp>(made)) {
      break;
    }
    value = made->getOperand(0);
  }
  return matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero());
}

Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

bool isWide(Value value) { return elementOf(value).isF32() || elementOf(value).isF64(); }

Value constant(OpBuilder &builder, Location location, Type element, double value) {
  return ConstantOp::create(builder, location, RankedTensorType::get({}, element),
                            builder.getFloatAttr(element, value));
}

/// The tensor of one element that `value` repeats; null where it repeats none.
Value numberOf(Value value) {
  for (;;) {
    if (cast<RankedTensorType>(value.getType()).getNumElements() == 1) {
      return value;
    }
    Operation *made = value.getDefiningOp();
    if (!made || !isa<BroadcastOp, ReshapeOp>(made)) {
      return nullptr;
    }
    value = made->getOperand(0);
  }
}

/// The number of rows that a mask leaves.
struct Count {
  Value number, mask;
  friend bool operator==(const Count &, const Count &) = default;
};

/// Of a number without dims; empty where it counts no mask.
Count countOf(Value number) {
  if (auto reshape = number.getDefiningOp<ReshapeOp>()) {
    number = reshape.getX();
  }
  auto sum = number.getDefiningOp<ReduceSumOp>();
  auto ones = sum ? sum.getX().getDefiningOp<ConvertOp>() : ConvertOp();
  const bool isAll = sum && cast<RankedTensorType>(sum.getType()).getRank() == 0;
  return isAll && ones && elementOf(ones.getX()).isInteger(1) ? Count{sum.getResult(), ones.getX()} : Count{};
}

/// A constant whose quotient by a number of rows neither overflows nor underflows.
std::optional<double> moderateOf(Value value) {
  Attribute constant;
  auto number = matchPattern(value, m_Constant(&constant)) ? dyn_cast<FloatAttr>(constant) : FloatAttr();
  if (!number) {
    return std::nullopt;
  }
  const double found = number.getValueAsDouble(), size = std::abs(found);
  return size == 0 || (size >= 0x1p-64 && size <= 0x1p64) ? std::optional(found) : std::nullopt;
}

/// x / n, or x * (k / n): rows in parts, a constant k, and a number of rows that all roles know.
struct Scaling {
  OpOperand *factor = nullptr; ///< n or k / n; null: it is none
  Count count;
  double constant = 1;
};

Scaling scalingOf(Operation &op, const Placement &placement) {
  if (!isa<MulOp, DivOp>(op) || !placement.whereOf(op.getResult(0)).isParts() || !isWide(op.getResult(0))) {
    return {};
  }
  for (OpOperand &operand : op.getOpOperands()) {
    Value number = placement.whereOf(operand.get()).isAll() ? numberOf(operand.get()) : Value();
    if (number && isa<DivOp>(op) && operand.getOperandNumber() == 1) {
      if (Count count = countOf(number); count.number) {
        return {&operand, count, 1};
      }
    }
    if (auto quotient = number && isa<MulOp>(op) ? number.getDefiningOp<DivOp>() : DivOp()) {
      const std::optional<double> constant = moderateOf(quotient.getA());
      if (Count count = countOf(quotient.getB()); constant && count.number) {
        return {&operand, count, *constant};
      }
    }
  }
  return {};
}

/// Values that lack one factor, and what becomes of them.
class Deferral {
public:
  Deferral(func::FuncOp step, const Placement &placement, const Count &count)
      : step_(step), placement_(placement), count_(count) {}

  /// Walks the step. Whether it then has fewer exchanges, one after another.
  bool saves() {
    unsigned exchanges = 0;
    for (Operation &op : step_.getBody().front().without_terminator()) {
      exchanges = std::max(exchanges, visit(op));
    }
    for (OpOperand &result : step_.getBody().front().getTerminator()->getOpOperands()) {
      if (lacks_.contains(result.get())) {
        escapes_.push_back(&result);
      }
    }
    return !sums_.empty() && exchanges + (placement_.told().empty() ? 0 : 1) < placement_.exchanges();
  }

  void rewrite() {
    // The rows are still scaled by about their number, exactly: sums stay in the range of means.
    int64_t rows = cast<RankedTensorType>(count_.mask.getType()).getNumElements();
    for (const Scaling &scaling : scalings_) {
      rows = std::max(rows, rowsOf(*placement_.whereOf(scaling.factor->getOwner()->getResult(0)).segments));
    }
    const double power = static_cast<double>(llvm::PowerOf2Ceil(static_cast<uint64_t>(rows)));
    Operation *first = scalings_.front().factor->getOwner();
    const Location location = first->getLoc();
    OpBuilder builder(first);
    const Type type = count_.number.getType();
    auto constantOf = [&](double value) { return constant(builder, location, elementOf(count_.number), value); };
    factor_ = DivOp::create(builder, location, type, constantOf(power), count_.number);
    // All rows are masked where the number is zero, and their sums are zero.
    Value isNone = CompareOp::create(builder, location, RankedTensorType::get({}, builder.getI1Type()), count_.number,
                                     constantOf(0), "eq");
    maskedFactor_ = SelectOp::create(builder, location, type, isNone, constantOf(0), factor_);
    for (const Scaling &scaling : scalings_) {
      builder.setInsertionPoint(scaling.factor->getOwner());
      Value rest = constantOf(isa<DivOp>(scaling.factor->getOwner()) ? power : scaling.constant / power);
      auto factorType = cast<RankedTensorType>(scaling.factor->get().getType());
      if (factorType.getRank() != 0) {
        rest = BroadcastOp::create(builder, location, factorType, rest, builder.getDenseI64ArrayAttr({}));
      }
      scaling.factor->set(rest);
    }
    for (const auto &sums : sums_) {
      Operation *sum = sums.first;
      builder.setInsertionPointAfter(sum);
      Value whole = scaled(builder, sum->getResult(0), sums.second);
      sum->getResult(0).replaceAllUsesExcept(whole, whole.getDefiningOp());
    }
    for (OpOperand *escape : escapes_) {
      builder.setInsertionPoint(escape->getOwner());
      escape->set(scaled(builder, escape->get(), lacks_.lookup(escape->get())));
    }
  }

private:
  Value scaled(OpBuilder &builder, Value value, bool isMasked) {
    const Location location = value.getLoc();
    auto type = cast<RankedTensorType>(value.getType());
    Value factor = isMasked ? maskedFactor_ : factor_;
    if (elementOf(factor) != type.getElementType()) { // converted on the way
      factor = ConvertOp::create(builder, location, RankedTensorType::get({}, type.getElementType()), factor);
    }
    return MulOp::create(builder, location, type, value, factor);
  }

  /// The exchanges until the results are there.
  unsigned visit(Operation &op) {
    unsigned level = 0;
    const Scaling scaling = scalingOf(op, placement_);
    const bool isScaling = scaling.factor && scaling.count == count_ &&
                           llvm::none_of(op.getOperands(), [&](Value operand) { return lacks_.contains(operand); });
    const bool isSum = placement_.meetingOf(&op) != 0;
    // A sum of values of two roles may go on with a third one's, and stays where it is.
    const bool lacks = isScaling || (keepsFactor(op) && (!isSum || placement_.rowsSummed(&op)));
    for (OpOperand &operand : op.getOpOperands()) {
      const bool isDeferred = isScaling && &operand == scaling.factor;
      level = std::max(level, isDeferred ? 0 : ready_.lookup(operand.get()));
      if (!lacks && lacks_.contains(operand.get())) {
        escapes_.push_back(&operand);
        level = std::max(level, ready_.lookup(count_.number));
      }
    }
    level += isSum ? 1 : 0;
    if (isScaling) {
      scalings_.push_back(scaling);
      lacks_[op.getResult(0)] = false;
    } else if (lacks && isSum) {
      sums_.push_back({&op, isMasked(op)});
      ready_[op.getResult(0)] = std::max(level, ready_.lookup(count_.number));
      return level;
    } else if (lacks) {
      lacks_[op.getResult(0)] = isMasked(op);
    }
    for (Value result : op.getResults()) {
      ready_[result] = level;
    }
    return level;
  }

  /// Whether all rows of the op that lack the factor went through a select with the counted mask.
  bool isMasked(Operation &op) const {
    return isMaskingSelect(op) || llvm::all_of(op.getOperands(), [&](Value operand) {
             return !lacks_.contains(operand) || lacks_.lookup(operand);
           });
  }

  /// Rows that the counted mask leaves, zeros elsewhere.
  bool isMaskingSelect(Operation &op) const {
    auto select = dyn_cast<SelectOp>(op);
    return select && select.getPred() == count_.mask && isZero(select.getB());
  }

  /// Whether f(s * x) = s * f(x) for the operands x that lack s; false where none does.
  bool keepsFactor(Operation &op) const {
    auto lacks = [&](Value value) { return lacks_.contains(value); };
    const auto count = llvm::count_if(op.getOperands(), lacks);
    if (count == 0 || op.getNumResults() != 1 || !isWide(op.getResult(0))) {
      return false;
    }
    auto lacksOrZero = [&](Value value) { return lacks(value) || isZero(value); };
    if (isa<NegOp, ConvertOp, BroadcastOp, ReshapeOp, TransposeOp, SliceOp, ReverseOp, ReduceSumOp, CumSumOp,
            PoolSumOp>(op)) {
      return true;
    }
    if (isa<TakeOp, TakeAlongOp, DynamicSliceOp>(op)) { // the others are positions
      return lacks(op.getOperand(0)) && count == 1;
    }
    if (isa<MulOp, DotOp, ConvOp, ConvGradInputOp, ConvGradWeightOp>(op)) {
      return count == 1;
    }
    if (isa<DivOp>(op)) {
      return lacks(op.getOperand(0)) && count == 1;
    }
    if (isa<AddOp, SubOp, ConcatOp, UpdateSliceOp, PadOp>(op)) {
      return llvm::all_of(op.getOperands(), lacksOrZero);
    }
    if (isa<SelectOp>(op)) {
      // Where the number is zero, rows that are not masked are not finite, and another mask would hide some of them.
      return llvm::all_of(op.getOperands().drop_front(), lacksOrZero) && isMasked(op);
    }
    if (auto put = dyn_cast<PutAlongOp>(op)) {
      return (put.getKind() == "set" || put.getKind() == "add") && lacksOrZero(put.getX()) && lacksOrZero(put.getU());
    }
    if (auto put = dyn_cast<PutOp>(op)) {
      return (put.getKind() == "set" || put.getKind() == "add") && lacksOrZero(put.getX()) && lacksOrZero(put.getU());
    }
    return false;
  }

  func::FuncOp step_;
  const Placement &placement_;
  const Count count_;
  llvm::DenseMap<Value, bool> lacks_; ///< and whether the counted mask was applied
  llvm::DenseMap<Value, unsigned> ready_;
  std::vector<Scaling> scalings_;
  std::vector<OpOperand *> escapes_;
  std::vector<std::pair<Operation *, bool>> sums_; ///< across roles, and whether of masked rows
  Value factor_, maskedFactor_;                    ///< the latter does nothing where the number is zero
};

struct DeferScales : sojourn::impl::DeferScalesBase<DeferScales> {
  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>(kStepName);
    if (!step || !getOperation()->hasAttr(kPartiesAttr)) {
      return;
    }
    for (unsigned exchanges = std::numeric_limits<unsigned>::max(); deferOne(step, exchanges);) {
    }
  }

  /// Whether there is an exchange less. `exchanges`: before; it becomes their number now.
  static bool deferOne(func::FuncOp step, unsigned &exchanges) {
    // What cannot be placed is refused later, with its reason.
    ScopedDiagnosticHandler quiet(step.getContext(), [](Diagnostic &) { return success(); });
    auto placement = Placement::of(step);
    if (failed(placement) || (*placement)->exchanges() < 2 || (*placement)->exchanges() >= exchanges) {
      return false;
    }
    exchanges = (*placement)->exchanges();
    llvm::DenseSet<Value> seen; // numbers
    for (Operation &op : step.getBody().front().without_terminator()) {
      const Scaling scaling = scalingOf(op, **placement);
      if (!scaling.factor || !seen.insert(scaling.count.number).second || seen.size() > kTriesMost) {
        continue;
      }
      if (Deferral deferral(step, **placement, scaling.count); deferral.saves()) {
        deferral.rewrite();
        return true;
      }
    }
    return false;
  }

  /// Numbers that are looked at; each look is a walk.
  static constexpr size_t kTriesMost = 16;
};

} // namespace
