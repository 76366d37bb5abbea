// SPDX-License-Identifier: Apache-2.0
// The walk of the row analysis and what it collects (see Analysis.h).
#include "dialect/rows/Analysis.h"

#include "dialect/Base.h"
#include "dialect/LayoutOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"
#include "dialect/rows/Support.h"

using namespace mlir;
using namespace sojourn;
using namespace sojourn::rows;

Fact Analysis::mixed(Operation *op, const llvm::Twine &text, Value operand) {
  reasons_.push_back({op, text.str(), operand});
  Fact fact;
  fact.reason = &reasons_.back();
  return fact;
}

unsigned Analysis::drawOf(Value index, int64_t slots) {
  auto [entry, isNew] = drawNumbers_.try_emplace(index, static_cast<unsigned>(draws_.size()));
  if (isNew) {
    draws_.push_back(
        {.index = index, .sampled = false, .slots = slots, .expected = 0, .population = 0, .read = {}, .tables = {}});
  }
  return entry->second;
}

std::optional<int64_t> Analysis::rowsOf(Value table) const {
  if (auto type = cast<TableType>(table.getType()); type.hasStaticRows()) {
    return type.getRows();
  }
  auto known = tables.find(table);
  return known == tables.end() ? std::nullopt : known->second.rows;
}

unsigned Analysis::sampledDraw(Value index, int64_t slots, int64_t expected, int64_t population) {
  unsigned number = drawOf(index, slots);
  draws_[number].sampled = true;
  draws_[number].expected = expected;
  draws_[number].population = population;
  return number;
}

Fact Analysis::cut(Cut cut) {
  unsigned number = static_cast<unsigned>(cuts_.size());
  Fact fact = Fact::of(Kind::Sum);
  fact.influence = influenceOf(cut);
  cuts_.push_back(std::move(cut));
  fact.cuts = intern({number});
  return fact;
}

const CutSet *Analysis::intern(CutSet set) {
  auto [entry, isNew] = sets_.insert(std::move(set));
  setElements_ += isNew ? entry->size() : 0;
  return &*entry;
}

const CutSet *Analysis::unite(const CutSet *a, const CutSet *b) {
  if (a == b || !b) {
    return a;
  }
  if (!a) {
    return b;
  }
  const CutSet *&known = unions_[{std::min(a, b), std::max(a, b)}];
  if (!known && setElements_ > kSetElements) {
    isFull_ = true; // `visit` gives up on what has cuts
    return a;
  }
  if (!known) {
    CutSet both;
    std::set_union(a->begin(), a->end(), b->begin(), b->end(), std::back_inserter(both));
    known = intern(std::move(both));
  }
  return known;
}

Fact Analysis::derived(ArrayRef<Fact> operands) {
  if (const Fact *bad = firstMixed(operands)) {
    return *bad;
  }
  Fact fact = Fact::publicValue();
  for (const Fact &operand : operands) {
    if (operand.hasCuts()) {
      fact.kind = Kind::Derived;
      fact.cuts = unite(fact.cuts, operand.cuts);
    }
  }
  return fact;
}

Fact Analysis::factOf(Value value) const {
  auto known = facts.find(value);
  return known == facts.end() ? Fact() : known->second;
}

/// Equal numbers in both runs, to the bit: integers, and floats other than the two zeros.
static bool isSameNumber(const Range &range, Type type) {
  return range.isConstant() && (range.low != 0 || !isa<FloatType>(getElementTypeOrSelf(type)));
}

/// A constant 0, and zeros that are moved, repeated or converted.
static bool isZeroByOp(Operation &op, ArrayRef<Fact> operands) {
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    if (auto number = dyn_cast<FloatAttr>(constant.getValue())) {
      return number.getValue().isZero();
    }
    auto number = dyn_cast<IntegerAttr>(constant.getValue());
    return number && number.getValue().isZero();
  }
  bool keepsElements = isa<ReshapeOp, BroadcastOp, TransposeOp, SliceOp, ReverseOp, PadOp, ConcatOp, ConvertOp>(op);
  return keepsElements && llvm::all_of(operands, [](const Fact &fact) { return fact.isZero(); });
}

void Analysis::visit(Operation &op) {
  SmallVector<Fact, 4> operands, results(op.getNumResults());
  for (Value operand : op.getOperands()) {
    operands.push_back(factOf(operand));
  }
  size_t cutsBefore = cuts_.size();
  if (auto rule = dyn_cast<RowRuleOp>(op)) {
    rule.inferRows(operands, *this, results);
  } else {
    results.assign(op.getNumResults(), mixed(&op, "has no rule for rows"));
  }
  for (auto [result, fact] : llvm::zip(op.getResults(), results)) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (fact.isMixed()) { // rules hand on that of an operand, of which only the reason holds here
      const Reason *reason = fact.reason;
      fact = Fact();
      fact.reason = reason;
    }
    if (fact.range == Range()) { // else the rule knew better
      fact.range = rangeOf(&op, result.getResultNumber(), operands);
    }
    fact.range = flushedRange(fact.range, result.getType());
    if (fact.present) {
      fact.present = flushedRange(*fact.present, result.getType());
    }
    if (isFull_ && fact.hasCuts()) {
      fact = mixed(&op, "the step has more sums over rows than the analysis can distinguish; split the step");
    }
    bool isEmpty = type && llvm::is_contained(type.getShape(), 0);
    if (fact.kind != Kind::Public && (isEmpty || isSameNumber(fact.range, result.getType()))) {
      Distinct distinct = fact.distinct;
      Range range = fact.range;
      fact = Fact::publicValue();
      fact.distinct = distinct;
      fact.range = range;
      if (!isEmpty) {
        constants.emplace_back(result, range.low);
      }
      if (op.getNumResults() == 1) {
        cuts_.resize(cutsBefore);
      }
    }
    fact.zero = fact.isPublic() && isZeroByOp(op, operands);
    if (fact.isSum() && cuts_.size() == cutsBefore) { // else the cut came with it
      fact.influence = influenceOf(&op, operands);
    }
    if (fact.isPerRow()) {
      if (!fact.present) { // else the rule knew
        fact.present = presentRangeOf(&op, result.getResultNumber(), operands);
        if (fact.present) {
          fact.present = flushedRange(*fact.present, result.getType());
        }
      }
      if (fact.present) { // the rule may know more of all slots
        fact.present = fact.present->meet(fact.range);
      }
      if (fact.present == fact.range) {
        fact.present.reset();
      }
      fact.nonzeros = nonzerosOf(&op, operands, fact);
    }
    facts[result] = fact;
  }
}

void Analysis::walk(Block &block) {
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      break;
    }
    visit(op);
  }
}

// Shared by the rules.

ArrayRef<int64_t> rows::shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

Fact rows::perRowAt(const Fact &operand, ArrayRef<int64_t> shape, const Place &place) {
  Fact fact = Fact::of(Kind::PerRow);
  fact.rows = operand.rows;
  fact.rows.stride = place.inner;
  for (int64_t size : shape.drop_front(static_cast<size_t>(place.dim) + 1)) {
    fact.rows.stride *= size;
  }
  return fact;
}

const Fact *rows::firstMixed(Operands operands) {
  const Fact *found = llvm::find_if(operands, [](const Fact &fact) { return fact.isMixed(); });
  return found == operands.end() ? nullptr : found;
}

bool rows::anyPerRow(Operands operands) {
  return llvm::any_of(operands, [](const Fact &fact) { return fact.isPerRow(); });
}

bool rows::anyCuts(Operands operands) {
  return llvm::any_of(operands, [](const Fact &fact) { return fact.hasCuts(); });
}

Fact rows::twoDraws(Operation *op, Analysis &analysis, Value operand) {
  return analysis.mixed(
      op, "operands hold different draws of rows; one batch may hold several tensors: batches({name: columns, ...})",
      operand);
}

Fact rows::straddles(Operation *op, Analysis &analysis, Value operand) {
  return analysis.mixed(op, "rows are spread over several dims of an operand", operand);
}

Fact rows::meetsSum(Operation *op, Operands operands, Analysis &analysis) {
  Value sum;
  for (auto [value, fact] : llvm::zip(op->getOperands(), operands)) {
    if (fact.hasCuts()) {
      sum = value;
    }
  }
  return analysis.mixed(op, "per-row values meet a value that was summed over rows", sum);
}

bool rows::settled(Operation *op, Operands operands, Analysis &analysis, Results results, bool isLinear) {
  if (const Fact *bad = firstMixed(operands)) {
    llvm::fill(results, *bad);
    return true;
  }
  if (!anyPerRow(operands)) {
    Fact fact = analysis.derived(operands);
    fact.kind = fact.hasCuts() && isLinear ? Kind::Sum : fact.kind;
    llvm::fill(results, fact);
    return true;
  }
  if (anyCuts(operands)) {
    llvm::fill(results, meetsSum(op, operands, analysis));
    return true;
  }
  return false;
}

std::optional<Place> rows::commonPlace(Operation *op, Operands operands, Analysis &analysis, Fact &reason) {
  std::optional<Place> common;
  const Fact *first = nullptr;
  for (auto [value, fact] : llvm::zip(op->getOperands(), operands)) {
    if (!fact.isPerRow()) {
      continue;
    }
    std::optional<Place> place = placeOf(fact.rows, shapeOf(value));
    if (!place) {
      reason = straddles(op, analysis, value);
      return std::nullopt;
    }
    if (!first) {
      first = &fact;
      common = place;
    } else if (fact.rows.draw != first->rows.draw) {
      reason = twoDraws(op, analysis, value);
      return std::nullopt;
    } else if (!fact.rows.sameSlots(first->rows) || *place != *common) {
      reason = analysis.mixed(op, "operands have their rows in different places", value);
      return std::nullopt;
    }
  }
  return common;
}
