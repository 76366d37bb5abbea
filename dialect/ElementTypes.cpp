// SPDX-License-Identifier: Apache-2.0
// Element types as MLIR spells them. typeOf has no default: an element that Elements.def gains does not build until it
// is named there; that elementOf knows it, too, is tested.
#include "dialect/ElementTypes.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace sojourn;

/// By kind and width rather than along the list: a verifier asks this of each operand and result.
std::optional<Element> sojourn::elementOf(Type type) {
  if (!type) {
    return std::nullopt;
  }
  if (isa<Float32Type>(type)) {
    return Element::f32;
  }
  if (auto integer = dyn_cast<IntegerType>(type)) {
    if (integer.isUnsigned()) {
      return integer.getWidth() == 8 ? std::optional(Element::u8) : std::nullopt;
    }
    if (integer.isSigned()) {
      return std::nullopt;
    }
    switch (integer.getWidth()) {
    case 1: return Element::i1;
    case 8: return Element::i8;
    case 16: return Element::i16;
    case 32: return Element::i32;
    case 64: return Element::i64;
    default: return std::nullopt;
    }
  }
  if (isa<Float64Type>(type)) {
    return Element::f64;
  }
  if (isa<Float16Type>(type)) {
    return Element::f16;
  }
  if (isa<BFloat16Type>(type)) {
    return Element::bf16;
  }
  if (auto complex = dyn_cast<ComplexType>(type)) {
    std::optional<Element> part = elementOf(complex.getElementType());
    return part == Element::f32   ? std::optional(Element::c64)
           : part == Element::f64 ? std::optional(Element::c128)
                                  : std::nullopt;
  }
  return std::nullopt;
}

Type sojourn::typeOf(MLIRContext *context, Element element) {
  switch (element) {
  case Element::i1: return IntegerType::get(context, 1);
  case Element::u8: return IntegerType::get(context, 8, IntegerType::Unsigned);
  case Element::i8: return IntegerType::get(context, 8);
  case Element::i16: return IntegerType::get(context, 16);
  case Element::i32: return IntegerType::get(context, 32);
  case Element::i64: return IntegerType::get(context, 64);
  case Element::f16: return Float16Type::get(context);
  case Element::bf16: return BFloat16Type::get(context);
  case Element::f32: return Float32Type::get(context);
  case Element::f64: return Float64Type::get(context);
  case Element::c64: return ComplexType::get(Float32Type::get(context));
  case Element::c128: return ComplexType::get(Float64Type::get(context));
  }
  llvm_unreachable("every Element has a type");
}
