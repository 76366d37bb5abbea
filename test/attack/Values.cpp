// SPDX-License-Identifier: Apache-2.0
// Values of a program that is made up (see Values.h).
#include "test/attack/Values.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace sojourn::attack;

/// Which facts there are, not which numbers: values with one sum are alike in what the owner believes.
static uint64_t claimOf(const sojourn::rows::Fact &fact) {
  auto of = [](const sojourn::rows::Range &range) {
    return uint64_t{range.nan} | uint64_t{std::isfinite(range.low)} << 1 | uint64_t{std::isfinite(range.high)} << 2 |
           uint64_t{range.whole} << 3 | uint64_t{range.low == range.high} << 4 | uint64_t{range.low >= 0} << 5;
  };
  return static_cast<uint64_t>(fact.kind) | static_cast<uint64_t>(fact.distinct) << 4 | uint64_t{fact.zero} << 8 |
         uint64_t{fact.nonzeros.has_value()} << 9 | uint64_t{fact.present.has_value()} << 10 |
         uint64_t{std::isfinite(fact.influence.l2)} << 11 | of(fact.range) << 16 |
         (fact.present ? of(*fact.present) << 24 : 0);
}

void Values::add(Value value, Guess guess) {
  pool.push_back(value);
  claims[value] = claimOf(fact(value));
  ++claimed[claims[value]];
  guesses[value] = guess;
}

Value Values::pick(llvm::function_ref<bool(Value)> isWanted) {
  bool isCareful = dice.chance(care), isFocused = dice.chance(focus);
  auto isSuch = [&](Value value) {
    return isWanted(value) && !(isCareful && fact(value).isMixed()) && !(isFocused && !guess(value).isPrivate);
  };
  if (pool.size() > 4 && dice.chance(novelty)) {
    Value rarest;
    for (int attempt = 0; attempt < 8; ++attempt) {
      Value value = pool[dice.recent(pool.size())];
      if (isSuch(value) && (!rarest || claimed[claims[value]] < claimed[claims[rarest]])) {
        rarest = value;
      }
    }
    if (rarest) {
      return rarest;
    }
  }
  if (pool.size() > 2 && dice.chance(depth)) {
    for (size_t last = pool.size(); last > pool.size() - 3; --last) {
      if (isSuch(pool[last - 1])) {
        return pool[last - 1];
      }
    }
  }
  for (int attempt = 0; attempt < 6 && !pool.empty(); ++attempt) {
    Value value = pool[dice.recent(pool.size())];
    if (isSuch(value)) {
      return value;
    }
  }
  std::vector<Value> such;
  llvm::copy_if(pool, std::back_inserter(such), isSuch);
  if (such.empty() && (isCareful || isFocused)) {
    llvm::copy_if(pool, std::back_inserter(such), isWanted);
  }
  return such.empty() ? Value() : such[dice.recent(such.size())];
}

Value Values::pick() {
  return pick([](Value) { return true; });
}
Value Values::pickFloat() {
  return pick([](Value value) { return isa<FloatType>(elementOf(value)); });
}

Value Values::partner(Value value) {
  if (dice.chance(0.4)) {
    return constant(elementOf(value));
  }
  bool splats = dice.chance(0.25);
  Value other = pick([&](Value each) {
    return each.getType() == value.getType() || (splats && rankOf(each) == 0 && elementOf(each) == elementOf(value));
  });
  return other && other != value ? other : constant(elementOf(value));
}

/// Ends of what numbers of this type can be, and any of their exponents.
static double anyFloat(Dice &dice, FloatType type) {
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  double most = llvm::APFloat::getLargest(semantics).convertToDouble();
  double normal = llvm::APFloat::getSmallestNormalized(semantics).convertToDouble();
  double sign = dice.chance(0.5) ? 1 : -1;
  double near = std::exp2(-static_cast<double>(dice.below(5)));
  switch (dice.below(8)) {
  case 0:
  case 1:
  case 2: return sign * most * near;
  case 3: return sign * std::sqrt(most) * near;
  case 4: return sign * normal * (dice.chance(0.5) ? near : 1 / near);
  case 5: return sign * std::numeric_limits<double>::infinity();
  case 6:
    return dice.of({std::numeric_limits<double>::quiet_NaN(), -0.0,
                    sign * std::ldexp(1.0, static_cast<int>(type.getFPMantissaWidth())) + 2});
  default: return sign * std::exp2(std::floor(std::log2(normal) + dice.unit() * std::log2(most / normal)));
  }
}

Value Values::constant(Type element) {
  double number = dice.of({0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.0, 5.0, 8.0, 1.0});
  if (dice.chance(extremes)) {
    auto type = dyn_cast<FloatType>(element);
    number = type
                 ? anyFloat(dice, type)
                 : dice.of({-8.0, 16.0, 23.0, 24.0, 100.0, 0x1p31, -0x1p31, 0x1p62, -0x1p63, 0x1p53, 255.0, 7.0, 12.0});
  }
  return constant(element, number);
}

Value Values::constant(Type element, double number) {
  TypedAttr value;
  if (isa<FloatType>(element)) {
    bool ignored = false;
    llvm::APFloat exact(number);
    exact.convert(cast<FloatType>(element).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &ignored);
    value = FloatAttr::get(element, exact);
  } else if (auto integer = dyn_cast<IntegerType>(element)) {
    double most = std::ldexp(1.0, static_cast<int>(integer.getWidth()) - 1);
    double least = integer.isUnsigned() ? 0 : -most;
    double kept = std::clamp(number, integer.getWidth() == 1 ? 0 : least, integer.getWidth() == 1 ? 1 : most - 1);
    if (std::isnan(kept) || kept >= 0x1p63) {
      kept = 0x1p62;
    }
    value = IntegerAttr::get(element, llvm::APInt(integer.getWidth(), static_cast<uint64_t>(static_cast<int64_t>(kept)),
                                                  !integer.isUnsigned(), /*implicitTrunc=*/true));
  } else {
    return {};
  }
  Operation *made = tryOp("constant", {}, {builder.getNamedAttr("value", value)});
  return made ? made->getResult(0) : Value();
}

Operation *Values::tryOp(llvm::StringRef name, ValueRange operands, llvm::ArrayRef<NamedAttribute> attributes,
                         Type result, unsigned results) {
  if (llvm::any_of(operands, [](Value value) { return !value; })) {
    return nullptr;
  }
  OperationState state(builder.getUnknownLoc(), ("sojourn." + name).str());
  state.addOperands(operands);
  state.addAttributes(attributes);
  SmallVector<Type> types(results, result ? result : NoneType::get(builder.getContext()));
  state.addTypes(types);
  Operation *op = builder.create(state);
  auto fails = [&] {
    op->erase();
    return nullptr;
  };
  if (!result) {
    auto infers = dyn_cast<InferTypeOpInterface>(op);
    SmallVector<Type> inferred;
    if (!infers ||
        failed(infers.inferReturnTypes(builder.getContext(), op->getLoc(), op->getOperands(), op->getAttrDictionary(),
                                       op->getPropertiesStorage(), {}, inferred)) ||
        inferred.size() != op->getNumResults()) {
      return fails();
    }
    for (auto [value, type] : llvm::zip(op->getResults(), inferred)) {
      value.setType(type);
    }
  }
  constexpr int64_t kMost = 8192;
  for (Type type : op->getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || tensor.getNumElements() > kMost || tensor.getRank() > 5) {
      return fails();
    }
  }
  if (failed(verify(op))) {
    return fails();
  }
  facts.visit(*op);
  return op;
}

/// What results are like, by what goes in.
static Guess guessOf(Values &values, Operation *op, Value result) {
  Guess guess;
  for (Value operand : op->getOperands()) {
    if (isa<RankedTensorType>(operand.getType())) {
      Guess from = values.guess(operand);
      guess.isPrivate |= from.isPrivate;
      guess.isDrawn |= from.isDrawn;
      guess.isSummed |= from.isSummed;
      guess.slots = std::max(guess.slots, from.slots);
    }
  }
  bool isPerRow = guess.slots > 0 && rankOf(result) > 0 && shapeOf(result)[0] == guess.slots;
  guess.isSummed |= guess.slots > 0 && !isPerRow;
  guess.slots = isPerRow ? guess.slots : 0;
  return guess;
}

Value Values::op(llvm::StringRef name, ValueRange operands, llvm::ArrayRef<NamedAttribute> attributes, Type result,
                 unsigned results) {
  Operation *made = tryOp(name, operands, attributes, result, results);
  if (!made) {
    return {};
  }
  for (Value value : made->getResults()) {
    add(value, guessOf(*this, made, value));
  }
  return made->getResult(0);
}

NamedAttribute Values::number(llvm::StringRef name, int64_t value) {
  return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
}
NamedAttribute Values::list(llvm::StringRef name, llvm::ArrayRef<int64_t> values) {
  return builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(values));
}
NamedAttribute Values::reals(llvm::StringRef name, llvm::ArrayRef<double> values) {
  return builder.getNamedAttr(name, builder.getDenseF64ArrayAttr(values));
}
NamedAttribute Values::text(llvm::StringRef name, llvm::StringRef value) {
  return builder.getNamedAttr(name, builder.getStringAttr(value));
}
NamedAttribute Values::flag(llvm::StringRef name, bool value) {
  return builder.getNamedAttr(name, builder.getBoolAttr(value));
}

Type Values::anyElement() {
  if (dice.chance(0.8)) {
    switch (dice.below(4)) {
    case 0: return builder.getF32Type();
    case 1: return builder.getI64Type();
    default: return builder.getF64Type();
    }
  }
  switch (dice.below(8)) {
  case 0: return builder.getF16Type();
  case 1: return builder.getBF16Type();
  case 2: return builder.getI1Type();
  case 3: return builder.getIntegerType(8, false);
  case 4: return builder.getI32Type();
  case 5: return builder.getIntegerType(8);
  case 6: return builder.getIntegerType(16);
  default: return ComplexType::get(dice.chance(0.5) ? Type(builder.getF32Type()) : Type(builder.getF64Type()));
  }
}
