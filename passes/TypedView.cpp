// SPDX-License-Identifier: Apache-2.0
// Windows that see a storage's memory as elements of another type (see StridedView.h).
#include "dialect/ElementwiseOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/ReductionOps.h"
#include "dialect/SourceOps.h"
#include "dialect/Support.h"
#include "dialect/UnaryOps.h"
#include "passes/StridedView.h"

using namespace mlir;
using namespace sojourn;

std::optional<WidthRatio> sojourn::widthRatio(Type storage, Type window) {
  if (storage == window) {
    return WidthRatio{};
  }
  const int64_t from = elementBytes(storage), to = elementBytes(window);
  if (from == 0 || to == 0) {
    return std::nullopt;
  }
  return from >= to ? WidthRatio{from / to, 1} : WidthRatio{1, to / from};
}

/// The layout of what each element consists of: `count` parts that lie side by side.
static RefType partsOf(RefType type, Type element, int64_t count) {
  SmallVector<int64_t> shape(type.getShape()), strides;
  for (int64_t stride : type.getStrides()) {
    strides.push_back(count * stride);
  }
  shape.push_back(count);
  strides.push_back(1);
  return RefType::get(shape, element, strides, count * type.getOffset());
}

static RefType withElement(RefType type, Type element) {
  return RefType::get(type.getShape(), element, type.getStrides(), type.getOffset());
}

namespace {

/// Ops on the bits of elements. Memory is little-endian, at the client and at the owner.
class Bits {
public:
  Bits(OpBuilder &builder, Location loc) : builder_(builder), loc_(loc) {}

  /// As many elements of another type of equal width; booleans are bytes of 0 or 1, and other bytes are true.
  Value recast(Value x, Type to) const {
    Type from = elementOf(x);
    if (from == to) {
      return x;
    }
    if (from.isInteger(1)) {
      x = convert(x, builder_.getI8Type());
      return recast(x, to);
    }
    if (to.isInteger(1)) {
      return convert(recast(x, builder_.getI8Type()), to);
    }
    return BitcastOp::create(builder_, loc_, typeOf(x).clone(to), x);
  }

  /// [...] to [..., count] of a narrower type: the low bits first.
  Value split(Value x, Type to) const {
    const int64_t count = elementBytes(elementOf(x)) / elementBytes(to);
    SmallVector<int64_t> shape(typeOf(x).getShape()), dims;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      dims.push_back(static_cast<int64_t>(dim));
    }
    shape.push_back(count);
    x = convert(recast(x, whole(elementOf(x))), builder_.getI64Type());
    auto type = RankedTensorType::get(shape, builder_.getI64Type());
    x = BroadcastOp::create(builder_, loc_, type, x, dims);
    x = ShrOp::create(builder_, loc_, type, x, places(type, to));
    return recast(convert(x, whole(to)), to);
  }

  /// [..., count] to [...] of a wider type.
  Value join(Value x, Type to) const {
    Type part = elementOf(x);
    x = convert(recast(x, whole(part)), builder_.getI64Type());
    auto type = typeOf(x);
    x = AndOp::create(builder_, loc_, type, x, number((int64_t(1) << (8 * elementBytes(part))) - 1));
    x = ShlOp::create(builder_, loc_, type, x, places(type, part));
    // No two parts have a bit in common.
    x = ReduceSumOp::create(builder_, loc_, RankedTensorType::get(type.getShape().drop_back(), builder_.getI64Type()),
                            x, ArrayRef<int64_t>{type.getRank() - 1});
    return recast(convert(x, whole(to)), to);
  }

private:
  static RankedTensorType typeOf(Value x) { return cast<RankedTensorType>(x.getType()); }
  static Type elementOf(Value x) { return typeOf(x).getElementType(); }

  /// The signed integers of its width.
  Type whole(Type element) const { return builder_.getIntegerType(static_cast<unsigned>(8 * elementBytes(element))); }

  Value convert(Value x, Type to) const {
    return elementOf(x) == to ? x : Value(ConvertOp::create(builder_, loc_, typeOf(x).clone(to), x));
  }

  Value number(int64_t value) const {
    return ConstantOp::create(builder_, loc_, RankedTensorType::get({}, builder_.getI64Type()),
                              builder_.getI64IntegerAttr(value));
  }

  /// How far to the left each part stands, in bits.
  Value places(RankedTensorType type, Type part) const {
    Value index = IotaOp::create(builder_, loc_, type, type.getRank() - 1);
    return MulOp::create(builder_, loc_, type, index, number(8 * elementBytes(part)));
  }

  OpBuilder &builder_;
  Location loc_;
};

Type realOf(Type type) { return isa<ComplexType>(type) ? cast<ComplexType>(type).getElementType() : type; }

} // namespace

Value sojourn::readTyped(OpBuilder &builder, Location loc, Value storage, RefType root, RefType window) {
  Type from = root.getElementType(), to = window.getElementType();
  if (from == to) {
    return readWindow(builder, loc, storage, root, window);
  }
  Bits bits(builder, loc);
  if (isa<ComplexType>(from)) {
    RefType parts = partsOf(root, realOf(from), 2);
    return readTyped(builder, loc, PartsOp::create(builder, loc, parts.getTensorType(), storage), parts, window);
  }
  if (isa<ComplexType>(to)) {
    Value pairs = readTyped(builder, loc, storage, root, partsOf(window, realOf(to), 2));
    return ComplexOp::create(builder, loc, window.getTensorType(), pairs);
  }
  const int64_t width = elementBytes(from), wanted = elementBytes(to);
  if (width > wanted) {
    return readWindow(builder, loc, bits.split(storage, to), partsOf(root, to, width / wanted), window);
  }
  if (width < wanted) {
    return bits.join(readWindow(builder, loc, storage, root, partsOf(window, from, wanted / width)), to);
  }
  return bits.recast(readWindow(builder, loc, storage, root, withElement(window, from)), to);
}

Value sojourn::writeTyped(OpBuilder &builder, Location loc, Value storage, RefType root, RefType window, Value update) {
  Type from = root.getElementType(), to = window.getElementType();
  if (from == to) {
    return writeWindow(builder, loc, storage, root, window, update);
  }
  Bits bits(builder, loc);
  if (isa<ComplexType>(from)) {
    RefType parts = partsOf(root, realOf(from), 2);
    Value values = PartsOp::create(builder, loc, parts.getTensorType(), storage);
    values = writeTyped(builder, loc, values, parts, window, update);
    return ComplexOp::create(builder, loc, storage.getType(), values);
  }
  if (isa<ComplexType>(to)) {
    RefType pairs = partsOf(window, realOf(to), 2);
    Value parts = PartsOp::create(builder, loc, pairs.getTensorType(), update);
    return writeTyped(builder, loc, storage, root, pairs, parts);
  }
  const int64_t width = elementBytes(from), written = elementBytes(to);
  if (width > written) {
    Value values = bits.split(storage, to);
    values = writeWindow(builder, loc, values, partsOf(root, to, width / written), window, update);
    return bits.join(values, from);
  }
  if (width < written) {
    return writeWindow(builder, loc, storage, root, partsOf(window, from, written / width), bits.split(update, from));
  }
  return writeWindow(builder, loc, storage, root, withElement(window, from), bits.recast(update, from));
}
