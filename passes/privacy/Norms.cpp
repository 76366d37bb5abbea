// SPDX-License-Identifier: Apache-2.0
// Norms per row (see Norms.h). Ghost norms need no gradient per row: of sum_t x_t y_t' the squared norm is the sum over
// pairs of terms of (x_t . x_s)(y_t . y_s) (Goodfellow 2015; Li et al. 2022 for sequences).
#include "passes/privacy/Norms.h"

#include "dialect/rows/Support.h"

using namespace mlir;
using namespace sojourn;
using rows::Cut;
using rows::CutForm;

namespace {

/// A cut that the value adds or subtracts, and the ops that move its elements on the way.
struct Term {
  const Cut *cut;
  bool isNegative;
  SmallVector<Operation *> moves;
  /// How often it is counted at most, where the ops on the way may count it more than once.
  double weight = 1;
};

/// A value that is added to itself again and again names a cut more often than can be listed.
constexpr size_t kTermsMost = 1024;

/// The value as a signed sum of cuts whose elements are only moved; false where it is more.
bool collect(Value value, PerRow &per, bool isNegative, SmallVector<Operation *> moves, SmallVector<Term> &terms) {
  Operation *op = value.getDefiningOp();
  if (!op || terms.size() >= kTermsMost) {
    return false;
  }
  if (const Cut *cut = per.cutOf(op)) {
    terms.push_back({cut, isNegative, std::move(moves), 1});
    return true;
  }
  if (isa<ConvertOp>(op)) {
    return collect(op->getOperand(0), per, isNegative, std::move(moves), terms);
  }
  if (isa<NegOp>(op)) {
    return collect(op->getOperand(0), per, !isNegative, std::move(moves), terms);
  }
  if (isa<AddOp, SubOp>(op) && rows::shapeOf(op->getOperand(0)) == rows::shapeOf(op->getOperand(1))) {
    return collect(op->getOperand(0), per, isNegative, moves, terms) &&
           collect(op->getOperand(1), per, isNegative != isa<SubOp>(op), moves, terms);
  }
  if (isa<ReshapeOp, TransposeOp>(op)) {
    moves.push_back(op);
    return collect(op->getOperand(0), per, isNegative, std::move(moves), terms);
  }
  return false;
}

bool sameMove(Operation *a, Operation *b) {
  if (a->getName() != b->getName() || a->getOperand(0).getType() != b->getOperand(0).getType() ||
      a->getResult(0).getType() != b->getResult(0).getType()) {
    return false;
  }
  auto perm = dyn_cast<TransposeOp>(a);
  return !perm || perm.getPerm() == cast<TransposeOp>(b).getPerm();
}

bool sameMoves(const Term &a, const Term &b) {
  return a.moves.size() == b.moves.size() &&
         llvm::all_of(llvm::zip(a.moves, b.moves),
                      [](auto pair) { return sameMove(std::get<0>(pair), std::get<1>(pair)); }) &&
         a.cut->op->getResult(0).getType() == b.cut->op->getResult(0).getType();
}

/// A dot without batch dims over all slots, whose terms can be laid along time.
bool isPlainDot(const Cut &cut, PerRow &per) {
  auto dot = dyn_cast<DotOp>(cut.op);
  return dot && dot.getLhsBatch().empty() && per.rowsOf(cut).slots == per.slots();
}

/// The cuts below a value, through whatever a noise point may hold, with a bound of how often each element of theirs
/// counts in one of the value's: the number of ways to it, times the copies that are made on the way.
SmallVector<Term> weighted(Value yielded, PerRow &per) {
  llvm::DenseMap<Value, double> weights;
  weights[yielded] = 1;
  SmallVector<Term> terms;
  Operation *last = yielded.getDefiningOp();
  for (Operation *op = last; op; op = op->getPrevNode()) { // users come before what they use
    auto known = op->getNumResults() == 1 ? weights.find(op->getResult(0)) : weights.end();
    if (known == weights.end()) {
      continue;
    }
    double weight = known->second;
    if (const Cut *cut = per.cutOf(op)) {
      terms.push_back({cut, false, {}, weight});
      continue;
    }
    for (Value operand : op->getOperands()) {
      double copies = 1;
      if (isa<AddOp, SubOp>(op)) { // a splat
        copies = static_cast<double>(Emit::numel(rows::shapeOf(op->getResult(0)))) /
                 static_cast<double>(std::max<int64_t>(1, Emit::numel(rows::shapeOf(operand))));
      } else if (auto put = dyn_cast<PutOp>(op)) { // elements that meet
        copies = static_cast<double>(std::max<int64_t>(1, Emit::numel(rows::shapeOf(put.getI()))));
      }
      weights[operand] += weight * copies;
    }
  }
  return terms;
}

class Norms {
public:
  Norms(PerRow &per, Emit &emit) : per(per), emit(emit) {}

  SquaredNorm ofDots(ArrayRef<Term> terms) {
    SmallVector<Value> left, right;
    for (const Term &term : terms) {
      Value a = drop(per.matrices(*term.cut, 0)), b = drop(per.matrices(*term.cut, 1));
      left.push_back(term.isNegative ? emit.mul(a, emit.constant(-1)) : a);
      right.push_back(b);
    }
    Value a = emit.concat(left, 1), b = emit.concat(right, 1);
    int64_t count = Emit::shape(a)[1], p = Emit::shape(a)[2], q = Emit::shape(b)[2];
    Value mass = emit.mul(per.squares(a), per.squares(b));
    if (count == 1) {
      return {mass, {}, static_cast<double>(p + q), "direct"};
    }
    // Products of matrices run best when large: the pairs of terms have to be much fewer.
    if (2 * count * (p + q + 1) < p * q) {
      Value pairs = emit.mul(gram(a), gram(b));
      return {emit.sum(pairs, {1, 2}), mass, static_cast<double>(p + q + count * count), "ghost"};
    }
    return {per.squares(emit.dot(a, b, {0}, {0}, {1}, {1})), mass, static_cast<double>(count + p * q), "materialised"};
  }

  SquaredNorm ofPut(const Term &term) {
    auto [index, update] = per.scatter(*term.cut);
    int64_t count = Emit::shape(index)[1], width = Emit::shape(update)[2];
    return {emit.sum(coincidences(*term.cut, index, index, gram(update)), {1, 2}), per.squaredMass(*term.cut),
            static_cast<double>(width + count * count), "ghost"};
  }

  /// One weight as embedding and as output projection: a [slots, s, places], b [slots, s, width] and the rows written.
  SquaredNorm ofTied(const Term &dot, const Term &put) {
    SquaredNorm product = ofDots(dot), rows = ofPut(put);
    auto [index, update] = per.scatter(*put.cut);
    Value a = drop(per.matrices(*dot.cut, 0)), b = drop(per.matrices(*dot.cut, 1));
    int64_t slots = per.slots(), s = Emit::shape(a)[1], t = Emit::shape(index)[1];
    // a[s, index_t], 0 where nothing is written.
    Value wide = emit.broadcast(emit.convert(index, emit.builder.getI64Type()), {slots, s, t}, {0, 2});
    Value picked = TakeAlongOp::create(emit.builder, emit.location,
                                       RankedTensorType::get({slots, s, t}, emit.builder.getF64Type()), a, wide, 2);
    Value cross = emit.sum(emit.mul(picked, emit.dot(b, update, {0}, {0}, {2}, {2})), {1, 2});
    double sign = dot.isNegative == put.isNegative ? 2 : -2;
    Value squares = emit.add(emit.add(product.squares, rows.squares), emit.mul(cross, emit.constant(sign)));
    // The square of a sum is at most twice the sum of the squares.
    Value mass = emit.add(product.mass ? product.mass : product.squares, rows.mass);
    double count = product.terms + rows.terms + static_cast<double>(s * t + Emit::shape(b)[2]);
    return {squares, emit.mul(mass, emit.constant(2)), count, "ghost"};
  }

  SquaredNorm materialised(Value value, ArrayRef<Term> terms, bool isDirect) {
    Value mass;
    double count = static_cast<double>(Emit::numel(rows::shapeOf(value)));
    for (const Term &term : terms) {
      count += static_cast<double>(term.cut->tokens);
      Value each = per.squaredMass(*term.cut);
      if (term.weight != 1) {
        each = emit.mul(each, emit.constant(term.weight * term.weight));
      }
      mass = mass ? emit.add(mass, each) : each;
    }
    if (mass && terms.size() > 1) {
      mass = emit.mul(mass, emit.constant(static_cast<double>(terms.size())));
    }
    return {per.squares(per.blocks(value)), mass, count, isDirect ? "direct" : "materialised"};
  }

private:
  /// [slots, 1, terms, free] without the batch.
  Value drop(Value x) {
    ArrayRef<int64_t> sizes = Emit::shape(x);
    return emit.reshape(x, {sizes[0], sizes[2], sizes[3]});
  }
  Value gram(Value x) { return emit.dot(x, x, {0}, {0}, {2}, {2}); }

  /// `pairs` where two terms write at one place that exists, 0 elsewhere.
  Value coincidences(const Cut &cut, Value rows, Value columns, Value pairs) {
    auto put = cast<PutOp>(cut.op);
    Type i64 = emit.builder.getI64Type();
    double places = static_cast<double>(rows::shapeOf(put.getX())[static_cast<size_t>(put.getDim())]);
    ArrayRef<int64_t> sizes = Emit::shape(pairs);
    Value a = emit.broadcast(emit.convert(rows, i64), sizes, {0, 1});
    Value b = emit.broadcast(emit.convert(columns, i64), sizes, {0, 2});
    Value inRange =
        emit.both(emit.compare("ge", a, emit.constant(0, i64)), emit.compare("lt", a, emit.constant(places, i64)));
    return emit.select(emit.both(emit.compare("eq", a, b), inRange), pairs, emit.constant(0));
  }

  PerRow &per;
  Emit &emit;
};

} // namespace

SquaredNorm sojourn::squaredNorm(Value yielded, PerRow &per, Emit &emit) {
  Norms norms(per, emit);
  SmallVector<Term> terms;
  bool isMoved = collect(yielded, per, false, {}, terms);
  if (!isMoved) {
    return norms.materialised(yielded, weighted(yielded, per), false);
  }
  bool isAligned = llvm::all_of(terms, [&](const Term &term) { return sameMoves(term, terms[0]); });
  auto all = [&](CutForm form) {
    return llvm::all_of(terms, [&](const Term &term) { return term.cut->form == form; });
  };
  if ((terms.size() == 1 || isAligned) && all(CutForm::Dot) &&
      llvm::all_of(terms, [&](const Term &term) { return isPlainDot(*term.cut, per); })) {
    return norms.ofDots(terms);
  }
  bool isWhole = llvm::all_of(terms, [&](const Term &t) { return per.rowsOf(*t.cut).slots == per.slots(); });
  if (terms.size() == 1 && all(CutForm::Put) && isWhole) {
    return norms.ofPut(terms[0]);
  }
  if (terms.size() == 2 && isAligned && isWhole) {
    const Term *dot = &terms[0], *put = &terms[1];
    if (dot->cut->form == CutForm::Put) {
      std::swap(dot, put);
    }
    auto writes = dyn_cast<PutOp>(put->cut->op);
    auto product = dyn_cast<DotOp>(dot->cut->op);
    if (writes && product && isPlainDot(*dot->cut, per) && writes.getDim() == 0 &&
        product.getA().getType().getRank() - static_cast<int64_t>(product.getLhsContract().size()) == 1) {
      return norms.ofTied(*dot, *put);
    }
  }
  return norms.materialised(yielded, terms, all(CutForm::ReduceSum));
}
