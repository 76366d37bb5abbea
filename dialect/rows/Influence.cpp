// SPDX-License-Identifier: Apache-2.0
// How far one row moves a sum, from ranges: what bounds a statistic without clipping. In exact arithmetic; rounding is
// paid where noise is added.
#include "dialect/Bounds.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/IndexOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/ReductionOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"
#include "dialect/rows/Support.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace sojourn;
using namespace sojourn::rows;

/// Moves a bound up by more than the few roundings that made it.
static double up(double bound) { return bound * (1 + 0x1p-48); }

/// Infinity times 0 bounds nothing.
static double known(double bound) { return std::isnan(bound) ? std::numeric_limits<double>::infinity() : bound; }

static double numel(Value value) {
  double count = 1;
  for (int64_t size : shapeOf(value)) {
    count *= static_cast<double>(size);
  }
  return count;
}

/// Elements of one slot that may be other than zero.
static double nonzeros(const Fact &fact, Value value) {
  if (!fact.isPerRow()) {
    return numel(value);
  }
  double all = numel(value) / static_cast<double>(fact.rows.slots);
  return fact.nonzeros ? std::min(all, static_cast<double>(*fact.nonzeros)) : all;
}

static Influence tightened(Influence x, double elements) {
  x.max = std::min(x.max, x.l2);
  x.l2 = std::min({x.l2, x.l1, up(std::sqrt(elements) * x.max)});
  x.l1 = std::min({x.l1, up(elements * x.max), up(std::sqrt(elements) * x.l2)});
  return {up(x.l1), up(x.l2), up(x.max)};
}

Influence rows::influenceOf(const Cut &cut) {
  Value result = cut.op->getResult(0);
  double elements = numel(result), tokens = static_cast<double>(cut.tokens);
  auto magnitude = [&](size_t k) { return cut.operands[k].presentRange().magnitude(); };
  auto count = [&](size_t k) { return nonzeros(cut.operands[k], cut.op->getOperand(static_cast<unsigned>(k))); };
  Influence x;
  switch (cut.form) {
  case CutForm::ReduceSum:
    x.max = magnitude(0) * std::min(tokens, count(0));
    x.l1 = magnitude(0) * count(0);
    // Without tokens each element of the row goes to a place of its own.
    x.l2 = cut.tokens == 1 ? magnitude(0) * std::sqrt(count(0)) : x.l1;
    break;
  case CutForm::Dot:
  case CutForm::ConvGradWeight:
    x.max = magnitude(0) * magnitude(1) * tokens;
    if (cut.form == CutForm::Dot && cut.operands[0].isPerRow() && cut.operands[1].isPerRow()) {
      // A product of the two blocks of a row: at most the product of their Frobenius norms.
      x.l2 = magnitude(0) * std::sqrt(count(0)) * magnitude(1) * std::sqrt(count(1));
      x.l1 = magnitude(0) * count(0) * magnitude(1) * count(1);
    }
    break;
  case CutForm::Put: {
    double width = numel(cut.op->getOperand(2)) / std::max(1.0, numel(cut.op->getOperand(1)));
    // At worst all of a row's terms go to one place.
    x.max = magnitude(2) * tokens;
    x.l1 = magnitude(2) * tokens * width;
    x.l2 = magnitude(2) * tokens * std::sqrt(width);
    break;
  }
  }
  return tightened({known(x.l1), known(x.l2), known(x.max)}, elements);
}

Influence rows::influenceOf(Operation *op, Operands operands) {
  Influence x;
  auto scaled = [](const Influence &in, double factor) -> Influence {
    if (!std::isfinite(factor)) {
      return {};
    }
    return {up(known(in.l1 * factor)), up(known(in.l2 * factor)), up(known(in.max * factor))};
  };
  auto both = [](const Influence &a, const Influence &b) -> Influence {
    return {up(a.l1 + b.l1), up(a.l2 + b.l2), up(a.max + b.max)};
  };
  auto of = [&](size_t k) { return operands[k].isSum() ? operands[k].influence : Influence{0, 0, 0}; };
  double copies = op->getNumOperands() == 0 ? 1 : numel(op->getResult(0)) / std::max(1.0, numel(op->getOperand(0)));
  TypeSwitch<Operation *>(op)
      .Case<NegOp, ConvertOp, ReshapeOp, TransposeOp, SliceOp, DynamicSliceOp, ReverseOp, PadOp>(
          [&](auto) { x = of(0); })
      .Case<BroadcastOp>([&](auto) {
        x = {up(of(0).l1 * copies), up(of(0).l2 * std::sqrt(copies)), of(0).max};
      })
      .Case<ConcatOp>([&](auto) {
        x = {0, 0, 0};
        for (size_t k = 0; k < operands.size(); ++k) {
          x = {up(x.l1 + of(k).l1), up(std::hypot(x.l2, of(k).l2)), std::max(x.max, of(k).max)};
        }
      })
      .Case<AddOp, SubOp>([&](auto) {
        auto spread = [&](unsigned k) -> Influence { // a splat goes to every element
          double times = numel(op->getResult(0)) / std::max(1.0, numel(op->getOperand(k)));
          return {up(of(k).l1 * times), up(of(k).l2 * std::sqrt(times)), of(k).max};
        };
        x = both(spread(0), spread(1));
      })
      .Case<MulOp>([&](auto) {
        size_t sum = operands[0].isSum() ? 0 : 1;
        if (shapeOf(op->getOperand(static_cast<unsigned>(sum))) == shapeOf(op->getResult(0))) {
          x = scaled(of(sum), operands[1 - sum].range.magnitude());
        }
      })
      .Case<DivOp>([&](auto) {
        const Range &divisor = operands[1].range;
        bool away = divisor.isBounded() && (divisor.low > 0 || divisor.high < 0);
        if (away && shapeOf(op->getOperand(0)) == shapeOf(op->getResult(0))) {
          x = scaled(of(0), 1 / std::min(std::abs(divisor.low), std::abs(divisor.high)));
        }
      })
      .Case<ReduceSumOp>([&](auto sum) {
        double terms = numel(sum.getX()) / std::max(1.0, numel(sum.getResult()));
        x = {of(0).l1, up(of(0).l2 * std::sqrt(terms)), up(of(0).max * terms)};
      })
      .Default([](auto) {});
  return tightened(x, numel(op->getResult(0)));
}

/// Whether `compare` asks, along one dim, which index a value has: eq of an iota along that dim and something that is
/// the same along it. At most one element along the dim holds.
static std::optional<int64_t> oneHotDim(CompareOp compare) {
  if (compare.getPredicate() != "eq") {
    return std::nullopt;
  }
  for (auto [ramp, other] : {std::pair(compare.getA(), compare.getB()), std::pair(compare.getB(), compare.getA())}) {
    int64_t dim;
    if (auto iota = ramp.getDefiningOp<IotaOp>()) {
      dim = iota.getDim();
    } else if (auto wide = ramp.getDefiningOp<BroadcastOp>();
               wide && wide.getX().getDefiningOp<IotaOp>() && wide.getX().getType().getRank() == 1 &&
               shapeOf(wide.getX())[0] == shapeOf(wide.getResult())[static_cast<size_t>(wide.getDims()[0])]) {
      dim = wide.getDims()[0]; // a ramp that is not repeated
    } else {
      continue;
    }
    if (!getElementTypeOrSelf(ramp.getType()).isSignlessInteger(64)) { // narrower ramps wrap or round
      continue;
    }
    auto same = other.getDefiningOp<BroadcastOp>();
    if (!same) {
      continue;
    }
    const auto *operandDim = llvm::find(same.getDims(), dim);
    bool isNew = operandDim == same.getDims().end();
    if (isNew || shapeOf(same.getX())[static_cast<size_t>(operandDim - same.getDims().begin())] == 1) {
      return dim;
    }
  }
  return std::nullopt;
}

std::optional<int64_t> rows::nonzerosOf(Operation *op, Operands operands, const Fact &result) {
  auto perSlot = [&] {
    std::optional<int64_t> all = checkedNumel(shapeOf(op->getResult(0)));
    return all ? *all / result.rows.slots : bounds::kDimension;
  };
  return TypeSwitch<Operation *, std::optional<int64_t>>(op)
      .Case<CompareOp>([&](CompareOp compare) -> std::optional<int64_t> {
        std::optional<int64_t> dim = oneHotDim(compare);
        if (!dim) {
          return std::nullopt;
        }
        return perSlot() / std::max<int64_t>(1, shapeOf(compare.getResult())[static_cast<size_t>(*dim)]);
      })
      .Case<ConvertOp, NegOp, AbsOp, ReshapeOp, TransposeOp>([&](auto) { return operands[0].nonzeros; })
      .Case<MulOp, AndOp>([&](auto) -> std::optional<int64_t> {
        // 0 times infinity is not 0: the other factor has to be finite.
        std::optional<int64_t> least;
        for (size_t k : {0, 1}) {
          const Range &other = operands[1 - k].presentRange();
          if (operands[k].nonzeros && (isa<AndOp>(op) || other.isBounded()) &&
              (!least || *operands[k].nonzeros < *least)) {
            least = operands[k].nonzeros;
          }
        }
        return least;
      })
      .Case<PutAlongOp>([&](PutAlongOp put) -> std::optional<int64_t> {
        // Each index writes one place; the others stay zero (one-hot labels).
        std::optional<int64_t> indices = checkedNumel(shapeOf(put.getI()));
        return operands[0].isZero() && indices ? std::optional(*indices / result.rows.slots) : std::nullopt;
      })
      .Case<SelectOp>(
          [&](auto) -> std::optional<int64_t> { return operands[2].isZero() ? operands[0].nonzeros : std::nullopt; })
      .Default([](auto) { return std::nullopt; });
}
