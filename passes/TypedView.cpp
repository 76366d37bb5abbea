// SPDX-License-Identifier: Apache-2.0
// Windows that see a storage's memory as elements of another type (see StridedView.h).
#include "dialect/LayoutOps.h"
#include "dialect/UnaryOps.h"
#include "passes/StridedView.h"

using namespace mlir;
using namespace sojourn;

std::optional<WidthRatio> sojourn::widthRatio(Type storage, Type window) {
  if (storage == window) {
    return WidthRatio{};
  }
  auto numbers = dyn_cast<ComplexType>(storage), seen = dyn_cast<ComplexType>(window);
  if (numbers && numbers.getElementType() == window) {
    return WidthRatio{2, 1};
  }
  if (seen && seen.getElementType() == storage) {
    return WidthRatio{1, 2};
  }
  bool isPlain = storage.isIntOrFloat() && window.isIntOrFloat() && !storage.isInteger(1) && !window.isInteger(1);
  return isPlain && storage.getIntOrFloatBitWidth() == window.getIntOrFloatBitWidth() ? std::optional(WidthRatio{})
                                                                                      : std::nullopt;
}

/// The layout of the parts: those of a number lie side by side.
static RefType partsOf(RefType type, Type element) {
  SmallVector<int64_t> shape(type.getShape()), strides;
  for (int64_t stride : type.getStrides()) {
    strides.push_back(2 * stride);
  }
  shape.push_back(2);
  strides.push_back(1);
  return RefType::get(shape, element, strides, 2 * type.getOffset());
}

Value sojourn::readTyped(OpBuilder &builder, Location loc, Value storage, RefType root, RefType window) {
  Type from = root.getElementType(), to = window.getElementType();
  if (from == to) {
    return readWindow(builder, loc, storage, root, window);
  }
  if (isa<ComplexType>(from)) {
    RefType parts = partsOf(root, to);
    Value values = PartsOp::create(builder, loc, parts.getTensorType(), storage);
    return readWindow(builder, loc, values, parts, window);
  }
  if (isa<ComplexType>(to)) {
    Value pairs = readWindow(builder, loc, storage, root, partsOf(window, from));
    return ComplexOp::create(builder, loc, window.getTensorType(), pairs);
  }
  RefType plain = RefType::get(window.getShape(), from, window.getStrides(), window.getOffset());
  return BitcastOp::create(builder, loc, window.getTensorType(), readWindow(builder, loc, storage, root, plain));
}

Value sojourn::writeTyped(OpBuilder &builder, Location loc, Value storage, RefType root, RefType window, Value update) {
  Type from = root.getElementType(), to = window.getElementType();
  if (from == to) {
    return writeWindow(builder, loc, storage, root, window, update);
  }
  if (isa<ComplexType>(from)) {
    RefType parts = partsOf(root, to);
    Value values = PartsOp::create(builder, loc, parts.getTensorType(), storage);
    values = writeWindow(builder, loc, values, parts, window, update);
    return ComplexOp::create(builder, loc, storage.getType(), values);
  }
  if (isa<ComplexType>(to)) {
    RefType pairs = partsOf(window, from);
    Value parts = PartsOp::create(builder, loc, pairs.getTensorType(), update);
    return writeWindow(builder, loc, storage, root, pairs, parts);
  }
  RefType plain = RefType::get(window.getShape(), from, window.getStrides(), window.getOffset());
  Value bits = BitcastOp::create(builder, loc, plain.getTensorType(), update);
  return writeWindow(builder, loc, storage, root, plain, bits);
}
