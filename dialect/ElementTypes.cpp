// SPDX-License-Identifier: Apache-2.0
// Element types as MLIR spells them. The switches have no default: an element that Elements.def gains does not build
// until it is named here.
#include "dialect/ElementTypes.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace sojourn;

static bool isA(Type type, Element element) {
  switch (element) {
  case Element::i1: return type.isSignlessInteger(1);
  case Element::u8: return type.isUnsignedInteger(8);
  case Element::i8: return type.isSignlessInteger(8);
  case Element::i16: return type.isSignlessInteger(16);
  case Element::i32: return type.isSignlessInteger(32);
  case Element::i64: return type.isSignlessInteger(64);
  case Element::f16: return type.isF16();
  case Element::bf16: return type.isBF16();
  case Element::f32: return type.isF32();
  case Element::f64: return type.isF64();
  case Element::c64:
  case Element::c128: {
    auto complex = dyn_cast<ComplexType>(type);
    return complex && isA(complex.getElementType(), element == Element::c64 ? Element::f32 : Element::f64);
  }
  }
  llvm_unreachable("every Element has a type");
}

std::optional<Element> sojourn::elementOf(Type type) {
  if (type) {
    for (Element element : kElements) {
      if (isA(type, element)) {
        return element;
      }
    }
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
