// SPDX-License-Identifier: Apache-2.0
// The two rule sets.
#include "dialect/elements/Promotion.h"

#include <utility>

namespace sojourn {

namespace {

/// The float of that width; f16 for narrower ones.
Element floatOf(size_t bytes) { return bytes <= 2 ? Element::f16 : bytes <= 4 ? Element::f32 : Element::f64; }

/// NumPy: the float that holds every value of that integer, as `exp` of it computes.
Element floatThatHolds(Element element) { return floatOf(2 * byteWidth(element)); }

Element signedOf(size_t bytes) {
  return bytes <= 1 ? Element::i8 : bytes <= 2 ? Element::i16 : bytes <= 4 ? Element::i32 : Element::i64;
}

Element wider(Element a, Element b) { return byteWidth(a) > byteWidth(b) ? a : b; }

Element promoteIntegers(Element a, Element b) {
  if (a == Element::i1) {
    return b;
  }
  if (b == Element::i1) {
    return a;
  }
  // u8 with i8.
  return byteWidth(a) == byteWidth(b) ? signedOf(2 * byteWidth(a)) : wider(a, b);
}

Element promoteFloats(Element a, Element b) {
  // f16 with bf16.
  return byteWidth(a) == byteWidth(b) ? Element::f32 : wider(a, b);
}

Element promoteFloatWithInteger(PromotionRules rules, Element real, Element integer) {
  if (rules == PromotionRules::Torch || integer == Element::i1) {
    return real;
  }
  Element holds = floatThatHolds(integer);
  return byteWidth(real) >= byteWidth(holds) ? real : holds;
}

/// torch: the higher level decides unless the lower one has a higher category.
std::optional<Element> combineLevels(std::optional<Element> higher, std::optional<Element> lower) {
  if (!higher || !lower) {
    return higher ? higher : lower;
  }
  if (isComplex(*higher)) {
    return higher;
  }
  if (isFloat(*higher)) {
    // The level below makes it complex, in the precision that the float has.
    return isComplex(*lower) ? complexOf(*higher) : higher;
  }
  if (*higher == Element::i1 || classOf(*lower) > ElementClass::Integer) {
    return promoteTypes(PromotionRules::Torch, *higher, *lower);
  }
  return higher;
}

} // namespace

Element complexOf(Element real) { return byteWidth(real) > 4 ? Element::c128 : Element::c64; }

Element realPart(Element element) {
  return element == Element::c64 ? Element::f32 : element == Element::c128 ? Element::f64 : element;
}

Element promoteTypes(PromotionRules rules, Element a, Element b) {
  if (a == b) {
    return a;
  }
  if (classOf(a) < classOf(b)) {
    std::swap(a, b);
  }
  switch (classOf(a)) {
  case ElementClass::Complex: return complexOf(promoteTypes(rules, realPart(a), realPart(b)));
  case ElementClass::Float: return isFloat(b) ? promoteFloats(a, b) : promoteFloatWithInteger(rules, a, b);
  case ElementClass::Integer:
  case ElementClass::Boolean: break;
  }
  return promoteIntegers(a, b);
}

void CommonType::add(Element element, OperandKind kind) {
  auto join = [&](std::optional<Element> &side) { side = side ? promoteTypes(rules_, *side, element) : element; };
  if (rules_ == PromotionRules::Torch) {
    join(levels_[static_cast<size_t>(kind)]);
  } else {
    join(kind == OperandKind::Number ? numbers_ : arrays_);
  }
}

std::optional<Element> CommonType::get(Element defaultFloat) const {
  return rules_ == PromotionRules::Torch ? torchResult(defaultFloat) : numpyResult();
}

std::optional<Element> CommonType::torchResult(Element defaultFloat) const {
  std::optional<Element> number = levels_[static_cast<size_t>(OperandKind::Number)];
  if (number && isFloat(*number)) {
    number = defaultFloat;
  } else if (number && isComplex(*number)) {
    number = complexOf(defaultFloat);
  }
  return combineLevels(levels_[static_cast<size_t>(OperandKind::Tensor)],
                       combineLevels(levels_[static_cast<size_t>(OperandKind::ZeroDim)], number));
}

std::optional<Element> CommonType::numpyResult() const {
  if (!arrays_ || !numbers_) {
    return arrays_ ? arrays_ : numbers_;
  }
  // bfloat16 is an extension type: ml_dtypes meets a Python float as if it were a float16.
  if (*arrays_ == Element::bf16 && isFloat(*numbers_)) {
    return Element::f32;
  }
  // A weak number only matters where its category is higher; then it brings its default type.
  return classOf(*numbers_) > classOf(*arrays_) ? numbers_ : arrays_;
}

Element floatResult(PromotionRules rules, Element element, bool division, Element defaultFloat) {
  if (isFloat(element) || isComplex(element)) {
    return element;
  }
  if (rules == PromotionRules::Torch) {
    return defaultFloat;
  }
  return division ? Element::f64 : floatThatHolds(element);
}

std::optional<Element> sumResult(PromotionRules rules, Element element) {
  if (isFloat(element) || isComplex(element)) {
    return element;
  }
  if (rules == PromotionRules::Numpy && element == Element::u8) {
    return std::nullopt;
  }
  return Element::i64;
}

} // namespace sojourn
