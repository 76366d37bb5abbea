// SPDX-License-Identifier: Apache-2.0
// MLIR types to the program's element types and back.
#include "runtime/Types.h"

namespace sojourn::runtime {

std::optional<Element> elementOf(mlir::Type type) {
  if (auto integer = llvm::dyn_cast<mlir::IntegerType>(type)) {
    if (integer.isUnsigned()) {
      return integer.getWidth() == 8 ? std::optional(Element::u8) : std::nullopt;
    }
    if (!integer.isSignless()) {
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
  if (type.isF16()) {
    return Element::f16;
  }
  if (type.isBF16()) {
    return Element::bf16;
  }
  if (type.isF32()) {
    return Element::f32;
  }
  if (type.isF64()) {
    return Element::f64;
  }
  if (auto complex = llvm::dyn_cast<mlir::ComplexType>(type)) {
    if (complex.getElementType().isF32()) {
      return Element::c64;
    }
    if (complex.getElementType().isF64()) {
      return Element::c128;
    }
  }
  return std::nullopt;
}

mlir::Type typeOf(mlir::MLIRContext *context, Element element) {
  switch (element) {
  case Element::i1: return mlir::IntegerType::get(context, 1);
  case Element::u8: return mlir::IntegerType::get(context, 8, mlir::IntegerType::Unsigned);
  case Element::i8: return mlir::IntegerType::get(context, 8);
  case Element::i16: return mlir::IntegerType::get(context, 16);
  case Element::i32: return mlir::IntegerType::get(context, 32);
  case Element::i64: return mlir::IntegerType::get(context, 64);
  case Element::f16: return mlir::Float16Type::get(context);
  case Element::bf16: return mlir::BFloat16Type::get(context);
  case Element::f32: return mlir::Float32Type::get(context);
  case Element::f64: return mlir::Float64Type::get(context);
  case Element::c64: return mlir::ComplexType::get(mlir::Float32Type::get(context));
  case Element::c128: return mlir::ComplexType::get(mlir::Float64Type::get(context));
  }
  return {};
}

std::optional<TensorType> tensorTypeOf(mlir::Type type) {
  auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || tensor.getEncoding()) {
    return std::nullopt;
  }
  std::optional<Element> element = elementOf(tensor.getElementType());
  if (!element) {
    return std::nullopt;
  }
  TensorType result;
  result.element = *element;
  result.dims.assign(tensor.getShape().begin(), tensor.getShape().end());
  return result;
}

std::optional<TensorType> entryTypeOf(mlir::Type column) {
  if (std::optional<TensorType> entry = tensorTypeOf(column)) {
    return entry;
  }
  std::optional<Element> element = elementOf(column);
  return element ? std::optional(TensorType{*element, {}}) : std::nullopt;
}

uint64_t bitsOfReal(const llvm::APFloat &value) {
  llvm::APFloat wide = value;
  bool lossy = false;
  wide.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return wide.bitcastToAPInt().getZExtValue();
}

} // namespace sojourn::runtime
