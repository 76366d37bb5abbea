// SPDX-License-Identifier: Apache-2.0
// Values of a program that is made up (see Values.h).
#include "test/attack/Values.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace sojourn::attack;

void Values::add(Value value, Guess guess) {
  pool.push_back(value);
  guesses[value] = guess;
}

Value Values::pick(llvm::function_ref<bool(Value)> isSuch) {
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

Value Values::constant(Type element) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), none = std::numeric_limits<double>::quiet_NaN();
  double number = dice.of({0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.0, 5.0, 8.0, 1.0});
  if (dice.chance(0.35)) {
    number = isa<FloatType>(element)
                 ? dice.of({1.7e308, -1.7e308, 1e154, 3e38, infinity, -infinity, none, 5e-324, 1e-308, -0.0, 65504.0,
                            0x1p53 + 2, 1e-3, 1e3, 0x1p-24})
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
  return succeeded(verify(op)) ? op : fails();
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
