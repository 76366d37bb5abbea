// SPDX-License-Identifier: Apache-2.0
// Sums over rows of polynomials whose coefficients were summed over rows (see Centred.h). One walk: a value that the
// analysis calls mixed gets a polynomial where there is one, a sum of it is replaced, and what follows is analysed
// again.
#include "passes/privacy/Centred.h"

#include "dialect/rows/Support.h"
#include "passes/privacy/Emit.h"
#include "passes/privacy/Polynomial.h"

#include "llvm/ADT/DenseSet.h"

#include <map>

using namespace mlir;
using namespace sojourn;
using rows::Alignment;
using rows::Fact;

namespace {

class CentredSums {
public:
  CentredSums(func::FuncOp step, const RowInputs &inputs)
      : step(step), builder(step.getContext()), emit(builder, step.getLoc()) {
    analyseRows(step, inputs, analysis);
  }

  /// How many sums were expanded.
  int run() {
    Block &body = step.getBody().front();
    findCommitted(body);
    SmallVector<Operation *> replaced; // erased last: facts are found by address
    for (Operation &op : body.without_terminator()) {
      if (!isMixed(op)) {
        continue;
      }
      analysis.visit(op); // an operand may have become known
      auto type = cast<RankedTensorType>(op.getResult(0).getType());
      if (!isMixed(op) || op.getNumResults() != 1 || !isa<FloatType>(type.getElementType())) {
        continue;
      }
      builder.setInsertionPoint(&op);
      emit.location = op.getLoc();
      Value sum = committed.contains(op.getResult(0)) ? Value() : sumOf(&op);
      if (sum) {
        sum = emit.convert(spread(sum, type.getShape(), {}), type.getElementType());
      } else if (std::optional<Polynomial> value = polynomialOf(&op)) {
        known.try_emplace(op.getResult(0), std::move(*value));
      }
      visitBefore(&op);
      if (sum) {
        op.getResult(0).replaceAllUsesWith(sum);
        replaced.push_back(&op);
      }
    }
    for (Operation *op : replaced) {
      op->erase();
    }
    return static_cast<int>(replaced.size());
  }

  /// Whether the expected number of a draw stood for how many rows it has.
  bool countsExpected = false;

private:
  bool isMixed(Operation &op) {
    return llvm::any_of(op.getResults(), [&](Value value) { return analysis.factOf(value).isMixed(); });
  }

  /// What these values are computed from, themselves included.
  static llvm::DenseSet<Value> behind(SmallVector<Value> todo) {
    llvm::DenseSet<Value> found;
    while (!todo.empty()) {
      Value value = todo.pop_back_val();
      if (found.insert(value).second && value.getDefiningOp()) {
        llvm::append_range(todo, value.getDefiningOp()->getOperands());
      }
    }
    return found;
  }

  /// Values that a state is computed from: one that is committed, or one that a step takes and gives back, by its type.
  void findCommitted(Block &body) {
    SmallVector<Value> states;
    for (OpOperand &operand : body.getTerminator()->getOpOperands()) {
      auto kind = step.getResultAttrOfType<StringAttr>(operand.getOperandNumber(), kResultAttr);
      bool isState = kind && kind.getValue() == stringify(StepResult::Commit);
      if (kind && kind.getValue() == stringify(StepResult::Keep)) {
        isState = llvm::any_of(behind({operand.get()}), [&](Value value) {
          auto argument = dyn_cast<BlockArgument>(value);
          if (!argument || value.getType() != operand.get().getType()) {
            return false;
          }
          auto from = step.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kKindAttr);
          return from &&
                 (from.getValue() == stringify(StepArg::State) || from.getValue() == stringify(StepArg::Upload));
        });
      }
      if (isState) {
        states.push_back(operand.get());
      }
    }
    committed = behind(std::move(states));
  }

  /// Facts of the ops that were put before `op`.
  void visitBefore(Operation *op) {
    SmallVector<Operation *> fresh;
    for (Operation *each = op->getPrevNode(); each && !analysis.facts.contains(each->getResult(0));
         each = each->getPrevNode()) {
      fresh.push_back(each);
    }
    for (Operation *each : llvm::reverse(fresh)) {
      analysis.visit(*each);
    }
  }

  // Polynomials.

  unsigned numberOf(Value value) {
    auto [entry, isNew] = numbers.try_emplace(value, static_cast<unsigned>(values.size()));
    if (isNew) {
      values.push_back(value);
    }
    return entry->second;
  }

  /// Where the rows of an operand lie, of whole batches.
  std::optional<std::pair<Alignment, int64_t>> rowsOf(Value value) {
    if (auto found = known.find(value); found != known.end()) {
      return std::pair(found->second.rows, found->second.dim);
    }
    Fact fact = analysis.factOf(value);
    if (!fact.isPerRow()) {
      return std::nullopt;
    }
    std::optional<rows::Place> place = rows::placeOf(fact.rows, Emit::shape(value));
    if (!place || place->outer != 1 || place->inner != 1) {
      return std::nullopt;
    }
    return std::pair(fact.rows, place->dim);
  }

  /// A value that is the same for every row, without their dim; null where it is not seen to be.
  Value withoutRows(Value value, int64_t dim) {
    if (Emit::shape(value).empty()) {
      return emit.wide(value);
    }
    auto wide = value.getDefiningOp<BroadcastOp>();
    if (!wide) {
      return {};
    }
    Value x = wide.getX();
    if (Emit::shape(x).empty()) {
      return emit.wide(x);
    }
    SmallVector<int64_t> dims(wide.getDims());
    if (const auto *found = llvm::find(dims, dim); found != dims.end()) {
      int64_t at = found - dims.begin();
      if (Emit::shape(x)[static_cast<size_t>(at)] != 1) {
        return {};
      }
      x = emit.reshape(x, shapeWithout(Emit::shape(x), at));
    }
    return spread(emit.wide(x), shapeWithout(Emit::shape(value), dim), without(dims, dim));
  }

  /// An operand as a polynomial whose rows lie there.
  std::optional<Polynomial> operandAt(Value value, const Alignment &rows, int64_t dim) {
    if (auto found = known.find(value); found != known.end()) {
      return found->second;
    }
    Fact fact = analysis.factOf(value);
    if (fact.isPerRow()) {
      auto place = rowsOf(value);
      if (!place || place->second != dim || !place->first.sameSlots(rows)) {
        return std::nullopt;
      }
    } else if (Value factor = fact.isMixed() ? Value() : withoutRows(value, dim)) {
      return Polynomial{rows, dim, {{{}, factor}}};
    } else if (!fact.isPublic()) {
      return std::nullopt;
    }
    return Polynomial{rows, dim, {{{numberOf(value)}, {}}}};
  }

  std::optional<Polynomial> polynomialOf(Operation *op) {
    if (isa<TransposeOp, ReshapeOp, BroadcastOp>(op)) {
      return moved(op);
    }
    if (!isa<NegOp, ConvertOp, AddOp, SubOp, MulOp, DivOp, PowOp>(op)) {
      return std::nullopt;
    }
    std::optional<std::pair<Alignment, int64_t>> place;
    for (Value operand : op->getOperands()) {
      auto each = rowsOf(operand);
      if (place && each && *each != *place) {
        return std::nullopt;
      }
      place = place ? place : each;
    }
    if (!place) {
      return std::nullopt;
    }
    SmallVector<Polynomial, 2> operands;
    for (Value operand : op->getOperands()) {
      std::optional<Polynomial> each = operandAt(operand, place->first, place->second);
      if (!each || !isa<FloatType>(Emit::element(operand))) {
        return std::nullopt;
      }
      operands.push_back(std::move(*each));
    }
    if (isa<ConvertOp>(op)) {
      return operands[0];
    }
    if (isa<NegOp>(op)) {
      return scaled(operands[0], emit.constant(-1));
    }
    if (isa<AddOp, SubOp>(op)) {
      return sum(operands[0], isa<SubOp>(op) ? scaled(operands[1], emit.constant(-1)) : operands[1]);
    }
    if (isa<MulOp>(op)) {
      return product(operands[0], operands[1]);
    }
    if (isa<DivOp>(op)) {
      const Polynomial &divisor = operands[1];
      if (divisor.terms.size() != 1 || !divisor.terms[0].rows.empty()) {
        return std::nullopt;
      }
      return scaled(operands[0], emit.div(emit.constant(1), divisor.terms[0].factor));
    }
    rows::Range power = analysis.factOf(op->getOperand(1)).range;
    if (!power.isConstant() || !power.whole || power.low < 1 || power.low > static_cast<double>(kDegree)) {
      return std::nullopt;
    }
    std::optional<Polynomial> result = operands[0];
    for (int k = 1; k < static_cast<int>(power.low) && result; ++k) {
      result = product(*result, operands[0]);
    }
    return result;
  }

  Value times(Value a, Value b) { return a && b ? emit.mul(a, b) : a ? a : b; }
  Value orOne(Value factor) { return factor ? factor : emit.constant(1); }

  Polynomial scaled(Polynomial x, Value factor) {
    for (Term &term : x.terms) {
      term.factor = times(term.factor, factor);
    }
    return x;
  }

  void add(Polynomial &to, const Term &term) {
    for (Term &each : to.terms) {
      if (each.rows == term.rows) {
        each.factor = emit.add(orOne(each.factor), orOne(term.factor));
        return;
      }
    }
    to.terms.push_back(term);
  }

  std::optional<Polynomial> bounded(Polynomial x) {
    bool fits =
        x.terms.size() <= kTerms && llvm::all_of(x.terms, [](const Term &term) { return term.rows.size() <= kDegree; });
    return fits ? std::optional(std::move(x)) : std::nullopt;
  }

  std::optional<Polynomial> sum(Polynomial a, const Polynomial &b) {
    for (const Term &term : b.terms) {
      add(a, term);
    }
    return bounded(std::move(a));
  }

  std::optional<Polynomial> product(const Polynomial &a, const Polynomial &b) {
    Polynomial result{a.rows, a.dim, {}};
    for (const Term &x : a.terms) {
      for (const Term &y : b.terms) {
        Term term = x;
        llvm::append_range(term.rows, y.rows);
        llvm::sort(term.rows);
        term.factor = times(x.factor, y.factor);
        add(result, term);
      }
    }
    return bounded(std::move(result));
  }

  /// Elements are moved or repeated: so are those of the values and factors.
  std::optional<Polynomial> moved(Operation *op) {
    auto found = known.find(op->getOperand(0));
    if (found == known.end()) {
      return std::nullopt;
    }
    Polynomial x = found->second;
    ArrayRef<int64_t> shape = Emit::shape(op->getResult(0));
    int64_t dim = x.dim;
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      dim = llvm::find(transpose.getPerm(), x.dim) - transpose.getPerm().begin();
    } else if (auto wide = dyn_cast<BroadcastOp>(op)) {
      dim = wide.getDims()[static_cast<size_t>(x.dim)];
    } else {
      std::optional<rows::Place> place = rows::placeOf(x.rows, shape);
      if (!place || place->outer != 1 || place->inner != 1) {
        return std::nullopt;
      }
      dim = place->dim;
    }
    auto move = [&](Value value, bool isFactor) {
      SmallVector<int64_t> to = isFactor ? shapeWithout(shape, dim) : SmallVector<int64_t>(shape);
      if (auto transpose = dyn_cast<TransposeOp>(op)) {
        return emit.transpose(value, isFactor ? without(transpose.getPerm(), x.dim) : transpose.getPerm());
      }
      if (auto wide = dyn_cast<BroadcastOp>(op)) {
        SmallVector<int64_t> dims(wide.getDims());
        if (isFactor) {
          dims.erase(dims.begin() + x.dim);
          dims = without(dims, dim);
        }
        return emit.broadcast(value, to, dims);
      }
      return emit.reshape(value, to);
    };
    Polynomial result{alignmentAt(x.rows, shape, dim), dim, {}};
    for (const Term &term : x.terms) {
      Term each;
      for (unsigned number : term.rows) {
        Value &there = movedTo[{op, number}];
        there = there ? there : move(values[number], /*isFactor=*/false);
        each.rows.push_back(numberOf(there));
      }
      llvm::sort(each.rows);
      bool isSplat = !term.factor || Emit::shape(term.factor).empty();
      each.factor = isSplat ? term.factor : move(term.factor, /*isFactor=*/true);
      add(result, each);
    }
    return result;
  }

  // Sums.

  /// How many rows there are: how many a draw of the owner has is not known, and the expected number stands for it.
  double countOf(const Alignment &rows) {
    const rows::Draw &draw = analysis.draws()[rows.draw];
    countsExpected |= draw.sampled;
    return static_cast<double>(draw.sampled ? draw.expected : rows.slots);
  }

  /// The value over `shape`, its dims being `dims` of it; of rank 0 left alone unless there are none.
  Value spread(Value x, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
    if (Emit::shape(x) == shape || (Emit::shape(x).empty() && !dims.empty())) {
      return x;
    }
    return emit.broadcast(x, shape, dims);
  }

  Value productOf(ArrayRef<unsigned> numbers) {
    Value &product = products[std::vector(numbers.begin(), numbers.end())];
    if (!product) {
      Value all;
      for (unsigned number : numbers) {
        all = times(all, emit.wide(values[number]));
      }
      product = all;
    }
    return product;
  }

  /// The sum of a product over those dims: where the step has it already, that one, so that it is released once.
  Value totalOf(ArrayRef<unsigned> numbers, ArrayRef<int64_t> dims) {
    Value &total = totals[{std::vector(numbers.begin(), numbers.end()), std::vector(dims.begin(), dims.end())}];
    if (total) {
      return total;
    }
    if (numbers.size() == 1) {
      for (Operation *user : values[numbers[0]].getUsers()) {
        auto reduce = dyn_cast<ReduceSumOp>(user);
        if (reduce && reduce.getDims() == dims && reduce->isBeforeInBlock(&*builder.getInsertionPoint())) {
          return total = emit.wide(reduce.getResult());
        }
      }
    }
    return total = emit.sum(productOf(numbers), dims);
  }

  Value sumOf(Operation *op) {
    if (auto reduce = dyn_cast<ReduceSumOp>(op)) {
      return reduced(reduce);
    }
    auto dot = dyn_cast<DotOp>(op);
    return dot ? contracted(dot) : Value();
  }

  Value reduced(ReduceSumOp op) {
    auto found = known.find(op.getX());
    if (found == known.end() || !llvm::is_contained(op.getDims(), found->second.dim)) {
      return {};
    }
    const Polynomial x = found->second;
    ArrayRef<int64_t> shape = Emit::shape(op.getX());
    SmallVector<int64_t> others = without(op.getDims(), x.dim);
    double elements = 1;
    for (int64_t dim : op.getDims()) {
      elements *= static_cast<double>(shape[static_cast<size_t>(dim)]);
    }
    Value total;
    for (const Term &term : x.terms) {
      bool isSplat = !term.factor || Emit::shape(term.factor).empty();
      Value each;
      if (isSplat) { // fewer numbers are released if all dims go at once
        double count = elements / static_cast<double>(x.rows.slots) * countOf(x.rows);
        each = term.rows.empty() ? emit.constant(count) : totalOf(term.rows, op.getDims());
        each = times(each, term.factor);
      } else {
        each = term.rows.empty() ? emit.constant(countOf(x.rows)) : totalOf(term.rows, {x.dim});
        each = emit.sum(emit.mul(each, term.factor), others);
      }
      total = total ? emit.add(total, each) : each;
    }
    auto square = op.getX().getDefiningOp<MulOp>();
    bool isSquare = square && square.getA() == square.getB();
    return isSquare ? emit.max(total, emit.constant(0)) : total;
  }

  /// A product of matrices that contracts rows and nothing else.
  Value contracted(DotOp op) {
    if (!op.getLhsBatch().empty() || op.getLhsContract().size() != 1) {
      return {};
    }
    int64_t dimA = op.getLhsContract()[0], dimB = op.getRhsContract()[0];
    auto rowsA = rowsOf(op.getA()), rowsB = rowsOf(op.getB());
    if ((!rowsA && !rowsB) || (rowsA && rowsA->second != dimA) || (rowsB && rowsB->second != dimB) ||
        (rowsA && rowsB && !rowsA->first.sameSlots(rowsB->first))) {
      return {};
    }
    const Alignment rows = rowsA ? rowsA->first : rowsB->first;
    std::optional<Polynomial> a = operandAt(op.getA(), rows, dimA), b = operandAt(op.getB(), rows, dimB);
    if (!a || !b || a->terms.size() * b->terms.size() > kTerms) {
      return {};
    }
    ArrayRef<int64_t> shape = Emit::shape(op.getResult());
    auto freeA = static_cast<int64_t>(Emit::shape(op.getA()).size()) - 1;
    SmallVector<int64_t> dimsA(llvm::to_vector(llvm::seq<int64_t>(0, freeA))),
        dimsB(llvm::to_vector(llvm::seq<int64_t>(freeA, static_cast<int64_t>(shape.size()))));
    auto placed = [&](Value x, ArrayRef<int64_t> dims) { return x ? spread(x, shape, dims) : x; };
    Value total;
    for (const Term &x : a->terms) {
      for (const Term &y : b->terms) {
        Value each;
        if (x.rows.empty() && y.rows.empty()) {
          each = emit.constant(countOf(rows));
        } else if (y.rows.empty()) {
          each = placed(totalOf(x.rows, {dimA}), dimsA);
        } else if (x.rows.empty()) {
          each = placed(totalOf(y.rows, {dimB}), dimsB);
        } else {
          each = emit.dot(productOf(x.rows), productOf(y.rows), {}, {}, {dimA}, {dimB});
        }
        each = times(times(each, placed(x.factor, dimsA)), placed(y.factor, dimsB));
        total = total ? emit.add(total, each) : each;
      }
    }
    return total;
  }

  func::FuncOp step;
  OpBuilder builder;
  Emit emit;
  rows::Analysis analysis;
  llvm::DenseSet<Value> committed;
  llvm::DenseMap<Value, Polynomial> known;
  /// Values that differ from row to row, by number.
  llvm::DenseMap<Value, unsigned> numbers;
  std::vector<Value> values;
  std::map<std::pair<Operation *, unsigned>, Value> movedTo;
  std::map<std::vector<unsigned>, Value> products;
  std::map<std::pair<std::vector<unsigned>, std::vector<int64_t>>, Value> totals;
};

} // namespace

void sojourn::centredSums(func::FuncOp step, const RowInputs &inputs, std::vector<std::string> &notes) {
  CentredSums sums(step, inputs);
  int expanded = sums.run();
  if (expanded != 0 && sums.countsExpected) { // else they are what was written
    notes.push_back("sums over rows of values that were centred or scaled by other sums are computed from sums of what "
                    "each row holds, which for a batch is taken to hold the expected number of rows: " +
                    std::to_string(expanded));
  }
}
