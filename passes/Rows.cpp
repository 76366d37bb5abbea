// SPDX-License-Identifier: Apache-2.0
// The walk over a program (see Rows.h), and sojourn-rows, which prints what it finds.
#include "passes/Rows.h"

#include "dialect/Bounds.h"
#include "dialect/CoreForm.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/IndexOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/UnaryOps.h"
#include "dialect/rows/Support.h"
#include "passes/Passes.h"

#include "llvm/Support/MathExtras.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <cmath>
#include <set>

namespace sojourn {
#define GEN_PASS_DEF_PRINTROWS
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;

RowInputs RowInputs::ofStep(func::FuncOp step) {
  RowInputs inputs;
  for (Type type : step.getArgumentTypes()) {
    Argument argument;
    argument.isPublic = !isa<TableType>(type);
    argument.table.isPrivate = isa<TableType>(type);
    inputs.arguments.push_back(std::move(argument));
  }
  return inputs;
}

void sojourn::analyseRows(func::FuncOp step, const RowInputs &inputs, rows::Analysis &analysis) {
  for (BlockArgument argument : step.getArguments()) {
    RowInputs::Argument known;
    if (argument.getArgNumber() < inputs.arguments.size()) {
      known = inputs.arguments[argument.getArgNumber()];
    }
    auto kind = step.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kKindAttr);
    if (kind && kind.getValue() == stringify(StepArg::Coin)) {
      analysis.coins.insert(argument);
      analysis.facts[argument] = rows::Fact::publicValue();
    } else if (isa<TableType>(argument.getType())) {
      analysis.facts[argument] = rows::Fact::publicValue(); // its shape; rows come through read_rows
      analysis.tables[argument] = std::move(known.table);
    } else if (known.isPublic) {
      rows::Fact fact = rows::Fact::publicValue();
      fact.range = known.range == rows::Range() ? rows::rangeOfType(argument.getType()) : known.range;
      fact.zero = known.range.isConstant() && known.range.low == 0;
      analysis.facts[argument] = fact;
    } else {
      analysis.facts[argument] = analysis.mixed(
          step, "argument #" + Twine(argument.getArgNumber()) + " was computed from private rows and is not released",
          argument);
    }
  }
  analysis.walk(step.getBody().front());
}

static std::string shortly(double number) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.6g", number);
  return text;
}

/// "[0, inf] or NaN"; nothing where every number may stand there.
static std::string describe(const rows::Range &range, StringRef before) {
  if (range.nan && std::isinf(range.low) && std::isinf(range.high)) {
    return {};
  }
  return (before + "[" + shortly(range.low) + ", " + shortly(range.high) + "]" + (range.nan ? " or NaN" : "")).str();
}

/// The Euclidean norm, and the other two where they are other numbers.
static std::string describe(const rows::Influence &influence) {
  if (!(influence.max <= std::numeric_limits<double>::max()) || std::isnan(influence.l2)) {
    return {};
  }
  std::string sum = shortly(influence.l1), norm = shortly(influence.l2), largest = shortly(influence.max);
  std::string others = sum == norm && largest == norm ? "" : " (sum " + sum + ", largest " + largest + ")";
  return ", one row moves it by " + norm + others;
}

std::string sojourn::describe(const rows::Fact &fact) {
  std::string text = rows::stringify(fact.kind).str();
  auto list = [&] {
    std::string cuts;
    for (unsigned cut : *fact.cuts) {
      cuts += (cuts.empty() ? "" : ", ") + std::to_string(cut);
    }
    return cuts;
  };
  switch (fact.kind) {
  case rows::Kind::Public: break;
  case rows::Kind::PerRow:
    text += ": draw " + std::to_string(fact.rows.draw) + ", " + std::to_string(fact.rows.slots) + " slots, stride " +
            std::to_string(fact.rows.stride);
    if (fact.rows.first != 0 || fact.rows.step != 1) {
      text += ", from slot " + std::to_string(fact.rows.first) + " by " + std::to_string(fact.rows.step);
    }
    if (fact.rows.start) {
      text += ", of " + std::to_string(fact.rows.among) + " from a run-time position";
    }
    break;
  case rows::Kind::Sum: text += ": cuts " + list() + ::describe(fact.influence); break;
  case rows::Kind::Derived: text += ": cuts " + list(); break;
  case rows::Kind::Mixed: text += ": " + (fact.reason ? fact.reason->text : std::string("not visited")); break;
  }
  if (fact.nonzeros) {
    text += ", at most " + std::to_string(*fact.nonzeros) + " not zero";
  }
  if (fact.present) {
    text += ::describe(*fact.present, ", rows in ");
  }
  text += ::describe(fact.range, ", in ");
  switch (fact.distinct) {
  case rows::Distinct::No: break;
  case rows::Distinct::Rows: text += ", no row twice"; break;
  case rows::Distinct::Numbers: text += ", no number twice"; break;
  }
  return text;
}

/// Of a value that is not public: draws of the owner whose coins may reach it without noise, and draws at which no
/// private table is read, so that no account pays.
static std::string describeDraws(const rows::Fact &fact, rows::Analysis &analysis) {
  std::set<unsigned> draws;
  if (fact.isPerRow()) {
    draws.insert(fact.rows.draw);
  } else if (fact.hasCuts()) {
    for (unsigned cut : *fact.cuts) {
      draws.insert(analysis.cuts()[cut].draw);
    }
  }
  auto listed = [&](StringRef what, auto holds) {
    std::string numbers;
    for (unsigned draw : draws) {
      if (holds(analysis.draw(draw))) {
        numbers += (numbers.empty() ? "" : ", ") + std::to_string(draw);
      }
    }
    return numbers.empty() ? numbers : (", " + what + numbers).str();
  };
  return listed("secret of draws ", [](const rows::Draw &draw) { return draw.sampled; }) +
         listed("not paid by draws ", [](const rows::Draw &draw) { return draw.tables.empty(); });
}

/// Ops that only move, add or negate: the norm of what they make follows from what they take.
static bool isStructural(Operation *op) {
  return isa<AddOp, SubOp, NegOp, ConvertOp, ReshapeOp, TransposeOp, ConcatOp, SliceOp, PadOp, PutOp>(op);
}

/// Ops between a cut and its noise, a power of 2: long enough for the steps of a recurrent net, short enough to recurse
/// over.
static constexpr size_t kChainMost = 512;
static_assert(llvm::isPowerOf2_64(kChainMost));

std::vector<NoisePoint> sojourn::findNoisePoints(func::FuncOp step, const rows::Analysis &analysis) {
  // Values that a result is computed from.
  llvm::DenseSet<Value> needed;
  SmallVector<Value> todo(step.getBody().front().getTerminator()->getOperands());
  while (!todo.empty()) {
    Value value = todo.pop_back_val();
    if (needed.insert(value).second && value.getDefiningOp()) {
      llvm::append_range(todo, value.getDefiningOp()->getOperands());
    }
  }
  auto findOnlyUser = [&](Value value) -> Operation * {
    Operation *user = nullptr;
    for (OpOperand &use : value.getUses()) {
      bool isNeeded = use.getOwner()->hasTrait<OpTrait::IsTerminator>() ||
                      llvm::any_of(use.getOwner()->getResults(), [&](Value v) { return needed.contains(v); });
      if (!isNeeded) {
        continue;
      }
      if (user && user != use.getOwner()) {
        return nullptr;
      }
      user = use.getOwner();
    }
    return user;
  };
  // By value: whoever uses it asks again.
  llvm::DenseMap<Value, Operation *> users;
  auto onlyUser = [&](Value value) {
    auto [known, isNew] = users.try_emplace(value, nullptr);
    return isNew ? known->second = findOnlyUser(value) : known->second;
  };

  // Sums that are cuts, moved and added: what the lowering of a clipped sum takes apart.
  llvm::DenseSet<Operation *> plain;
  for (const rows::Cut &cut : analysis.cuts()) {
    plain.insert(cut.op);
  }
  for (Operation &op : step.getBody().front()) {
    // Whoever else uses one of these sums needs it with noise: then that is the point, and what is added to it another.
    if (isStructural(&op) && llvm::all_of(op.getOperands(), [&](Value operand) {
          return !analysis.factOf(operand).isSum() ||
                 (plain.contains(operand.getDefiningOp()) && onlyUser(operand) == &op);
        })) {
      plain.insert(&op);
    }
  }

  // Sets of cuts of one draw, with it; a set of two draws, or without a cut, has none.
  llvm::DenseMap<const rows::CutSet *, std::optional<unsigned>> draws;
  auto drawOf = [&](Value value) -> std::optional<unsigned> {
    const rows::Fact fact = analysis.factOf(value);
    if (!fact.isSum() || fact.cuts->empty()) {
      return std::nullopt;
    }
    const rows::CutSet &cuts = *fact.cuts;
    auto [known, isNew] = draws.try_emplace(&cuts, analysis.cuts()[cuts.front()].draw);
    if (isNew && !llvm::all_of(cuts, [&](unsigned c) { return analysis.cuts()[c].draw == *known->second; })) {
      known->second.reset();
    }
    return known->second;
  };

  // Per plain op, by number: the plain op that alone uses it and is of the same draw (noise of two draws is two
  // releases), or itself. Each round below doubles the reach of all links, so that chains that meet are walked once.
  SmallVector<Operation *> links(plain.begin(), plain.end());
  llvm::DenseMap<Operation *, unsigned> linkOf;
  for (auto [number, op] : llvm::enumerate(links)) {
    linkOf[op] = static_cast<unsigned>(number);
  }
  std::vector<unsigned> ends(links.size());
  for (auto [number, op] : llvm::enumerate(links)) {
    Value value = op->getResult(0);
    Operation *user = needed.contains(value) ? onlyUser(value) : nullptr;
    auto next = user ? linkOf.find(user) : linkOf.end();
    std::optional<unsigned> draw = drawOf(value);
    const bool goesOn = draw && next != linkOf.end() && drawOf(user->getResult(0)) == draw;
    ends[number] = goesOn ? next->second : static_cast<unsigned>(number);
  }
  for (size_t reach = 1; reach < kChainMost; reach *= 2) {
    std::vector<unsigned> further(ends.size());
    llvm::transform(ends, further.begin(), [&](unsigned end) { return ends[end]; });
    ends = std::move(further);
  }

  std::vector<NoisePoint> points;
  llvm::DenseMap<Value, size_t> numbers;
  for (auto [number, cut] : llvm::enumerate(analysis.cuts())) {
    Value value = cut.op->getResult(0);
    if (!needed.contains(value) || !analysis.factOf(value).isSum()) {
      continue;
    }
    value = links[ends[linkOf[cut.op]]]->getResult(0);
    auto [entry, isNew] = numbers.try_emplace(value, points.size());
    if (isNew) {
      points.push_back({value, {}});
    }
    points[entry->second].cuts.push_back(static_cast<unsigned>(number));
  }
  return points;
}

llvm::SetVector<Operation *> sojourn::chainOf(ArrayRef<NoisePoint> points, const rows::Analysis &analysis) {
  llvm::SetVector<Operation *> chain;
  llvm::DenseSet<Operation *> cuts;
  SmallVector<Value> todo;
  for (const NoisePoint &point : points) {
    todo.push_back(point.value);
    for (unsigned cut : point.cuts) {
      cuts.insert(analysis.cuts()[cut].op);
    }
  }
  while (!todo.empty()) {
    Operation *op = todo.pop_back_val().getDefiningOp();
    if (!op || !chain.insert(op) || cuts.contains(op)) {
      continue;
    }
    llvm::copy_if(op->getOperands(), std::back_inserter(todo),
                  [&](Value operand) { return analysis.factOf(operand).isSum(); });
  }
  SmallVector<Operation *> ordered = chain.takeVector();
  llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return {ordered.begin(), ordered.end()};
}

LogicalResult sojourn::parseBounds(func::FuncOp step, ArrayRef<std::string> bounds, RowInputs &inputs) {
  for (StringRef text : bounds) {
    auto [name, range] = text.split('=');
    auto [low, high] = range.split(':');
    double from, to;
    if (low.getAsDouble(from) || high.getAsDouble(to) || !(from <= to)) {
      return step.emitError() << "bounds are '" << text << "', expected COLUMN=LOW:HIGH";
    }
    for (BlockArgument argument : step.getArguments()) {
      auto table = dyn_cast<TableType>(argument.getType());
      if (!table) {
        continue;
      }
      auto &columns = inputs.arguments[argument.getArgNumber()].table.columns;
      columns.resize(table.getNames().size());
      for (auto [k, column] : llvm::enumerate(table.getNames())) {
        if (column.getValue() == name || name == "*") {
          bool whole = isa<IntegerType>(getElementTypeOrSelf(table.getTypes()[k]));
          columns[k] = rows::Range::of(from, to, whole);
        }
      }
    }
  }
  return success();
}

LogicalResult sojourn::setRows(func::FuncOp step, ArrayRef<int64_t> rows, RowInputs &inputs) {
  SmallVector<unsigned> tables;
  for (BlockArgument argument : step.getArguments()) {
    if (isa<TableType>(argument.getType())) {
      tables.push_back(argument.getArgNumber());
    }
  }
  bool isInside = llvm::all_of(rows, [](int64_t count) { return count >= 0 && count <= bounds::kTableRows; });
  if (!isInside || (rows.size() > 1 && rows.size() != tables.size())) {
    return step.emitError() << "rows has " << rows.size() << " numbers for " << tables.size()
                            << " tables, expected one for each, from 0 to " << boundText(bounds::kTableRows)
                            << ", or one for all";
  }
  for (size_t k = 0; k < tables.size() && !rows.empty(); ++k) {
    inputs.arguments[tables[k]].table.rows = rows[rows.size() == 1 ? 0 : k];
  }
  return success();
}

namespace {
struct PrintRows : sojourn::impl::PrintRowsBase<PrintRows> {
  using PrintRowsBase::PrintRowsBase;

  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>(kStepName);
    if (!step || step.isExternal() || !step.getBody().hasOneBlock()) {
      getOperation().emitError() << "the module has no straight-line function @" << kStepName;
      return signalPassFailure();
    }
    RowInputs inputs = RowInputs::ofStep(step);
    if (failed(parseBounds(step, bounds, inputs)) || failed(setRows(step, tableRows, inputs))) {
      return signalPassFailure();
    }
    for (unsigned number : openTables) {
      if (number >= inputs.arguments.size()) {
        step.emitError() << "open-tables names argument #" << number << " of " << inputs.arguments.size();
        return signalPassFailure();
      }
      inputs.arguments[number].table.isPrivate = false;
    }
    rows::Analysis analysis;
    analyseRows(step, inputs, analysis);
    for (Operation &op : step.getBody().front()) {
      for (Value result : op.getResults()) {
        op.emitRemark() << describe(analysis.factOf(result)) << describeDraws(analysis.factOf(result), analysis);
      }
    }
    Operation *terminator = step.getBody().front().getTerminator();
    for (auto [number, value] : llvm::enumerate(terminator->getOperands())) {
      terminator->emitRemark() << "result #" << number << " is " << describe(analysis.factOf(value))
                               << describeDraws(analysis.factOf(value), analysis);
    }
    for (const NoisePoint &point : findNoisePoints(step, analysis)) {
      std::string cuts =
          llvm::join(llvm::map_range(point.cuts, [](unsigned cut) { return std::to_string(cut); }), ", ");
      emitRemark(point.value.getLoc()) << "noise point of cuts " << cuts;
    }
  }
};
} // namespace
