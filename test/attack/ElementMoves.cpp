// SPDX-License-Identifier: Apache-2.0
// Ops that work position by position, and numbers out of nothing (see Values.h).
#include "test/attack/Values.h"

using namespace mlir;
using namespace sojourn::attack;

static void unary(Values &values) {
  Value x = values.pick();
  Dice &dice = values.dice;
  if (isa<FloatType>(elementOf(x))) {
    if (dice.chance(0.1)) {
      values.op("special", x,
                {values.text("function", dice.of({"airy_ai", "bessel_j0", "bessel_y1", "erfcx", "i0", "i1e", "ndtri",
                                                  "modified_bessel_k0", "spherical_bessel_j0"}))});
      return;
    }
    values.op(dice.of({"neg",  "abs", "sign", "floor", "ceil",     "round", "exp",  "expm1",  "log",    "log1p",
                       "sqrt", "sin", "cos",  "tanh",  "logistic", "erf",   "erfc", "erfinv", "lgamma", "digamma"}),
              x);
  } else if (isa<ComplexType>(elementOf(x))) {
    values.op(dice.of({"neg", "exp", "log", "sqrt", "sin", "tanh", "parts"}), x);
  } else {
    values.op(dice.of({"neg", "abs", "sign", "not"}), x);
  }
}

static void binary(Values &values) {
  Value x = values.pick(), y = values.partner(x);
  if (values.dice.chance(0.3)) {
    std::swap(x, y);
  }
  if (!x || !y) {
    return;
  }
  Dice &dice = values.dice;
  if (isa<FloatType>(elementOf(x))) {
    if (dice.chance(0.06)) {
      values.op("special_binary", {x, y},
                {values.text("function", dice.of({"zeta", "gammainc", "gammaincc", "chebyshev_polynomial_t",
                                                  "hermite_polynomial_h", "legendre_polynomial_p"}))});
      return;
    }
    values.op(dice.of({"add", "sub", "mul", "div", "mul", "add", "rem", "pow", "atan2", "max", "min"}), {x, y});
  } else if (isa<ComplexType>(elementOf(x))) {
    values.op(dice.of({"add", "sub", "mul", "div", "pow"}), {x, y});
  } else {
    values.op(dice.of({"add", "sub", "mul", "div", "rem", "max", "min", "and", "or", "xor", "shl", "shr"}), {x, y});
  }
}

static void choice(Values &values) {
  Dice &dice = values.dice;
  Value x = values.pick(), y = values.partner(x);
  if (!x || !y) {
    return;
  }
  Value which = values.pick([&](Value each) {
    return elementOf(each).isInteger(1) && (rankOf(each) == 0 || rankOf(x) == 0 || shapeOf(each) == shapeOf(x));
  });
  if (!which || dice.chance(0.6)) {
    which = values.op("compare", {x, values.partner(x)},
                      {values.text("predicate", dice.of({"eq", "ne", "lt", "le", "gt", "ge"}))});
  }
  if (which && dice.chance(0.7)) {
    values.op("select", {which, x, y});
  }
}

static void conversion(Values &values) {
  Value x = values.pick();
  Type element = values.anyElement();
  Type type = RankedTensorType::get(shapeOf(x), element);
  values.op(values.dice.chance(0.85) ? "convert" : "bitcast", x, {}, type);
}

void sojourn::attack::elementwiseMove(Values &values) {
  switch (values.dice.below(10)) {
  case 0:
  case 1:
  case 2: return unary(values);
  case 3: return choice(values);
  case 4:
  case 5: return conversion(values);
  default: return binary(values);
  }
}

Value sojourn::attack::clamped(Values &values, Value x) {
  Dice &dice = values.dice;
  Type element = elementOf(x);
  double low = dice.of({-1.0, 0.0, 1.0, -2.0, -10.0, 0.5}), width = dice.of({0.0, 1.0, 2.0, 10.0, 0.5});
  Value least = values.constant(element, low), most = values.constant(element, low + width);
  bool isFlipped = dice.chance(0.5);
  Value one = values.op(isFlipped ? "min" : "max", {x, isFlipped ? most : least});
  return values.op(isFlipped ? "max" : "min", {one, isFlipped ? least : most});
}

void sojourn::attack::clampMove(Values &values) {
  Value x =
      values.pick([](Value value) { return !isa<ComplexType>(elementOf(value)) && !elementOf(value).isInteger(1); });
  if (x) {
    clamped(values, x);
  }
}

/// By a number: a unit, a rate, a mean.
void sojourn::attack::scaleMove(Values &values) {
  Value x = values.pickFloat();
  if (x) {
    values.op(values.dice.of({"mul", "mul", "mul", "add", "sub", "div"}), {x, values.constant(elementOf(x))});
  }
}

/// Numbers from nothing, and from seeds: any number may be one.
void sojourn::attack::sourceMove(Values &values) {
  Dice &dice = values.dice;
  static constexpr int64_t kSizes[] = {24, 16, 8, 1, 2, 64};
  Sizes shape = {dice.of(llvm::ArrayRef(kSizes))};
  if (dice.chance(0.3)) {
    shape.push_back(dice.of({1, 2, 3, 64}));
  }
  if (dice.chance(0.5)) {
    Type element = dice.of<Type>({values.builder.getI64Type(), values.builder.getF64Type(), values.builder.getF32Type(),
                                  values.builder.getI32Type()});
    values.op("iota", {}, {values.number("dim", dice.between(0, static_cast<int64_t>(shape.size()) - 1))},
              RankedTensorType::get(shape, element));
    return;
  }
  if (dice.chance(0.4)) {
    if (Value number = values.constant(values.anyElement())) {
      values.add(number);
      values.op("broadcast", number, {values.list("dims", {})}, RankedTensorType::get(shape, elementOf(number)));
    }
    return;
  }
  Value seed = values.pick([](Value value) { return rankOf(value) == 0 && elementOf(value).isInteger(64); });
  if (!seed) {
    seed = values.constant(values.builder.getI64Type());
  }
  const char *name = dice.of({"rng_bits", "rng_uniform", "rng_normal"});
  Type element = values.builder.getI64Type();
  if (name != std::string("rng_bits")) {
    element = dice.chance(0.5) ? Type(values.builder.getF32Type()) : Type(values.builder.getF64Type());
  }
  values.op(name, seed, {values.number("stream", dice.between(0, 2))}, RankedTensorType::get(shape, element));
}
