// SPDX-License-Identifier: Apache-2.0
// Factors that roles know only after an exchange, moved behind the sums that they scale (pass sojourn-defer-scales).
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

/// x * s or x / s: rows in parts, by a number that all roles know.
struct Scaling {
  OpOperand *factor = nullptr; ///< null: it is none
  Value number;
  bool divides = false;
};

Scaling scalingOf(Operation &op, const Placement &placement) {
  if (!isa<MulOp, DivOp>(op) || !placement.whereOf(op.getResult(0)).isParts() || !isWide(op.getResult(0))) {
    return {};
  }
  for (OpOperand &operand : llvm::reverse(op.getOpOperands())) {
    const bool isDividend = isa<DivOp>(op) && operand.getOperandNumber() == 0;
    if (!isDividend && placement.whereOf(operand.get()).isAll()) {
      if (Value number = numberOf(operand.get())) {
        return {&operand, number, isa<DivOp>(op)};
      }
    }
  }
  return {};
}

/// How many rows a mask leaves.
struct Count {
  Value number, mask;
};

/// That `number` is, or divides by; empty where there is none.
Count countOf(Value number) {
  for (unsigned step = 0; step < 8; ++step) {
    Operation *made = number.getDefiningOp();
    if (auto sum = dyn_cast_if_present<ReduceSumOp>(made)) {
      auto ones = sum.getX().getDefiningOp<ConvertOp>();
      const bool isAll = cast<RankedTensorType>(sum.getType()).getRank() == 0;
      const bool isMask = ones && elementOf(ones.getX()).isInteger(1);
      return isAll && isMask ? Count{sum.getResult(), ones.getX()} : Count{};
    }
    if (!made || !isa<DivOp, ReshapeOp>(made)) {
      break;
    }
    number = made->getOperand(isa<DivOp>(made) ? 1 : 0);
  }
  return {};
}

/// Rows that lack a factor: whether all went through a select with zeros after they were scaled, and the mask of that
/// select, where it is the same for all.
struct Lacking {
  bool isMasked = false;
  Value mask;
};

/// Values that lack one factor, and what becomes of them.
class Deferral {
public:
  Deferral(func::FuncOp step, const Placement &placement, const Scaling &first)
      : step_(step), placement_(placement), number_(first.number), divides_(first.divides),
        count_(countOf(first.number)) {}

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
    const int64_t rows = rowsOf(*placement_.whereOf(scalings_.front()->getOwner()->getResult(0)).segments);
    const double power = static_cast<double>(llvm::PowerOf2Ceil(static_cast<uint64_t>(rows)));
    Operation *at = scalings_.front()->getOwner();
    OpBuilder builder(at);
    const Type element = elementOf(number_);
    Value factor = number_;
    if (cast<RankedTensorType>(number_.getType()).getRank() != 0) {
      factor = ReshapeOp::create(builder, at->getLoc(), RankedTensorType::get({}, element), factor);
    }
    factor_ = MulOp::create(builder, at->getLoc(), factor.getType(), factor,
                            constant(builder, at->getLoc(), element, divides_ ? 1 / power : power));
    if (count_.number) { // all rows are masked where it is zero, and the sums are
      Value none = constant(builder, at->getLoc(), elementOf(count_.number), 0);
      Value isNone = CompareOp::create(builder, at->getLoc(), RankedTensorType::get({}, builder.getI1Type()),
                                       count_.number, none, "eq");
      countedFactor_ = SelectOp::create(builder, at->getLoc(), factor.getType(), isNone,
                                        constant(builder, at->getLoc(), element, divides_ ? 1 : 0), factor_);
    }
    for (OpOperand *scaled : scalings_) {
      builder.setInsertionPoint(scaled->getOwner());
      Value rest = constant(builder, at->getLoc(), element, divides_ ? power : 1 / power);
      if (auto factorType = cast<RankedTensorType>(scaled->get().getType()); factorType.getRank() != 0) {
        rest = BroadcastOp::create(builder, at->getLoc(), factorType, rest, builder.getDenseI64ArrayAttr({}));
      }
      scaled->set(rest);
    }
    for (const auto &sums : sums_) {
      Operation *sum = sums.first;
      builder.setInsertionPointAfter(sum);
      Value whole = scaled(builder, sum->getResult(0), sums.second);
      sum->getResult(0).replaceUsesWithIf(whole, [&](OpOperand &use) { return !made_.contains(use.getOwner()); });
    }
    for (OpOperand *escape : escapes_) {
      builder.setInsertionPoint(escape->getOwner());
      escape->set(scaled(builder, escape->get(), lacks_.lookup(escape->get())));
    }
  }

private:
  /// Times the factor. A sum of masked rows that is zero stays zero, whatever the factor is: the rows were masked after
  /// they were scaled.
  Value scaled(OpBuilder &builder, Value value, const Lacking &lacking) {
    const bool isCounted = count_.number && lacking.mask == count_.mask;
    const Location location = value.getLoc();
    auto type = cast<RankedTensorType>(value.getType());
    auto note = [&](Value made) {
      made_.insert(made.getDefiningOp());
      return made;
    };
    Value factor = isCounted ? countedFactor_ : factor_;
    if (elementOf(factor) != type.getElementType()) { // converted on the way
      factor = ConvertOp::create(builder, location, RankedTensorType::get({}, type.getElementType()), factor);
    }
    Value whole = divides_ ? note(DivOp::create(builder, location, type, value, factor))
                           : note(MulOp::create(builder, location, type, value, factor));
    if (isCounted || !lacking.isMasked) {
      return whole;
    }
    Value zero = constant(builder, location, type.getElementType(), 0);
    Value isNone = note(CompareOp::create(
        builder, location, RankedTensorType::get(type.getShape(), builder.getI1Type()), value, zero, "eq"));
    return note(SelectOp::create(builder, location, type, isNone, value, whole));
  }

  /// The exchanges until the results are there.
  unsigned visit(Operation &op) {
    unsigned level = 0;
    const Scaling scaling = scalingOf(op, placement_);
    const bool isScaling = scaling.factor && scaling.number == number_ && scaling.divides == divides_ &&
                           llvm::none_of(op.getOperands(), [&](Value operand) { return lacks_.contains(operand); });
    const bool isSum = placement_.meetingOf(&op) != 0;
    // A sum of values of two roles may go on with a third one's, and stays where it is.
    const bool lacks = isScaling || (keepsFactor(op) && (!isSum || placement_.rowsSummed(&op)));
    for (OpOperand &operand : op.getOpOperands()) {
      const bool isDeferred = isScaling && &operand == scaling.factor;
      level = std::max(level, isDeferred ? 0 : ready_.lookup(operand.get()));
      if (!lacks && lacks_.contains(operand.get())) {
        escapes_.push_back(&operand);
        level = std::max(level, ready_.lookup(number_));
      }
    }
    level += isSum ? 1 : 0;
    if (isScaling) {
      scalings_.push_back(scaling.factor);
      lacks_[op.getResult(0)] = {};
    } else if (lacks && isSum) {
      sums_.push_back({&op, masked(op)});
      ready_[op.getResult(0)] = std::max(level, ready_.lookup(number_));
      return level;
    } else if (lacks) {
      lacks_[op.getResult(0)] = masked(op);
    }
    for (Value result : op.getResults()) {
      ready_[result] = level;
    }
    return level;
  }

  Lacking masked(Operation &op) const {
    std::optional<Lacking> all;
    for (Value operand : op.getOperands()) {
      if (auto found = lacks_.find(operand); found != lacks_.end()) {
        const Lacking &own = found->second;
        all = !all ? own : Lacking{all->isMasked && own.isMasked, all->mask == own.mask ? own.mask : Value()};
      }
    }
    if (auto select = dyn_cast<SelectOp>(op); select && !all->isMasked) {
      all->isMasked = isZero(select.getA()) || isZero(select.getB());
      all->mask = isZero(select.getB()) ? select.getPred() : Value();
    }
    return *all;
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
      return !lacks(op.getOperand(0)) && llvm::all_of(op.getOperands().drop_front(), lacksOrZero);
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
  const Value number_;
  const bool divides_;
  const Count count_;
  llvm::DenseMap<Value, Lacking> lacks_;
  llvm::DenseMap<Value, unsigned> ready_;
  std::vector<OpOperand *> scalings_, escapes_;
  std::vector<std::pair<Operation *, Lacking>> sums_; ///< across roles
  llvm::DenseSet<Operation *> made_;
  Value factor_, countedFactor_; ///< the latter does nothing where the count is zero
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
    llvm::DenseSet<std::pair<Value, unsigned>> seen;
    for (Operation &op : step.getBody().front().without_terminator()) {
      const Scaling scaling = scalingOf(op, **placement);
      if (!scaling.factor || matchPattern(scaling.number, m_Constant()) ||
          !seen.insert({scaling.number, scaling.divides ? 1 : 0}).second || seen.size() > kTriesMost) {
        continue;
      }
      if (Deferral deferral(step, **placement, scaling); deferral.saves()) {
        deferral.rewrite();
        return true;
      }
    }
    return false;
  }

  /// Factors that are looked at; each look is a walk.
  static constexpr size_t kTriesMost = 16;
};

} // namespace
