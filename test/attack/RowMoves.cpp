// SPDX-License-Identifier: Apache-2.0
// Lists of row numbers, draws, and rows of tables (see Values.h).
#include "test/attack/Values.h"
#include "dialect/Base.h"
#include "test/attack/Tables.h"

using namespace mlir;
using namespace sojourn;
using namespace sojourn::attack;

static bool isList(Value value) {
  return rankOf(value) == 1 && elementOf(value).isSignlessInteger(64) && shapeOf(value)[0] > 0;
}

/// Any list, changed a little: row numbers are numbers.
void sojourn::attack::listMove(Values &values) {
  Dice &dice = values.dice;
  Value list = values.pick(isList);
  if (!list) {
    return;
  }
  Type whole = values.builder.getI64Type();
  int64_t size = shapeOf(list)[0];
  switch (dice.below(8)) {
  case 0: {
    Value other = values.pick(isList);
    values.op("concat", {list, other}, {values.number("dim", 0)});
    return;
  }
  case 1:
    values.op("slice", list,
              {values.list("start", {dice.between(0, size - 1)}), values.list("limit", {size}),
               values.list("stride", {dice.between(1, 2)})});
    return;
  case 2: values.op("reverse", list, {values.list("dims", {0})}); return;
  case 3: {
    Value limit = values.constant(whole, static_cast<double>(dice.of({0, 1, 4, 8, 12, 24})));
    Value which = values.op("compare", {list, limit}, {values.text("predicate", dice.of({"ge", "lt", "eq"}))});
    Value moved = dice.chance(0.5) ? values.op("add", {list, values.constant(whole)}) : values.constant(whole, -1);
    values.op("select", {which, list, moved});
    return;
  }
  case 4: values.op("take", {list, values.pick(isList)}, {values.number("dim", 0)}); return;
  default:
    Value number =
        dice.chance(0.7) ? values.constant(whole, static_cast<double>(dice.between(-12, 24))) : values.partner(list);
    values.op(dice.of({"add", "add", "sub", "mul", "rem", "max", "min", "div"}), {list, number});
  }
}

static Value anyTable(Values &values) {
  SmallVector<Value> tables;
  for (Value argument : values.builder.getInsertionBlock()->getArguments()) {
    if (isa<TableType>(argument.getType())) {
      tables.push_back(argument);
    }
  }
  return tables.empty() ? Value() : tables[values.dice.below(tables.size())];
}

/// An order of rows, or a draw, at positions that may be anything: of a table, which need not be the one that is read,
/// or of a part of it.
void sojourn::attack::drawMove(Values &values) {
  Dice &dice = values.dice;
  Value positions;
  if (dice.chance(0.5)) {
    positions = values.op("iota", {}, {values.number("dim", 0)},
                          RankedTensorType::get({dice.of({24, 16, 24, 16, 32, 8})}, values.builder.getI64Type()));
  } else {
    positions = values.pick(isList);
  }
  auto seed = [&] {
    Value number = values.pick([](Value each) { return rankOf(each) == 0 && elementOf(each).isSignlessInteger(64); });
    return number && dice.chance(0.9) ? number : values.constant(values.builder.getI64Type());
  };
  Value table = anyTable(values);
  if (!positions || !table) {
    return;
  }
  SmallVector<double> fractions;
  SmallVector<int64_t> sides;
  for (size_t depth = dice.chance(0.6) ? dice.of({size_t{1}, size_t{1}, size_t{2}, size_t{3}}) : 0; depth > 0;
       --depth) {
    fractions.push_back(dice.of({0.25, 0.5, 0.8, 1.0 / 3}));
    sides.push_back(dice.between(0, 1));
  }
  auto partOf = [&](size_t depth, bool isSplit) {
    return SmallVector<NamedAttribute>{values.reals("fractions", ArrayRef(fractions).take_front(depth)),
                                       values.list("sides", ArrayRef(sides).take_front(depth)),
                                       values.flag("split", isSplit)};
  };
  bool isSplit = !fractions.empty() && dice.chance(0.25), isSecret = !isSplit && dice.chance(0.55);
  SmallVector<NamedAttribute> attributes = partOf(fractions.size(), isSplit);
  if (isSecret) {
    attributes.push_back(values.number("expected", dice.of({1, 2, 4, 8, 24})));
  }
  Value drawn = values.op("sample_rows", {positions, seed(), seed(), table}, attributes);
  if (drawn && isSecret) {
    Guess guess = values.guess(drawn);
    guess.isDrawn = true;
    values.add(drawn, guess);
  }
  // As a recorder goes on: the part's rows are found in the table, split by split.
  if (!isSplit && dice.chance(0.6)) {
    for (size_t depth = fractions.size(); depth > 0 && drawn; --depth) {
      drawn = values.op("sample_rows", {drawn, seed(), seed(), table}, partOf(depth, true));
    }
  }
}

void sojourn::attack::readMove(Values &values) {
  Dice &dice = values.dice;
  Value table = anyTable(values);
  if (!table) {
    return;
  }
  auto type = cast<TableType>(table.getType());
  bool isCareful = dice.chance(values.care);
  Value list =
      values.pick([&](Value value) { return isList(value) && (!isCareful || values.fact(value).namesRowsOnce()); });
  if (!list || dice.chance(0.15)) {
    list = values.op("iota", {}, {values.number("dim", 0)},
                     RankedTensorType::get({dice.chance(0.7) ? *values.facts.rowsOf(table) : dice.of({8, 4, 2})},
                                           values.builder.getI64Type()));
  }
  size_t column = dice.below(type.getNames().size());
  if (dice.chance(0.8)) { // an array rather than a number
    column = std::max({column, dice.below(type.getNames().size()), dice.below(type.getNames().size())});
  }
  SmallVector<Attribute> names = {type.getNames()[column]};
  Sizes shape = {shapeOf(list)[0]};
  Type element = type.getTypes()[column];
  if (auto tensor = dyn_cast<RankedTensorType>(element)) {
    llvm::append_range(shape, tensor.getShape());
    element = tensor.getElementType();
  } else if (dice.chance(0.3)) {
    for (auto [name, each] : llvm::zip(type.getNames(), type.getTypes())) {
      if (!isa<RankedTensorType>(each) && dice.chance(0.4)) {
        names.push_back(name);
      }
    }
    shape.push_back(static_cast<int64_t>(names.size()));
  }
  if (dice.chance(0.5)) {
    Type other = values.anyElement();
    element = isa<ComplexType>(other) ? element : other;
  }
  Operation *read = values.tryOp("read_rows", {table, list},
                                 {values.builder.getNamedAttr("columns", values.builder.getArrayAttr(names))},
                                 RankedTensorType::get(shape, element));
  if (!read) {
    return;
  }
  Guess guess = values.guess(list);
  guess.isPrivate |= !llvm::is_contained(values.openTables, table);
  guess.slots = shape[0];
  guess.isSummed = false;
  values.add(read->getResult(0), guess);
}
