// SPDX-License-Identifier: Apache-2.0
// The two rule sets. torch: categories (bool < integer < float < complex), and within the highest category tensors
// with dims beat 0-dim tensors beat numbers. NumPy 2 (NEP 50): values fit (int32 + float32 = float64), numbers are
// weak.
#include "passes/PromotionRules.h"

#include <optional>

using namespace mlir;
using namespace sojourn;

namespace {
enum Category : uint8_t { Bool, Integer, Float, Complex };
} // namespace

static Category categoryOf(Type type) {
  if (isa<ComplexType>(type)) {
    return Complex;
  }
  if (isa<FloatType>(type)) {
    return Float;
  }
  return type.isInteger(1) ? Bool : Integer;
}

static unsigned widthOf(Type type) { return type.getIntOrFloatBitWidth(); }

static Type floatOf(MLIRContext *context, unsigned width) {
  Builder builder(context);
  return width <= 16 ? Type(builder.getF16Type()) : width <= 32 ? Type(builder.getF32Type()) : builder.getF64Type();
}

/// NumPy: the float that holds every value of that integer, as `exp` of it computes.
static Type floatThatHolds(Type element) {
  unsigned width = widthOf(element);
  return floatOf(element.getContext(), width <= 8 ? 16 : width <= 16 ? 32 : 64);
}

static Type promoteIntegers(Type a, Type b) {
  if (a.isInteger(1)) {
    return b;
  }
  if (b.isInteger(1)) {
    return a;
  }
  if (widthOf(a) == widthOf(b)) { // ui8 with i8.
    return IntegerType::get(a.getContext(), 2 * widthOf(a));
  }
  return widthOf(a) > widthOf(b) ? a : b;
}

static Type promoteFloats(Type a, Type b) {
  if (widthOf(a) == widthOf(b)) { // f16 with bf16.
    return Float32Type::get(a.getContext());
  }
  return widthOf(a) > widthOf(b) ? a : b;
}

static Type promoteFloatWithInteger(PromotionRules rules, Type real, Type integer) {
  if (rules == PromotionRules::Torch || integer.isInteger(1)) {
    return real;
  }
  Type holds = floatThatHolds(integer);
  return widthOf(real) >= widthOf(holds) ? real : holds;
}

Type sojourn::promoteTypes(PromotionRules rules, Type a, Type b) {
  if (a == b) {
    return a;
  }
  if (categoryOf(a) < categoryOf(b)) {
    std::swap(a, b);
  }
  switch (categoryOf(a)) {
  case Complex: {
    Type part = cast<ComplexType>(a).getElementType();
    Type other = isa<ComplexType>(b) ? cast<ComplexType>(b).getElementType() : b;
    return ComplexType::get(promoteTypes(rules, part, other));
  }
  case Float: return isa<FloatType>(b) ? promoteFloats(a, b) : promoteFloatWithInteger(rules, a, b);
  case Integer:
  case Bool: return promoteIntegers(a, b);
  }
  llvm_unreachable("every type has a category");
}

/// torch: the higher level decides unless the lower one has a higher category.
static Type combineLevels(Type higher, Type lower) {
  if (!higher || !lower) {
    return higher ? higher : lower;
  }
  if (categoryOf(higher) == Complex) {
    return higher;
  }
  if (categoryOf(higher) == Float) {
    // The level below makes it complex, in the precision that the float has.
    return categoryOf(lower) != Complex ? higher
           : widthOf(higher) > 32       ? ComplexType::get(higher)
                                        : ComplexType::get(Float32Type::get(higher.getContext()));
  }
  if (higher.isInteger(1) || categoryOf(lower) > Integer) {
    return promoteTypes(PromotionRules::Torch, higher, lower);
  }
  return higher;
}

static Type torchResult(ArrayRef<PromotionOperand> operands, Type defaultFloat) {
  Type levels[3] = {};
  for (const PromotionOperand &operand : operands) {
    Type element = operand.element;
    if (operand.kind == PromotionOperand::Number && isa<FloatType>(element)) {
      element = defaultFloat;
    }
    Type &level = levels[operand.kind];
    level = level ? promoteTypes(PromotionRules::Torch, level, element) : element;
  }
  return combineLevels(levels[PromotionOperand::Tensor],
                       combineLevels(levels[PromotionOperand::ZeroDim], levels[PromotionOperand::Number]));
}

static Type numpyResult(ArrayRef<PromotionOperand> operands) {
  Type arrays, numbers;
  for (const PromotionOperand &operand : operands) {
    Type &side = operand.kind == PromotionOperand::Number ? numbers : arrays;
    side = side ? promoteTypes(PromotionRules::Numpy, side, operand.element) : operand.element;
  }
  if (!arrays || !numbers) {
    return arrays ? arrays : numbers;
  }
  // bfloat16 is an extension type: ml_dtypes meets a Python float as if it were a float16.
  if (arrays.isBF16() && isa<FloatType>(numbers)) {
    return Float32Type::get(arrays.getContext());
  }
  // A weak number only matters where its category is higher; then it brings its default type.
  return categoryOf(numbers) > categoryOf(arrays) ? numbers : arrays;
}

Type sojourn::resultType(PromotionRules rules, ArrayRef<PromotionOperand> operands, Type defaultFloat) {
  return rules == PromotionRules::Torch ? torchResult(operands, defaultFloat) : numpyResult(operands);
}

Type sojourn::floatResult(PromotionRules rules, Type element, bool division, Type defaultFloat) {
  if (categoryOf(element) >= Float) {
    return element;
  }
  if (rules == PromotionRules::Torch) {
    return defaultFloat;
  }
  return division ? floatOf(element.getContext(), 64) : floatThatHolds(element);
}

Type sojourn::sumResult(PromotionRules rules, Type element) {
  if (categoryOf(element) >= Float) {
    return element;
  }
  bool isUnsigned = rules == PromotionRules::Numpy && element.isUnsignedInteger();
  return IntegerType::get(element.getContext(), 64, isUnsigned ? IntegerType::Unsigned : IntegerType::Signless);
}
