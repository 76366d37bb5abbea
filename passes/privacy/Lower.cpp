// SPDX-License-Identifier: Apache-2.0
// Clipped sums, noise and draws as core ops (see Privacy.h). A sum is made as the step makes it, from operands that are
// scaled per row, or from what each row adds, where that was made for its norm and is kept.
#include "dialect/CoreForm.h"
#include "dialect/IndexOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/OwnerOps.h"
#include "dialect/RowOps.h"
#include "dialect/UnaryOps.h"
#include "passes/privacy/Norms.h"
#include "passes/privacy/Privacy.h"
#include "passes/privacy/RowLists.h"

#include "dialect/rows/Rounding.h"
#include "dialect/rows/Support.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace sojourn;

namespace {

/// The factor of each row, and whether it counts at all.
struct Factors {
  Value factor, keep;
};

class LowerSum {
public:
  LowerSum(ClippedSumOp op, const rows::Analysis &analysis)
      : op(op), block(rows::accumulationOf(op).block), builder(op), emit(builder, op.getLoc()),
        wide(op, analysis, emit, builder.getF64Type()), narrow(op, analysis, emit, builder.getF32Type()) {}

  void run() {
    Value drawn = emit.compare("ge", op.getSlots(), emit.constant(0, builder.getI64Type()));
    OperandRange yielded = op.getBody().front().getTerminator()->getOperands();
    SmallVector<Value> sums;
    if (op.getClip() == "none") {
      sums = scaledBody({{}, drawn}, yielded);
    } else {
      RowShares shares(wide, block ? &narrow : nullptr, emit);
      SmallVector<RowShare> all;
      for (Value value : yielded) {
        all.push_back(shares.of(value));
      }
      if (op.getClip() == "flat") {
        sums = sumsOf(all, factorsOf(all, op.getBounds()[0], drawn), yielded);
      } else {
        for (auto [k, value] : llvm::enumerate(yielded)) {
          sums.append(sumsOf(all[k], factorsOf(all[k], op.getBounds()[k], drawn), value));
        }
      }
    }
    op.replaceAllUsesWith(sums);
    op.erase();
  }

private:
  /// min(1, bound / e), rounded down, with e at least the norm and at least kCancellation of the mass. A row whose
  /// norm is no finite number counts as nothing.
  Factors factorsOf(ArrayRef<RowShare> shares, double bound, Value drawn) {
    Value squares, mass;
    double terms = 64;
    for (const RowShare &share : shares) {
      squares = squares ? emit.add(squares, share.squares) : share.squares;
      if (share.mass) {
        mass = mass ? emit.add(mass, share.mass) : share.mass;
      }
      terms = std::max(terms, share.terms);
    }
    // Products of sums of so many terms, added over the tensors; 16 covers the few roundings of each.
    double kappa = 16 * (terms + static_cast<double>(shares.size())) * 0x1p-53;
    Value e = emit.mul(emit.max(squares, emit.constant(0)), emit.constant(1 + kappa));
    if (mass) {
      e = emit.add(e, emit.mul(mass, emit.constant(kappa)));
      e = emit.max(e, emit.mul(mass, emit.constant(rows::kCancellation * rows::kCancellation)));
    }
    Value norm = emit.mul(emit.sqrt(e), emit.constant(1 + 0x1p-49));
    Value finite = emit.compare("lt", norm, emit.constant(std::numeric_limits<double>::infinity()));
    Value factor = emit.min(emit.div(emit.constant(bound * (1 - 0x1p-49)), norm), emit.constant(1));
    double least = block ? rows::kNarrowFactorLeast : rows::kWideFactorLeast;
    Value keep = emit.both(emit.both(drawn, finite), emit.compare("ge", factor, emit.constant(least)));
    return {emit.select(keep, factor, emit.constant(0)), keep};
  }

  /// Each result in the way that its norm was made.
  SmallVector<Value> sumsOf(ArrayRef<RowShare> shares, const Factors &factors, ValueRange values) {
    SmallVector<Value> sums, again;
    for (auto [share, value] : llvm::zip(shares, values)) {
      bool isRegion = share.way == RowShare::Way::Ghost || (share.way == RowShare::Way::Direct && !share.isNarrow);
      if (isRegion) {
        again.push_back(value);
      }
      sums.push_back(isRegion                           ? Value()
                     : share.way == RowShare::Way::Kept ? keptSum(share, value, factors)
                                                        : directSum(value, factors));
    }
    auto next = scaledBody(factors, again);
    auto from = next.begin();
    for (Value &sum : sums) {
      sum = sum ? sum : *from++;
    }
    return sums;
  }

  /// [slots, ...] as [blocks, slots of one, all else].
  Value inBlocks(Value x) {
    int64_t slots = wide.slots();
    return emit.reshape(x, {slots / block, block, Emit::numel(Emit::shape(x)) / slots});
  }
  /// f32 partial sums, added: a few of them one after the other, so that the adding is part of what comes next.
  Value total(Value parts) {
    constexpr int64_t kFew = 8;
    SmallVector<int64_t> shape(Emit::shape(parts));
    if (shape[0] > kFew) {
      return emit.sum(parts, {0});
    }
    SmallVector<int64_t> rest(shape.begin() + 1, shape.end());
    Value sum;
    for (int64_t part = 0; part < shape[0]; ++part) {
      Value next = emit.reshape(emit.slice(parts, 0, part, part + 1), rest);
      sum = sum ? emit.add(sum, next) : next;
    }
    return sum;
  }

  /// The sum over the slots of what was kept, scaled.
  Value keptSum(const RowShare &share, Value value, const Factors &factors) {
    PerRow &per = share.isNarrow ? narrow : wide;
    int64_t slots = per.slots(), size = Emit::numel(Emit::shape(share.kept)) / slots;
    Value kept = per.scaled(emit.reshape(share.kept, {slots, size}), {}, factors.keep);
    Value sum;
    if (share.isNarrow) {
      Value factor = emit.reshape(emit.convert(factors.factor, per.element()), {slots / block, block});
      sum = total(emit.dot(factor, inBlocks(kept), {0}, {0}, {1}, {1}));
    } else {
      sum = emit.dot(factors.factor, kept, {}, {}, {0}, {0});
    }
    return emit.reshape(emit.wide(sum), rows::shapeOf(value));
  }

  /// A product or a sum over rows, made again in f32 from scaled operands, block by block; and the ops that move it.
  Value directSum(Value value, const Factors &factors) {
    Operation *maker = value.getDefiningOp();
    const rows::Cut *cut = narrow.cutOf(maker);
    if (!cut) {
      Value moved = directSum(maker->getOperand(0), factors);
      return llvm::TypeSwitch<Operation *, Value>(maker)
          .Case<ReshapeOp>([&](auto) { return emit.reshape(moved, rows::shapeOf(value)); })
          .Case<TransposeOp>([&](TransposeOp transpose) { return emit.transpose(moved, transpose.getPerm()); })
          .Case<NegOp>([&](auto) { return emit.mul(moved, emit.constant(-1)); })
          .Default([&](auto) { return moved; }); // convert: it is f64 already
    }
    Value sum;
    if (cut->form == rows::CutForm::ReduceSum) {
      sum = emit.sum(inBlocks(narrow.scaled(narrow.blocks(*cut), factors.factor, factors.keep)), {1});
    } else {
      SmallVector<Value> sides;
      for (unsigned k : {0u, 1u}) {
        Value factor = k == scaledOperand(*cut) ? factors.factor : Value();
        Value side = narrow.plainMatrices(*cut, k);
        side = emit.reshape(side, {Emit::shape(side)[0], Emit::shape(side)[2]});
        sides.push_back(inBlocks(narrow.scaled(side, factor, factors.keep)));
      }
      sum = emit.dot(sides[0], sides[1], {0}, {0}, {1}, {1});
    }
    return emit.reshape(emit.wide(total(sum)), rows::shapeOf(value));
  }

  /// The region in f64, every cut made from the rows' operands with one of them scaled.
  SmallVector<Value> scaledBody(const Factors &factors, ValueRange wanted) {
    IRMapping mapping;
    auto inside = [&](Value value) { return mapping.contains(value) ? mapping.lookup(value) : wide.outside(value); };
    auto wider = [&](Value value) {
      Value x = inside(value);
      return isa<FloatType>(Emit::element(x)) ? emit.wide(x) : x;
    };
    llvm::DenseSet<Operation *> needed;
    SmallVector<Value> todo(wanted);
    while (!todo.empty()) {
      Operation *maker = todo.pop_back_val().getDefiningOp();
      if (maker && maker->getParentOp() == op.getOperation() && needed.insert(maker).second && !wide.cutOf(maker)) {
        llvm::append_range(todo, maker->getOperands());
      }
    }
    for (Operation &each : op.getBody().front()) {
      if (!needed.contains(&each)) {
        continue;
      }
      if (isa<ConvertOp>(each) && !wide.cutOf(&each)) {
        mapping.map(each.getResult(0), wider(each.getOperand(0)));
        continue;
      }
      const rows::Cut *cut = wide.cutOf(&each);
      Operation *copy = builder.clone(each);
      for (auto [k, operand] : llvm::enumerate(each.getOperands())) {
        bool isIndex = isa<PutOp>(each) && k == 1;
        Value x = cut       ? prepared(*cut, static_cast<unsigned>(k), wider(operand), factors)
                  : isIndex ? inside(operand)
                            : emit.wide(inside(operand));
        copy->setOperand(static_cast<unsigned>(k), x);
      }
      copy->moveBefore(op);
      for (auto [from, to] : llvm::zip(each.getResults(), copy->getResults())) {
        to.setType(cast<RankedTensorType>(to.getType()).clone(builder.getF64Type()));
        mapping.map(from, to);
      }
    }
    SmallVector<Value> results;
    for (Value value : wanted) {
      results.push_back(emit.wide(inside(value)));
    }
    return results;
  }

  /// Which operand of a cut carries the factor: one that is per row, the smaller of two; of a put the updates.
  static unsigned scaledOperand(const rows::Cut &cut) {
    if (cut.form == rows::CutForm::Put) {
      return 2;
    }
    if (cut.operands.size() == 1 || !cut.operands[1].isPerRow()) {
      return 0;
    }
    if (!cut.operands[0].isPerRow()) {
      return 1;
    }
    return Emit::numel(rows::shapeOf(cut.op->getOperand(0))) <= Emit::numel(rows::shapeOf(cut.op->getOperand(1))) ? 0
                                                                                                                  : 1;
  }

  /// An operand of a cut, scaled, and zero for rows that do not count, so that 0 times infinity cannot be.
  Value prepared(const rows::Cut &cut, unsigned k, Value x, const Factors &factors) {
    bool isScaled = k == scaledOperand(cut);
    bool isIndex = cut.form == rows::CutForm::Put && k == 1;
    if (isIndex) {
      return x;
    }
    x = emit.wide(x);
    const rows::Fact &fact = cut.operands[k];
    if (op.getClip() == "none") {
      x = clamped(x, fact.presentRange().magnitude());
      if (fact.isPerRow() && fact.nonzeros && *fact.nonzeros < Emit::numel(Emit::shape(x)) / fact.rows.slots) {
        x = wide.sparse(x, fact.rows, *fact.nonzeros);
      }
    }
    if (!isScaled && !cut.operands[k].isPerRow()) {
      return x;
    }
    return wide.scaled(x, wide.alignmentOf(cut, k), isScaled ? factors.factor : Value(), factors.keep);
  }

  /// Elements of x with at most this magnitude, NaN as 0: what a row moves an unclipped sum by holds whatever the range
  /// of its operands was taken for. So it does for their number (PerRow::sparse).
  Value clamped(Value x, double magnitude) {
    Value most = emit.constant(magnitude), inside = emit.min(emit.max(x, emit.constant(-magnitude)), most);
    return emit.select(emit.compare("eq", inside, inside), inside, emit.constant(0));
  }

  ClippedSumOp op;
  int64_t block; ///< see rows::Accumulation
  OpBuilder builder;
  Emit emit;
  PerRow wide, narrow;
};

/// Operands of a clipped sum whose magnitudes are so small that their squares would be 0 in f64, as 0: a row's norm and
/// its share are made of the same numbers.
void flushOperands(ClippedSumOp op) {
  if (op.getClip() == "none") {
    return;
  }
  OpBuilder builder(op);
  Emit emit(builder, op.getLoc());
  for (OpOperand &operand : op.getInputsMutable()) {
    Value x = operand.get();
    if (Emit::element(x).isF64()) {
      Value magnitude = AbsOp::create(builder, op.getLoc(), x.getType(), x);
      Value isTiny = emit.compare("lt", magnitude, emit.constant(rows::kWideLeast));
      operand.set(emit.select(isTiny, emit.constant(0), x));
    }
  }
}

/// (round(x / h) + coin) h; h is a power of two, so that only the conversion at the end rounds.
void lowerNoise(NoiseOp op) {
  OpBuilder builder(op);
  Emit emit(builder, op.getLoc());
  double grid = std::ldexp(1.0, static_cast<int>(op.getExponent()));
  SmallVector<Value> results;
  for (auto [sum, coin, noised] : llvm::zip(op.getSums(), op.getCoins(), op.getNoised())) {
    Value units = emit.round(emit.mul(sum, emit.constant(1 / grid)));
    Value value = emit.mul(emit.add(units, emit.wide(coin)), emit.constant(grid));
    results.push_back(emit.convert(value, Emit::element(noised)));
  }
  op.replaceAllUsesWith(results);
  op.erase();
}

} // namespace

/// Draws with `expected` that are not replaced by coins are a public order. A noised sum may not be made of one: its
/// rows would be known, and what is charged for them would be that of a secret draw.
static LogicalResult checkDraws(func::FuncOp step, llvm::function_ref<bool(SampleRowsOp)> isReplaced) {
  llvm::DenseSet<Operation *> seen;
  SmallVector<Value> todo;
  for (NoiseOp noise : step.getOps<NoiseOp>()) {
    llvm::append_range(todo, noise.getSums());
  }
  while (!todo.empty()) {
    Operation *op = todo.pop_back_val().getDefiningOp();
    if (!op || isa<NoiseOp>(op) || !seen.insert(op).second) {
      continue;
    }
    if (auto sample = dyn_cast<SampleRowsOp>(op); sample && sample.getExpected() && !isReplaced(sample)) {
      return sample.emitError()
             << "a sum over this draw of rows is released, but no private table is read at the draw; record "
                "the step again, or report it";
    }
    llvm::append_range(todo, op->getOperands());
  }
  return success();
}

LogicalResult sojourn::lowerPrivacy(func::FuncOp step, const RowInputs &inputs, const rows::Analysis &analysis,
                                    PrivacyPlan &plan) {
  auto isReplaced = [&](SampleRowsOp sample) {
    return sample.getExpected() && analysis.isPrivateDraw(sample.getResult());
  };
  if (failed(checkDraws(step, isReplaced))) {
    return failure();
  }
  plan.fixedLists = rowListsProgram(step, inputs, ListTime::Plan);
  plan.sentLists = rowListsProgram(step, inputs, ListTime::Message);
  guardRowLists(step, inputs);
  SmallVector<ClippedSumOp> sums(step.getOps<ClippedSumOp>());
  SmallVector<NoiseOp> noises(step.getOps<NoiseOp>());
  SmallVector<SampleRowsOp> samples(step.getOps<SampleRowsOp>());
  for (ClippedSumOp sum : sums) {
    flushOperands(sum);
    LowerSum(sum, analysis).run();
  }
  for (NoiseOp noise : noises) {
    lowerNoise(noise);
  }
  OpBuilder builder(step.getContext());
  for (SampleRowsOp sample : samples) {
    if (!isReplaced(sample)) {
      continue;
    }
    auto type = sample.getResult().getType();
    unsigned number = step.getNumArguments();
    auto kind =
        builder.getDictionaryAttr(builder.getNamedAttr(kKindAttr, builder.getStringAttr(stringify(StepArg::Coin))));
    if (failed(step.insertArgument(number, type, kind, sample.getLoc()))) {
      return step.emitError() << "cannot add an argument for a draw";
    }
    plan.coins.push_back({.kind = CoinSpec::Kind::Draw,
                          .shape = type.getShape().vec(),
                          .rows = analysis.drawAt(sample.getResult())->population,
                          .expected = *sample.getExpected(),
                          .scale = 0});
    sample.getResult().replaceAllUsesWith(step.getArgument(number));
    sample.erase();
  }
  return success();
}
