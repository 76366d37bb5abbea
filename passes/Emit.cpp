// SPDX-License-Identifier: Apache-2.0
// Core ops in one call each (see Emit.h).
#include "passes/Emit.h"
#include "dialect/ContractionOps.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/ReductionOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"

using namespace mlir;
using namespace sojourn;

int64_t Emit::numel(ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) {
    count *= size;
  }
  return count;
}

Value Emit::constant(double number, Type element) {
  Type type = element ? element : builder.getF64Type();
  TypedAttr value = isa<FloatType>(type) ? TypedAttr(builder.getFloatAttr(type, number))
                                         : builder.getIntegerAttr(type, static_cast<int64_t>(number));
  return ConstantOp::create(builder, location, RankedTensorType::get({}, type), value);
}

Value Emit::convert(Value x, Type to) {
  if (element(x) == to) {
    return x;
  }
  return ConvertOp::create(builder, location, RankedTensorType::get(shape(x), to), x);
}

Value Emit::compare(StringRef predicate, Value a, Value b) {
  ArrayRef<int64_t> sizes = shape(a).empty() ? shape(b) : shape(a);
  return CompareOp::create(builder, location, RankedTensorType::get(sizes, builder.getI1Type()), a, b, predicate);
}

Value Emit::select(Value predicate, Value a, Value b) {
  ArrayRef<int64_t> sizes = shape(predicate);
  for (Value each : {a, b}) {
    sizes = sizes.empty() ? shape(each) : sizes;
  }
  return SelectOp::create(builder, location, RankedTensorType::get(sizes, element(a)), predicate, a, b);
}

Value Emit::reshape(Value x, ArrayRef<int64_t> sizes) {
  if (shape(x) == sizes) {
    return x;
  }
  return ReshapeOp::create(builder, location, RankedTensorType::get(sizes, element(x)), x);
}

Value Emit::transpose(Value x, ArrayRef<int64_t> perm) {
  SmallVector<int64_t> sizes;
  bool moves = false;
  for (auto [k, dim] : llvm::enumerate(perm)) {
    sizes.push_back(shape(x)[static_cast<size_t>(dim)]);
    moves |= dim != static_cast<int64_t>(k);
  }
  return moves ? TransposeOp::create(builder, location, RankedTensorType::get(sizes, element(x)), x, perm).getResult()
               : x;
}

Value Emit::broadcast(Value x, ArrayRef<int64_t> sizes, ArrayRef<int64_t> dims) {
  return BroadcastOp::create(builder, location, RankedTensorType::get(sizes, element(x)), x, dims);
}

Value Emit::slice(Value x, int64_t dim, int64_t first, int64_t limit) {
  SmallVector<int64_t> sizes(shape(x)), low(sizes.size(), 0), high(sizes), step(sizes.size(), 1);
  low[dim] = first;
  high[dim] = limit;
  sizes[dim] = limit - first;
  return SliceOp::create(builder, location, RankedTensorType::get(sizes, element(x)), x, low, high, step);
}

Value Emit::concat(ArrayRef<Value> parts, int64_t dim) {
  if (parts.size() == 1) {
    return parts[0];
  }
  SmallVector<int64_t> sizes(shape(parts[0]));
  sizes[static_cast<size_t>(dim)] = 0;
  for (Value part : parts) {
    sizes[static_cast<size_t>(dim)] += shape(part)[static_cast<size_t>(dim)];
  }
  return ConcatOp::create(builder, location, RankedTensorType::get(sizes, element(parts[0])), parts, dim);
}

Value Emit::sum(Value x, ArrayRef<int64_t> dims) {
  if (dims.empty()) {
    return x;
  }
  SmallVector<int64_t> sizes;
  for (auto [dim, size] : llvm::enumerate(shape(x))) {
    if (!llvm::is_contained(dims, static_cast<int64_t>(dim))) {
      sizes.push_back(size);
    }
  }
  return ReduceSumOp::create(builder, location, RankedTensorType::get(sizes, element(x)), x, dims);
}

Value Emit::dot(Value a, Value b, ArrayRef<int64_t> lhsBatch, ArrayRef<int64_t> rhsBatch, ArrayRef<int64_t> lhsContract,
                ArrayRef<int64_t> rhsContract) {
  SmallVector<int64_t> sizes;
  for (int64_t dim : lhsBatch) {
    sizes.push_back(shape(a)[static_cast<size_t>(dim)]);
  }
  auto appendFree = [&](Value x, ArrayRef<int64_t> batch, ArrayRef<int64_t> contract) {
    for (auto [dim, size] : llvm::enumerate(shape(x))) {
      int64_t number = static_cast<int64_t>(dim);
      if (!llvm::is_contained(batch, number) && !llvm::is_contained(contract, number)) {
        sizes.push_back(size);
      }
    }
  };
  appendFree(a, lhsBatch, lhsContract);
  appendFree(b, rhsBatch, rhsContract);
  return DotOp::create(builder, location, RankedTensorType::get(sizes, element(a)), a, b, lhsBatch, rhsBatch,
                       lhsContract, rhsContract);
}
