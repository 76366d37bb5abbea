// SPDX-License-Identifier: Apache-2.0
// Norms per row (see Norms.h). Ghost norms need no gradient per row: of sum_t x_t y_t' the squared norm is the sum over
// pairs of terms of (x_t . x_s)(y_t . y_s) (Goodfellow 2015; Li et al. 2022 for sequences).
#include "passes/privacy/Norms.h"
#include "dialect/ContractionOps.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/IndexOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/UnaryOps.h"

#include "dialect/rows/Rounding.h"
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
    terms.push_back({cut, isNegative, std::move(moves)});
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
bool isPlainDot(const Term &term, PerRow &per) {
  auto dot = dyn_cast<DotOp>(term.cut->op);
  return dot && dot.getLhsBatch().empty() && per.rowsOf(*term.cut).slots == per.slots();
}

double numelOf(Value x) { return static_cast<double>(Emit::numel(rows::shapeOf(x))); }

// --- What a row costs, in nanoseconds of a core, as measured -------------------------------------------------------

/// Products in f64; values in f64 that are read and written once more.
constexpr double kFlopNs = 0.055, kPassNs = 1;

struct KeepCost {
  double flopNs, passNs;
};
/// Products of one row's matrices; and the passes over what is kept: squares, their sum, zeros for rows that do not
/// count, the sum over slots.
constexpr KeepCost kKeepWide{0.06, 4}, kKeepNarrow{0.025, 1.7};
/// What is kept of all results of a step together, beyond which the other way is taken where there is one.
constexpr double kKeptBytesMost = 0x1p30;

struct DotSizes {
  double terms, left, right;
};

DotSizes sizesOf(const Term &term, const PerRow &per) {
  double size = numelOf(term.cut->op->getResult(0)), slots = static_cast<double>(per.slots());
  double a = numelOf(term.cut->op->getOperand(0)) / slots, b = numelOf(term.cut->op->getOperand(1)) / slots;
  double count = std::max(1.0, std::round(std::sqrt(a * b / std::max(1.0, size))));
  return {count, a / count, b / count};
}

// --- Ways ----------------------------------------------------------------------------------------------------------

/// The operands of plain dots with their terms laid along time: [slots, terms of all, free].
std::pair<Value, Value> laidAlong(ArrayRef<Term> terms, PerRow &per, Emit &emit) {
  SmallVector<Value> left, right;
  for (const Term &term : terms) {
    Value a = per.plainMatrices(*term.cut, 0), b = per.plainMatrices(*term.cut, 1);
    left.push_back(term.isNegative ? emit.mul(a, emit.constant(-1, per.element())) : a);
    right.push_back(b);
  }
  return {emit.concat(left, 1), emit.concat(right, 1)};
}

/// What each row adds to a sum of plain dots that are moved alike: one product per row, and not one per use.
Value blocksOfDots(ArrayRef<Term> terms, PerRow &per, Emit &emit) {
  auto [a, b] = laidAlong(terms, per, emit);
  auto withSlots = [&](ArrayRef<int64_t> shape) {
    SmallVector<int64_t> sizes = {per.slots()};
    llvm::append_range(sizes, shape);
    return sizes;
  };
  Value blocks = emit.dot(a, b, {0}, {0}, {1}, {1});
  blocks = emit.reshape(blocks, withSlots(rows::shapeOf(terms[0].cut->op->getResult(0))));
  for (Operation *move : llvm::reverse(terms[0].moves)) {
    if (auto transpose = dyn_cast<TransposeOp>(move)) {
      SmallVector<int64_t> perm = {0};
      for (int64_t dim : transpose.getPerm()) {
        perm.push_back(dim + 1);
      }
      blocks = emit.transpose(blocks, perm);
    } else {
      blocks = emit.reshape(blocks, withSlots(rows::shapeOf(move->getResult(0))));
    }
  }
  return blocks;
}

class Ghost {
public:
  Ghost(PerRow &per, Emit &emit) : per(per), emit(emit) {}

  RowShare ofDots(ArrayRef<Term> terms) {
    auto [a, b] = laidAlong(terms, per, emit);
    double count = static_cast<double>(Emit::shape(a)[1]);
    double width = static_cast<double>(Emit::shape(a)[2] + Emit::shape(b)[2]);
    return {.way = RowShare::Way::Ghost,
            .squares = emit.sum(emit.mul(gram(a), gram(b)), {1, 2}),
            .mass = emit.mul(per.squares(a), per.squares(b)),
            .terms = width + count * count,
            .kept = {}};
  }

  RowShare ofPut(const Term &term) {
    auto [index, update] = per.scatter(*term.cut);
    double count = static_cast<double>(Emit::shape(index)[1]), width = static_cast<double>(Emit::shape(update)[2]);
    return {.way = RowShare::Way::Ghost,
            .squares = emit.sum(coincidences(*term.cut, index, index, gram(update)), {1, 2}),
            .mass = per.squaredMass(*term.cut),
            .terms = width + count * count,
            .kept = {}};
  }

  /// One weight as embedding and as output projection: a [slots, s, places], b [slots, s, width] and the rows written.
  RowShare ofTied(const Term &dot, const Term &put) {
    RowShare product = ofDots(dot), rows = ofPut(put);
    auto [index, update] = per.scatter(*put.cut);
    Value a = per.plainMatrices(*dot.cut, 0), b = per.plainMatrices(*dot.cut, 1);
    int64_t slots = per.slots(), s = Emit::shape(a)[1], t = Emit::shape(index)[1];
    // a[s, index_t], 0 where nothing is written.
    Value wide = emit.broadcast(emit.convert(index, emit.builder.getI64Type()), {slots, s, t}, {0, 2});
    Value picked = TakeAlongOp::create(emit.builder, emit.location,
                                       RankedTensorType::get({slots, s, t}, emit.builder.getF64Type()), a, wide, 2);
    Value cross = emit.sum(emit.mul(picked, emit.dot(b, update, {0}, {0}, {2}, {2})), {1, 2});
    double sign = dot.isNegative == put.isNegative ? 2 : -2;
    // The square of a sum is at most twice the sum of the squares.
    return {.way = RowShare::Way::Ghost,
            .squares = emit.add(emit.add(product.squares, rows.squares), emit.mul(cross, emit.constant(sign))),
            .mass = emit.mul(emit.add(product.mass, rows.mass), emit.constant(2)),
            .terms = product.terms + rows.terms + static_cast<double>(s * t + Emit::shape(b)[2]),
            .kept = {}};
  }

private:
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

/// The only term of a row: no more than one product, or one element of an operand.
RowShare direct(const Term &term, PerRow &per, Emit &emit) {
  RowShare share{.way = RowShare::Way::Direct, .squares = {}, .mass = {}, .kept = {}, .isNarrow = !per.isWide()};
  if (term.cut->form == CutForm::ReduceSum) {
    share.squares = per.squares(per.blocks(*term.cut));
    share.terms = numelOf(term.cut->op->getResult(0));
    return share;
  }
  Value a = per.squares(per.plainMatrices(*term.cut, 0)), b = per.squares(per.plainMatrices(*term.cut, 1));
  share.squares = emit.mul(a, b);
  DotSizes sizes = sizesOf(term, per);
  share.terms = sizes.left + sizes.right;
  if (share.isNarrow) {
    Value most = emit.constant(rows::kNarrowSquaresMost);
    Value inRange = emit.both(emit.compare("lt", a, most), emit.compare("lt", b, most));
    share.squares = emit.select(inRange, share.squares, emit.constant(std::numeric_limits<double>::infinity()));
  }
  return share;
}

/// The ghost way of a value and what it costs per row, its sum included.
struct GhostPlan {
  enum class Kind { None, Dots, Put, Tied } kind = Kind::None;
  double ns = 0;
};

GhostPlan ghostPlan(ArrayRef<Term> terms, PerRow &per) {
  bool isAligned = llvm::all_of(terms, [&](const Term &term) { return sameMoves(term, terms[0]); });
  bool isWhole = llvm::all_of(terms, [&](const Term &t) { return per.rowsOf(*t.cut).slots == per.slots(); });
  auto dotNs = [](double count, double product, double width) {
    return 2 * kFlopNs * (count * count * width + count * product) + 2 * kPassNs * count * width;
  };
  auto putNs = [&](const Term &term) {
    double count = static_cast<double>(term.cut->tokens);
    double width = numelOf(term.cut->op->getOperand(2)) / static_cast<double>(per.slots());
    return 2 * kFlopNs * count * width + 4 * kPassNs * (count * count + width);
  };
  if (isAligned && llvm::all_of(terms, [&](const Term &term) { return isPlainDot(term, per); })) {
    DotSizes first = sizesOf(terms[0], per);
    double count = 0;
    for (const Term &term : terms) {
      count += sizesOf(term, per).terms;
    }
    return {GhostPlan::Kind::Dots, dotNs(count, first.left * first.right, first.left + first.right)};
  }
  if (terms.size() == 1 && terms[0].cut->form == CutForm::Put && isWhole) {
    return {GhostPlan::Kind::Put, putNs(terms[0])};
  }
  if (terms.size() == 2 && isAligned && isWhole) {
    bool isPutFirst = terms[0].cut->form == CutForm::Put;
    const Term &dot = terms[isPutFirst ? 1 : 0], &put = terms[isPutFirst ? 0 : 1];
    auto writes = dyn_cast<PutOp>(put.cut->op);
    auto product = dyn_cast<DotOp>(dot.cut->op);
    if (writes && product && isPlainDot(dot, per) && writes.getDim() == 0 &&
        product.getA().getType().getRank() - static_cast<int64_t>(product.getLhsContract().size()) == 1) {
      DotSizes sizes = sizesOf(dot, per);
      double pairs = sizes.terms * static_cast<double>(put.cut->tokens);
      return {GhostPlan::Kind::Tied, dotNs(sizes.terms, sizes.left * sizes.right, sizes.left + sizes.right) +
                                         putNs(put) + pairs * (2 * kFlopNs * sizes.right + 4 * kPassNs)};
    }
  }
  return {};
}

double keepNs(Value value, ArrayRef<Term> terms, const KeepCost &cost, const PerRow &per) {
  double ns = numelOf(value) * cost.passNs;
  for (const Term &term : terms) {
    // Operands of uses are laid along time; of one use they lie so.
    ns += terms.size() == 1 ? 0 : kPassNs * (sizesOf(term, per).left + sizesOf(term, per).right);
    if (term.cut->form == CutForm::Dot) {
      ns += 2 * cost.flopNs * sizesOf(term, per).terms * numelOf(value);
    } else if (term.cut->form == CutForm::Put) {
      ns += 2 * numelOf(term.cut->op->getOperand(2)) / static_cast<double>(per.slots());
    }
  }
  return ns;
}

} // namespace

RowShare RowShares::of(Value yielded) {
  bool isNarrow = narrow && narrow->isNarrow(yielded);
  PerRow &per = isNarrow ? *narrow : wide;
  SmallVector<Term> terms;
  bool isMoved = collect(yielded, wide, false, {}, terms);
  if (isMoved && terms.size() == 1) {
    bool isProduct = isPlainDot(terms[0], wide) && sizesOf(terms[0], wide).terms == 1;
    bool isElement = terms[0].cut->form == CutForm::ReduceSum && terms[0].cut->tokens == 1 &&
                     wide.rowsOf(*terms[0].cut).slots == wide.slots();
    if (isProduct || isElement) {
      return direct(terms[0], per, emit);
    }
  }
  GhostPlan plan = isMoved ? ghostPlan(terms, wide) : GhostPlan();
  double bytes = numelOf(yielded) * static_cast<double>(wide.slots()) * (isNarrow ? 4 : 8);
  bool isGhost = plan.kind != GhostPlan::Kind::None &&
                 (keptBytes + bytes > kKeptBytesMost ||
                  plan.ns < keepNs(yielded, terms, isNarrow ? kKeepNarrow : kKeepWide, wide));
  if (!isGhost) {
    keptBytes += bytes;
    bool areDots = plan.kind == GhostPlan::Kind::Dots && terms.size() > 1;
    Value kept = areDots ? blocksOfDots(terms, per, emit) : per.blocks(yielded);
    return {.way = RowShare::Way::Kept,
            .squares = per.squares(kept),
            .mass = {},
            .terms = numelOf(yielded),
            .kept = kept,
            .isNarrow = isNarrow};
  }
  Ghost ghost(wide, emit);
  switch (plan.kind) {
  case GhostPlan::Kind::Dots: return ghost.ofDots(terms);
  case GhostPlan::Kind::Put: return ghost.ofPut(terms[0]);
  default: {
    bool isPutFirst = terms[0].cut->form == CutForm::Put;
    return ghost.ofTied(terms[isPutFirst ? 1 : 0], terms[isPutFirst ? 0 : 1]);
  }
  }
}
