// SPDX-License-Identifier: Apache-2.0
// Clipped sums, noise and draws as core ops (see Privacy.h). The sums are made as the step makes them, from operands
// that are scaled per row: no gradient per row is kept.
#include "passes/privacy/Norms.h"
#include "passes/privacy/Privacy.h"

#include "dialect/rows/Support.h"

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
      : op(op), builder(op), emit(builder, op.getLoc()), per(op, analysis, emit) {}

  void run() {
    Value drawn = emit.compare("ge", op.getSlots(), emit.constant(0, builder.getI64Type()));
    Operation *yield = op.getBody().front().getTerminator();
    SmallVector<Value> sums;
    if (op.getClip() == "none") {
      sums = scaledBody({{}, drawn}, yield->getOperands());
    } else if (op.getClip() == "flat") {
      SmallVector<SquaredNorm> norms;
      for (Value value : yield->getOperands()) {
        norms.push_back(squaredNorm(value, per, emit));
      }
      sums = scaledBody(factorsOf(norms, op.getBounds()[0], drawn), yield->getOperands());
    } else {
      for (auto [k, value] : llvm::enumerate(yield->getOperands())) {
        sums.append(scaledBody(factorsOf(squaredNorm(value, per, emit), op.getBounds()[k], drawn), value));
      }
    }
    op.replaceAllUsesWith(sums);
    op.erase();
  }

private:
  /// min(1, bound / e), rounded down, with e at least the norm and at least kCancellation of the mass. A row whose
  /// norm is no finite number counts as nothing.
  Factors factorsOf(ArrayRef<SquaredNorm> norms, double bound, Value drawn) {
    Value squares, mass;
    double terms = 64;
    for (const SquaredNorm &norm : norms) {
      squares = squares ? emit.add(squares, norm.squares) : norm.squares;
      if (norm.mass) {
        mass = mass ? emit.add(mass, norm.mass) : norm.mass;
      }
      terms = std::max(terms, norm.terms);
    }
    // Products of sums of so many terms, added over the tensors; 16 covers the few roundings of each.
    double kappa = 16 * (terms + static_cast<double>(norms.size())) * 0x1p-53;
    Value e = emit.mul(emit.max(squares, emit.constant(0)), emit.constant(1 + kappa));
    if (mass) {
      e = emit.add(e, emit.mul(mass, emit.constant(kappa)));
      e = emit.max(e, emit.mul(mass, emit.constant(rows::kCancellation * rows::kCancellation)));
    }
    Value norm = emit.mul(emit.sqrt(e), emit.constant(1 + 0x1p-49));
    Value finite = emit.compare("lt", norm, emit.constant(std::numeric_limits<double>::infinity()));
    Value factor = emit.min(emit.div(emit.constant(bound * (1 - 0x1p-49)), norm), emit.constant(1));
    Value keep = emit.both(drawn, finite);
    return {emit.select(keep, factor, emit.constant(0)), keep};
  }

  /// The region in f64, every cut made from the rows' operands with one of them scaled.
  SmallVector<Value> scaledBody(const Factors &factors, ValueRange wanted) {
    IRMapping mapping;
    auto inside = [&](Value value) { return mapping.contains(value) ? mapping.lookup(value) : per.outside(value); };
    auto wide = [&](Value value) {
      Value x = inside(value);
      return isa<FloatType>(Emit::element(x)) ? emit.wide(x) : x;
    };
    llvm::DenseSet<Operation *> needed;
    SmallVector<Value> todo(wanted);
    while (!todo.empty()) {
      Operation *maker = todo.pop_back_val().getDefiningOp();
      if (maker && maker->getParentOp() == op.getOperation() && needed.insert(maker).second && !per.cutOf(maker)) {
        llvm::append_range(todo, maker->getOperands());
      }
    }
    for (Operation &each : op.getBody().front()) {
      if (!needed.contains(&each)) {
        continue;
      }
      if (isa<ConvertOp>(each) && !per.cutOf(&each)) {
        mapping.map(each.getResult(0), wide(each.getOperand(0)));
        continue;
      }
      const rows::Cut *cut = per.cutOf(&each);
      Operation *copy = builder.clone(each);
      for (auto [k, operand] : llvm::enumerate(each.getOperands())) {
        bool isIndex = isa<PutOp>(each) && k == 1;
        Value x = cut       ? prepared(*cut, static_cast<unsigned>(k), wide(operand), factors)
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
    if (isIndex || (!isScaled && !cut.operands[k].isPerRow())) {
      return isIndex || !isa<IntegerType>(Emit::element(x)) ? x : emit.wide(x);
    }
    return per.scaled(x, per.alignmentOf(cut, k), isScaled ? factors.factor : Value(), factors.keep);
  }

  ClippedSumOp op;
  OpBuilder builder;
  Emit emit;
  PerRow per;
};

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

LogicalResult sojourn::lowerPrivacy(func::FuncOp step, const rows::Analysis &analysis, PrivacyPlan &plan) {
  SmallVector<ClippedSumOp> sums(step.getOps<ClippedSumOp>());
  SmallVector<NoiseOp> noises(step.getOps<NoiseOp>());
  SmallVector<SampleRowsOp> samples(step.getOps<SampleRowsOp>());
  for (ClippedSumOp sum : sums) {
    LowerSum(sum, analysis).run();
  }
  for (NoiseOp noise : noises) {
    lowerNoise(noise);
  }
  OpBuilder builder(step.getContext());
  for (SampleRowsOp sample : samples) {
    if (!sample.getExpected() || !analysis.isPrivateDraw(sample.getResult())) {
      continue;
    }
    auto type = sample.getResult().getType();
    unsigned number = step.getNumArguments();
    auto kind =
        builder.getDictionaryAttr(builder.getNamedAttr(kKindAttr, builder.getStringAttr(stringify(StepArg::Coin))));
    if (failed(step.insertArgument(number, type, kind, sample.getLoc()))) {
      return step.emitError() << "cannot take an argument for a draw";
    }
    plan.coins.push_back({.kind = CoinSpec::Kind::Draw,
                          .shape = type.getShape().vec(),
                          .rows = sample.getRows(),
                          .expected = *sample.getExpected(),
                          .scale = 0});
    sample.getResult().replaceAllUsesWith(step.getArgument(number));
    sample.erase();
  }
  return success();
}
