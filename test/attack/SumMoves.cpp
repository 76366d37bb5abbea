// SPDX-License-Identifier: Apache-2.0
// Ops that add up, order and multiply (see Values.h).
#include "test/attack/Values.h"

using namespace mlir;
using namespace sojourn::attack;

static Value withElements(Values &values) {
  return values.pick([](Value value) { return rankOf(value) > 0 && typeOf(value).getNumElements() > 0; });
}

void sojourn::attack::reduceMove(Values &values) {
  Dice &dice = values.dice;
  // What has dims still when it is reduced, and of two values the larger: sums of many terms.
  auto isMatrix = [](Value value) { return rankOf(value) > 1 && typeOf(value).getNumElements() > 0; };
  Value x = dice.chance(0.6) ? values.pick(isMatrix) : withElements(values);
  if (Value other = x ? values.pick(isMatrix) : Value()) {
    x = typeOf(other).getNumElements() > typeOf(x).getNumElements() ? other : x;
  }
  if (!x) {
    return;
  }
  if (isa<FloatType>(elementOf(x)) && dice.chance(0.4)) { // a mean, a sum in other units
    Value scaled = values.op(dice.of({"mul", "div"}), {x, values.constant(elementOf(x))});
    x = scaled ? scaled : x;
  }
  int64_t dim = dice.between(0, rankOf(x) - 1);
  switch (dice.below(5)) {
  case 0:
  case 1:
  case 2: {
    Sizes dims;
    bool keepsRows = values.guess(x).slots > 0 && rankOf(x) > 1 && dice.chance(0.85);
    for (int64_t each = keepsRows; each < rankOf(x); ++each) {
      if (dice.chance(0.7)) {
        dims.push_back(each);
      }
    }
    values.op(dice.of({"reduce_sum", "reduce_sum", "reduce_sum", "reduce_prod", "reduce_max", "reduce_min"}), x,
              {values.list("dims", dims)});
    return;
  }
  case 3:
    if (dice.chance(0.3)) {
      values.op(dice.of({"argmax", "argmin"}), x, {values.number("dim", dim)});
      return;
    }
    values.op(dice.of({"cumsum", "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"}), x,
              {values.number("dim", dim)});
    return;
  default:
    if (dice.chance(0.5)) {
      values.op("sort", x, {values.number("dim", dim), values.flag("descending", dice.chance(0.5))}, {}, 2);
    } else {
      values.op("topk", x,
                {values.number("dim", dim), values.number("k", dice.between(1, shapeOf(x)[static_cast<size_t>(dim)])),
                 values.flag("largest", dice.chance(0.5))},
                {}, 2);
    }
  }
}

/// Dims that are not batched or contracted, after the batch.
static void dot(Values &values) {
  Dice &dice = values.dice;
  Value a = withElements(values);
  if (!a) {
    return;
  }
  Value b = values.pick([&](Value each) {
    return elementOf(each) == elementOf(a) && rankOf(each) > 0 &&
           llvm::any_of(shapeOf(each), [&](int64_t size) { return llvm::is_contained(shapeOf(a), size); });
  });
  if (!b) {
    return;
  }
  Sizes batches[2], contracts[2], shape;
  std::vector<bool> used(static_cast<size_t>(rankOf(b)));
  for (auto [dim, size] : llvm::enumerate(shapeOf(a))) {
    for (auto [other, match] : llvm::enumerate(shapeOf(b))) {
      if (used[other] || size != match || !dice.chance(0.75)) {
        continue;
      }
      Sizes *which = dice.chance(0.35) ? batches : contracts;
      which[0].push_back(static_cast<int64_t>(dim));
      which[1].push_back(static_cast<int64_t>(other));
      used[other] = true;
      break;
    }
  }
  for (int64_t dim : batches[0]) {
    shape.push_back(shapeOf(a)[static_cast<size_t>(dim)]);
  }
  for (int side : {0, 1}) {
    for (auto [dim, size] : llvm::enumerate(shapeOf(side == 0 ? a : b))) {
      if (!llvm::is_contained(batches[side], static_cast<int64_t>(dim)) &&
          !llvm::is_contained(contracts[side], static_cast<int64_t>(dim))) {
        shape.push_back(size);
      }
    }
  }
  values.op("dot", {a, b},
            {values.list("lhs_batch", batches[0]), values.list("rhs_batch", batches[1]),
             values.list("lhs_contract", contracts[0]), values.list("rhs_contract", contracts[1])},
            RankedTensorType::get(shape, elementOf(a)));
}

static void windows(Values &values) {
  Dice &dice = values.dice;
  Value x = values.pick([](Value value) {
    return rankOf(value) == 3 && isa<FloatType>(elementOf(value)) && typeOf(value).getNumElements() > 0;
  });
  if (!x) {
    return;
  }
  NamedAttribute ones[] = {values.list("stride", {dice.between(1, 2)}), values.list("padding", {dice.between(0, 1)}),
                           values.list("dilation", {1})};
  if (dice.chance(0.5)) {
    bool isMax = dice.chance(0.5);
    values.op(
        isMax ? "pool_max" : "pool_sum", x,
        {values.list("window", {dice.between(1, std::min<int64_t>(3, shapeOf(x)[2]))}), ones[0], ones[1], ones[2]}, {},
        isMax ? 2 : 1);
    return;
  }
  Value w = values.pick([&](Value value) {
    return rankOf(value) == 3 && elementOf(value) == elementOf(x) && shapeOf(value)[1] == shapeOf(x)[1] &&
           shapeOf(value)[2] <= shapeOf(x)[2];
  });
  values.op("conv", {x, w}, {ones[0], ones[1], ones[2], values.number("groups", 1)});
}

void sojourn::attack::contractionMove(Values &values) { values.dice.chance(0.85) ? dot(values) : windows(values); }

void sojourn::attack::matrixMove(Values &values) {
  Dice &dice = values.dice;
  if (dice.chance(0.4)) {
    Value x = withElements(values);
    if (!x) {
      return;
    }
    NamedAttribute dims = values.list("dims", {rankOf(x) - 1});
    if (isa<ComplexType>(elementOf(x))) {
      dice.chance(0.5) ? values.op("fft_c2c", x, {dims, values.flag("inverse", dice.chance(0.5))})
                       : values.op("fft_c2r", x, {dims, values.number("size", 2 * shapeOf(x).back() - 2)});
    } else {
      dice.chance(0.7) ? values.op("fft_r2c", x, {dims}) : values.op("complex", x);
    }
    return;
  }
  Value x = values.pick([](Value value) {
    return rankOf(value) >= 2 && isa<FloatType>(elementOf(value)) && typeOf(value).getNumElements() <= 2048;
  });
  if (!x) {
    return;
  }
  switch (dice.below(7)) {
  case 0: values.op("cholesky", x, {}, {}, 2); return;
  case 1: values.op("lu", x, {}, {}, 4); return;
  case 2: values.op("qr", x, {values.flag("full", dice.chance(0.5))}, {}, 2); return;
  case 3: values.op("eigh", x, {}, {}, 2); return;
  case 4: values.op("svd", x, {values.flag("full", dice.chance(0.5))}, {}, 3); return;
  case 5: values.op("ldl", x, {values.flag("hermitian", dice.chance(0.5))}, {}, 3); return;
  default: {
    Value b = values.pick([&](Value value) {
      return elementOf(value) == elementOf(x) && rankOf(value) == rankOf(x) &&
             shapeOf(value).drop_back() == shapeOf(x).drop_back();
    });
    values.op("triangular_solve", {x, b},
              {values.flag("lower", dice.chance(0.5)), values.flag("unit", dice.chance(0.5))});
  }
  }
}

Value sojourn::attack::sumMove(Values &values) {
  Dice &dice = values.dice;
  auto isNumber = [](Type element) { return element.isF32() || element.isF64(); };
  bool isCareful = dice.chance(values.care), isProved = dice.chance(0.3); // a sum whose influence is proved
  Value x = values.pick([&](Value value) {
    Guess guess = values.guess(value);
    sojourn::rows::Fact fact = values.fact(value);
    return guess.isPrivate && guess.slots > 0 && (!isCareful || fact.isPerRow()) &&
           (!isProved || (fact.isPerRow() && fact.range.isBounded() && !isa<BlockArgument>(value)));
  });
  if (!x) {
    return {};
  }
  if (!isNumber(elementOf(x)) && !(elementOf(x).isInteger(64) && dice.chance(0.3))) {
    Type element = dice.chance(0.5) ? Type(values.builder.getF32Type()) : Type(values.builder.getF64Type());
    x = values.op("convert", x, {}, RankedTensorType::get(shapeOf(x), element));
    if (!x) {
      return {};
    }
  }
  if (isa<FloatType>(elementOf(x)) && dice.chance(0.5)) { // each row between two numbers
    Value kept = clamped(values, x);
    x = kept ? kept : x;
  }
  if (dice.chance(0.2)) { // with something public, or with itself
    Value with = values.pick([&](Value value) {
      return rankOf(value) > 0 && elementOf(value) == elementOf(x) && shapeOf(value)[0] == shapeOf(x)[0];
    });
    Sizes shape(shapeOf(x).drop_front());
    llvm::append_range(shape, shapeOf(with).drop_front());
    return values.op("dot", {x, with},
                     {values.list("lhs_batch", {}), values.list("rhs_batch", {}), values.list("lhs_contract", {0}),
                      values.list("rhs_contract", {0})},
                     RankedTensorType::get(shape, elementOf(x)));
  }
  Sizes dims = {0};
  for (int64_t dim = 1; dim < rankOf(x); ++dim) {
    if (dice.chance(0.5)) {
      dims.push_back(dim);
    }
  }
  return values.op("reduce_sum", x, {values.list("dims", dims)});
}
