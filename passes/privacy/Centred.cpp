// SPDX-License-Identifier: Apache-2.0
// Sums over rows of polynomials whose coefficients were summed over rows (see Centred.h). One walk: a value that the
// analysis calls mixed gets a polynomial where there is one, a sum of it is replaced, and what follows is analysed
// again.
#include "passes/privacy/Centred.h"

#include "dialect/ContractionOps.h"
#include "dialect/CoreForm.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/ReductionOps.h"
#include "dialect/rows/Support.h"
#include "passes/Emit.h"
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
      : step(step), builder(step.getContext()), emit(builder, step.getLoc()), polynomials(analysis, emit) {
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
        sum = emit.convert(polynomials.spread(sum, type.getShape(), {}), type.getElementType());
      } else if (Views views = polynomials.viewsOf(&op); views.plain) {
        polynomials.remember(op.getResult(0), std::move(views));
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

  // Sums.

  /// How many rows there are: how many a draw of the owner has is not known, and the expected number stands for it.
  double countOf(const Alignment &rows) {
    const rows::Draw &draw = analysis.draws()[rows.draw];
    countsExpected |= draw.sampled;
    return static_cast<double>(draw.sampled ? draw.expected : rows.slots);
  }

  /// Even powers as squares, which are seen not to be negative.
  Value productOf(ArrayRef<unsigned> numbers) {
    Value &product = products[std::vector(numbers.begin(), numbers.end())];
    if (!product) {
      Value all;
      for (size_t k = 0, count; k < numbers.size(); k += count) {
        count = static_cast<size_t>(llvm::count(numbers, numbers[k])); // ascending
        Value x = emit.wide(polynomials.value(numbers[k])), square = count > 1 ? emit.mul(x, x) : Value();
        Value even = count >= 4 ? emit.mul(square, square) : square;
        all = polynomials.times(all, count % 2 == 0 ? even : polynomials.times(even, x));
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
    const Polynomials::Middle *middle = numbers.size() == 1 ? polynomials.middleOf(numbers[0]) : nullptr;
    if (middle) { // from the sum of what is not centred, which a mean has
      Value sum = totalOf(middle->base, dims), term = middle->value;
      ArrayRef<int64_t> shape = Emit::shape(polynomials.value(middle->base));
      auto count = static_cast<double>(Emit::numel(shape) / Emit::numel(Emit::shape(sum)));
      if (!Emit::shape(term).empty()) {
        term = emit.sum(term, without(dims, middle->dim));
        count = static_cast<double>(shape[static_cast<size_t>(middle->dim)]);
      }
      total = emit.add(sum, emit.mul(term, emit.constant(-count)));
      return total = middle->scale ? emit.div(total, middle->scale) : total; // over rows alone, see closest
    }
    if (numbers.size() == 1) {
      for (Operation *user : polynomials.value(numbers[0]).getUsers()) {
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

  /// What a sum over those dims is computed from.
  const Polynomial &closest(const Views &views, ArrayRef<int64_t> dims) {
    auto products = [](const Polynomial &x) {
      Polynomials::Products all = {{}}; // n
      for (const Term &term : x.terms) {
        all.push_back({term.rows, {}});
      }
      return all;
    };
    if (!views.centred || !polynomials.needsNoOther(products(*views.centred), products(*views.plain))) {
      return *views.plain;
    }
    // Middles that differ take a sum apart that was to be one number.
    auto isOne = [](const Term &term) { return !term.factor || Emit::shape(term.factor).empty(); };
    bool isApart = dims.size() > 1 && llvm::any_of(views.centred->terms, [&](const Term &term) {
                     return !isOne(term) && llvm::any_of(views.plain->terms, [&](const Term &plain) {
                       return isOne(plain) && plain.rows == polynomials.asPlain(term.rows);
                     });
                   });
    return isApart ? *views.plain : *views.centred;
  }

  Value reduced(ReduceSumOp op) {
    const Views *found = polynomials.find(op.getX());
    if (!found || !llvm::is_contained(op.getDims(), found->plain->dim)) {
      return {};
    }
    const Polynomial &x = closest(*found, op.getDims());
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
        each = polynomials.times(each, term.factor);
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
    auto rowsA = polynomials.rowsOf(op.getA()), rowsB = polynomials.rowsOf(op.getB());
    if ((!rowsA && !rowsB) || (rowsA && rowsA->second != dimA) || (rowsB && rowsB->second != dimB) ||
        (rowsA && rowsB && !rowsA->first.sameSlots(rowsB->first))) {
      return {};
    }
    const Alignment rows = rowsA ? rowsA->first : rowsB->first;
    auto sides = [&](bool isCentred) {
      return std::pair(polynomials.operandAt(op.getA(), rows, dimA, isCentred),
                       polynomials.operandAt(op.getB(), rows, dimB, isCentred));
    };
    auto [a, b] = sides(/*isCentred=*/false);
    if (!a || !b || a->terms.size() * b->terms.size() > kTerms) {
      return {};
    }
    if (polynomials.hasCentred(op.getA()) || polynomials.hasCentred(op.getB())) {
      auto products = [](const Polynomial &x, const Polynomial &y) {
        Polynomials::Products all = {{}}; // n
        for (const Term &first : x.terms) {
          for (const Term &second : y.terms) {
            all.push_back({first.rows, second.rows});
          }
        }
        return all;
      };
      auto [c, d] = sides(/*isCentred=*/true);
      if (c && d && c->terms.size() * d->terms.size() <= kTerms &&
          polynomials.needsNoOther(products(*c, *d), products(*a, *b))) {
        a = std::move(c);
        b = std::move(d);
      }
    }
    ArrayRef<int64_t> shape = Emit::shape(op.getResult());
    auto freeA = static_cast<int64_t>(Emit::shape(op.getA()).size()) - 1;
    SmallVector<int64_t> dimsA(llvm::to_vector(llvm::seq<int64_t>(0, freeA))),
        dimsB(llvm::to_vector(llvm::seq<int64_t>(freeA, static_cast<int64_t>(shape.size()))));
    auto placed = [&](Value x, ArrayRef<int64_t> dims) { return x ? polynomials.spread(x, shape, dims) : x; };
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
        each = polynomials.times(polynomials.times(each, placed(x.factor, dimsA)), placed(y.factor, dimsB));
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
  Polynomials polynomials;
  std::map<std::vector<unsigned>, Value> products;
  std::map<std::pair<std::vector<unsigned>, std::vector<int64_t>>, Value> totals;
};

} // namespace

void sojourn::centredSums(func::FuncOp step, const RowInputs &inputs, std::vector<std::string> &notes) {
  CentredSums sums(step, inputs);
  int expanded = sums.run();
  if (expanded != 0 && sums.countsExpected) { // else they are what was written
    notes.push_back("sums over rows of values that were centred or scaled by other sums are computed from sums of "
                    "per-row values; a batch counts as holding its expected number of rows: " +
                    std::to_string(expanded));
  }
}
