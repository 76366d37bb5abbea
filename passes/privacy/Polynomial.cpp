// SPDX-License-Identifier: Apache-2.0
// From ops to polynomials in what rows hold (see Polynomial.h).
#include "passes/privacy/Polynomial.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/UnaryOps.h"

using namespace mlir;
using namespace sojourn;
using rows::Alignment;
using rows::Fact;

unsigned Polynomials::numberOf(Value value) {
  auto [entry, isNew] = numbers.try_emplace(value, static_cast<unsigned>(values.size()));
  if (isNew) {
    values.push_back(value);
  }
  return entry->second;
}

std::optional<unsigned> Polynomials::centredNumber(unsigned number) {
  auto [entry, isNew] = centredNumbers.try_emplace(number);
  if (isNew) {
    if (std::optional<Centred> x = centredAt(values[number], /*mayScale=*/true, analysis, emit, budget)) {
      unsigned centred = numberOf(x->centred);
      middles[centred] = {number, x->middle, x->scale, rowsOf(values[number])->second};
      centredNumbers[number] = centred;
    }
  }
  return centredNumbers[number];
}

bool Polynomials::hasCentred(Value value) {
  if (auto found = known.find(value); found != known.end()) {
    return found->second.centred.has_value();
  }
  return analysis.factOf(value).isPerRow() && centredNumber(numberOf(value)).has_value();
}

Polynomials::Product Polynomials::asPlain(Product product) const {
  for (unsigned &number : product) {
    auto found = middles.find(number);
    number = found == middles.end() ? number : found->second.base;
  }
  llvm::sort(product);
  return product;
}

bool Polynomials::needsNoOther(const Products &centred, const Products &plain) const {
  return llvm::all_of(centred, [&](const auto &term) {
    return llvm::is_contained(plain, std::pair(asPlain(term.first), asPlain(term.second)));
  });
}

std::optional<std::pair<Alignment, int64_t>> Polynomials::rowsOf(Value value) {
  if (auto found = known.find(value); found != known.end()) {
    return std::pair(found->second.plain->rows, found->second.plain->dim);
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
Value Polynomials::withoutRows(Value value, int64_t dim) {
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

std::optional<Polynomial> Polynomials::operandAt(Value value, const Alignment &rows, int64_t dim, bool isCentred) {
  if (auto found = known.find(value); found != known.end()) {
    const Views &views = found->second;
    return isCentred && views.centred ? views.centred : views.plain;
  }
  Fact fact = analysis.factOf(value);
  if (fact.isPerRow()) {
    auto place = rowsOf(value);
    if (!place || place->second != dim || !place->first.sameSlots(rows)) {
      return std::nullopt;
    }
    if (std::optional<unsigned> number = isCentred ? centredNumber(numberOf(value)) : std::nullopt) {
      return Polynomial{rows, dim, {{{*number}, middles[*number].scale}, {{}, middles[*number].value}}};
    }
  } else if (Value factor = fact.isMixed() ? Value() : withoutRows(value, dim)) {
    return Polynomial{rows, dim, {{{}, factor}}};
  } else if (!fact.isPublic()) {
    return std::nullopt;
  }
  return Polynomial{rows, dim, {{{numberOf(value)}, {}}}};
}

Views Polynomials::viewsOf(Operation *op) {
  Views views{polynomialOf(op, /*isCentred=*/false), std::nullopt};
  if (views.plain && llvm::any_of(op->getOperands(), [&](Value operand) { return hasCentred(operand); })) {
    views.centred = polynomialOf(op, /*isCentred=*/true);
  }
  return views;
}

std::optional<Polynomial> Polynomials::polynomialOf(Operation *op, bool isCentred) {
  if (isa<TransposeOp, ReshapeOp, BroadcastOp>(op)) {
    return moved(op, isCentred);
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
    std::optional<Polynomial> each = operandAt(operand, place->first, place->second, isCentred);
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

Value Polynomials::times(Value a, Value b) { return a && b ? emit.mul(a, b) : a ? a : b; }
Value Polynomials::orOne(Value factor) { return factor ? factor : emit.constant(1); }

Polynomial Polynomials::scaled(Polynomial x, Value factor) {
  for (Term &term : x.terms) {
    term.factor = times(term.factor, factor);
  }
  return x;
}

void Polynomials::add(Polynomial &to, const Term &term) {
  for (Term &each : to.terms) {
    if (each.rows == term.rows) {
      each.factor = emit.add(orOne(each.factor), orOne(term.factor));
      return;
    }
  }
  to.terms.push_back(term);
}

std::optional<Polynomial> Polynomials::bounded(Polynomial x) {
  bool fits =
      x.terms.size() <= kTerms && llvm::all_of(x.terms, [](const Term &term) { return term.rows.size() <= kDegree; });
  return fits ? std::optional(std::move(x)) : std::nullopt;
}

std::optional<Polynomial> Polynomials::sum(Polynomial a, const Polynomial &b) {
  for (const Term &term : b.terms) {
    add(a, term);
  }
  return bounded(std::move(a));
}

std::optional<Polynomial> Polynomials::product(const Polynomial &a, const Polynomial &b) {
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
std::optional<Polynomial> Polynomials::moved(Operation *op, bool isCentred) {
  auto found = known.find(op->getOperand(0));
  if (found == known.end()) {
    return std::nullopt;
  }
  const Polynomial x = isCentred ? *found->second.centred : *found->second.plain;
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
  auto movedNumber = [&](unsigned number) {
    Value &there = movedTo[{op, number}];
    there = there ? there : move(values[number], /*isFactor=*/false);
    return numberOf(there);
  };
  Polynomial result{alignmentAt(x.rows, shape, dim), dim, {}};
  for (const Term &term : x.terms) {
    Term each;
    for (unsigned number : term.rows) {
      each.rows.push_back(movedNumber(number));
      if (auto middle = middles.find(number); middle != middles.end()) {
        Middle there = middle->second;
        bool isSplat = Emit::shape(there.value).empty();
        middles[each.rows.back()] = {movedNumber(there.base), isSplat ? there.value : move(there.value, true),
                                     there.scale ? move(there.scale, true) : Value(), dim};
      }
    }
    llvm::sort(each.rows);
    bool isSplat = !term.factor || Emit::shape(term.factor).empty();
    each.factor = isSplat ? term.factor : move(term.factor, /*isFactor=*/true);
    add(result, each);
  }
  return result;
}

Value Polynomials::spread(Value x, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  if (Emit::shape(x) == shape || (Emit::shape(x).empty() && !dims.empty())) {
    return x;
  }
  return emit.broadcast(x, shape, dims);
}
