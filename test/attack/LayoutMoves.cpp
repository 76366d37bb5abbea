// SPDX-License-Identifier: Apache-2.0
// Ops that move elements, and ops that index (see Values.h).
#include "test/attack/Values.h"

using namespace mlir;
using namespace sojourn::attack;

static Value withRank(Values &values) {
  return values.pick([](Value value) { return rankOf(value) > 0 && typeOf(value).getNumElements() > 0; });
}

static void broadcast(Values &values, Value x) {
  Sizes shape(shapeOf(x)), dims;
  for (int64_t dim = 0; dim < rankOf(x); ++dim) {
    dims.push_back(dim);
    if (shape[static_cast<size_t>(dim)] == 1) {
      shape[static_cast<size_t>(dim)] = values.dice.of({1, 2, 8, 24});
    }
  }
  size_t at = values.dice.below(shape.size() + 1);
  shape.insert(shape.begin() + static_cast<long>(at), values.dice.of({1, 2, 3, 8, 16, 24, 64}));
  for (int64_t &dim : dims) {
    dim += dim >= static_cast<int64_t>(at);
  }
  values.op("broadcast", x, {values.list("dims", dims)}, RankedTensorType::get(shape, elementOf(x)));
}

static void reshape(Values &values, Value x) {
  int64_t left = typeOf(x).getNumElements();
  Sizes shape;
  while (left > 1 && shape.size() < 3 && values.dice.chance(0.7)) {
    std::vector<int64_t> divisors;
    for (int64_t size = 1; size <= left; ++size) {
      if (left % size == 0) {
        divisors.push_back(size);
      }
    }
    shape.push_back(divisors[values.dice.below(divisors.size())]);
    left /= shape.back();
  }
  shape.push_back(left);
  if (values.dice.chance(0.3)) {
    shape.insert(shape.begin() + static_cast<long>(values.dice.below(shape.size())), 1);
  }
  values.op("reshape", x, {}, RankedTensorType::get(shape, elementOf(x)));
}

static void transpose(Values &values, Value x) {
  Sizes perm;
  for (int64_t dim = 0; dim < rankOf(x); ++dim) {
    perm.insert(perm.begin() + static_cast<long>(values.dice.below(perm.size() + 1)), dim);
  }
  values.op("transpose", x, {values.list("perm", perm)});
}

static void slice(Values &values, Value x) {
  Sizes start, limit, stride;
  for (int64_t size : shapeOf(x)) {
    bool isWhole = values.dice.chance(0.5);
    start.push_back(isWhole ? 0 : values.dice.between(0, size - 1));
    limit.push_back(isWhole ? size : values.dice.between(start.back(), size));
    stride.push_back(values.dice.chance(0.75) ? 1 : values.dice.between(1, 3));
  }
  values.op("slice", x, {values.list("start", start), values.list("limit", limit), values.list("stride", stride)});
}

static void pad(Values &values, Value x) {
  Sizes low, high, interior;
  for (int64_t k = 0; k < rankOf(x); ++k) {
    bool isWhole = values.dice.chance(0.5);
    low.push_back(isWhole ? 0 : values.dice.between(-2, 2));
    high.push_back(isWhole ? 0 : values.dice.between(-2, 2));
    interior.push_back(values.dice.chance(0.8) ? 0 : 1);
  }
  values.op("pad", {x, values.constant(elementOf(x))},
            {values.list("low", low), values.list("high", high), values.list("interior", interior)});
}

static void concat(Values &values, Value x) {
  int64_t dim = values.dice.between(0, rankOf(x) - 1);
  Value other = values.pick([&](Value each) {
    if (rankOf(each) != rankOf(x) || elementOf(each) != elementOf(x)) {
      return false;
    }
    for (int64_t k = 0; k < rankOf(x); ++k) {
      if (k != dim && shapeOf(each)[static_cast<size_t>(k)] != shapeOf(x)[static_cast<size_t>(k)]) {
        return false;
      }
    }
    return true;
  });
  values.op("concat", {x, other ? other : x}, {values.number("dim", dim)});
}

static Value position(Values &values) {
  Value number = values.pick([](Value value) { return rankOf(value) == 0 && elementOf(value).isInteger(64); });
  return number && values.dice.chance(0.6) ? number : values.constant(values.builder.getI64Type());
}

static void dynamic(Values &values, Value x) {
  int64_t dim = values.dice.between(0, rankOf(x) - 1), size = shapeOf(x)[static_cast<size_t>(dim)];
  int64_t part = values.dice.between(1, size);
  Value start = position(values);
  Value cut = values.op("dynamic_slice", {x, start}, {values.list("dims", {dim}), values.list("sizes", {part})});
  if (cut && values.dice.chance(0.4)) {
    Value updates = values.pick([&](Value each) { return each.getType() == cut.getType(); });
    values.op("dynamic_update_slice", {x, updates, position(values)}, {values.list("dims", {dim})});
  }
}

static void update(Values &values, Value x) {
  Value u = values.pick([&](Value each) {
    if (rankOf(each) != rankOf(x) || elementOf(each) != elementOf(x)) {
      return false;
    }
    return llvm::all_of(llvm::zip(shapeOf(each), shapeOf(x)),
                        [](auto sizes) { return std::get<0>(sizes) <= std::get<1>(sizes); });
  });
  if (!u) {
    return;
  }
  Sizes start, stride;
  for (auto [part, whole] : llvm::zip(shapeOf(u), shapeOf(x))) {
    start.push_back(values.dice.between(0, whole - part));
    stride.push_back(1);
  }
  values.op("update_slice", {x, u}, {values.list("start", start), values.list("stride", stride)});
}

void sojourn::attack::layoutMove(Values &values) {
  Dice &dice = values.dice;
  if (dice.chance(0.1)) {
    return broadcast(values, values.pick());
  }
  Value x = withRank(values);
  if (!x) {
    return;
  }
  int64_t dim = dice.between(0, rankOf(x) - 1);
  switch (dice.below(10)) {
  case 0: return broadcast(values, x);
  case 1:
  case 2: return reshape(values, x);
  case 3: return transpose(values, x);
  case 4: return slice(values, x);
  case 5: return pad(values, x);
  case 6: return concat(values, x);
  case 7: return dynamic(values, x);
  case 8: return update(values, x);
  default: values.op("reverse", x, {values.list("dims", {dim})});
  }
}

void sojourn::attack::indexMove(Values &values) {
  Dice &dice = values.dice;
  Value x = withRank(values);
  if (!x) {
    return;
  }
  int64_t dim = dice.between(0, rankOf(x) - 1);
  NamedAttribute along = values.number("dim", dim);
  auto isWhole = [](Value each) { return elementOf(each).isSignlessInteger(64); };
  if (dice.chance(0.5)) {
    Value index = values.pick([&](Value each) { return isWhole(each) && rankOf(each) == 1; });
    Value taken = values.op("take", {x, index}, {along});
    if (taken && dice.chance(0.5)) {
      Value updates = values.pick([&](Value each) { return each.getType() == taken.getType(); });
      values.op("put", {x, updates ? index : Value(), updates},
                {along, values.text("kind", dice.of({"set", "add", "mul", "max", "min"}))});
    }
    return;
  }
  Value index = values.pick([&](Value each) { return isWhole(each) && shapeOf(each) == shapeOf(x); });
  Value taken = values.op("take_along", {x, index}, {along});
  if (taken && dice.chance(0.5)) {
    Value updates = values.pick([&](Value each) { return each.getType() == taken.getType(); });
    values.op("put_along", {x, index, updates},
              {along, values.text("kind", dice.of({"set", "add", "mul", "max", "min"}))});
  }
}
