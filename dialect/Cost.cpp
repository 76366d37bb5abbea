// SPDX-License-Identifier: Apache-2.0
// Saturating arithmetic on shapes (see Cost.h).
#include "dialect/Cost.h"

#include "dialect/Base.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sojourn;

static constexpr uint64_t kMost = UINT64_MAX;

uint64_t cost::sum(std::initializer_list<uint64_t> terms) {
  uint64_t total = 0;
  for (uint64_t term : terms) {
    total = llvm::SaturatingAdd(total, term);
  }
  return total;
}

uint64_t cost::times(std::initializer_list<uint64_t> factors) {
  uint64_t product = 1;
  for (uint64_t factor : factors) {
    product = llvm::SaturatingMultiply(product, factor);
  }
  return product;
}

uint64_t cost::passes(uint64_t count) { return 1 + (count < 2 ? 0 : llvm::Log2_64_Ceil(count)); }

uint64_t cost::elements(Type type) {
  if (isa<TableType>(type)) {
    return 0;
  }
  auto tensor = dyn_cast<RankedTensorType>(type);
  std::optional<int64_t> count = tensor ? checkedNumel(tensor.getShape()) : std::nullopt;
  return count ? static_cast<uint64_t>(*count) : kMost;
}

uint64_t cost::elements(Value value) { return elements(value.getType()); }

uint64_t cost::bytes(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  Type element = tensor ? tensor.getElementType() : Type();
  uint64_t parts = 1;
  if (auto complex = dyn_cast_or_null<ComplexType>(element)) {
    element = complex.getElementType();
    parts = 2;
  }
  // Booleans take a byte each.
  uint64_t width = element && element.isIntOrFloat() ? (element.getIntOrFloatBitWidth() + 7) / 8 : 1;
  return times({elements(type), width, parts});
}

uint64_t cost::bytes(Value value) { return bytes(value.getType()); }

uint64_t cost::width(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && isa<ComplexType>(tensor.getElementType()) ? 16 : 8;
}

uint64_t cost::size(Value value, int64_t dim) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  if (!tensor || dim < 0 || dim >= tensor.getRank() || tensor.getDimSize(static_cast<unsigned>(dim)) < 0) {
    return kMost;
  }
  return static_cast<uint64_t>(tensor.getDimSize(static_cast<unsigned>(dim)));
}

uint64_t cost::sizes(Value value, ArrayRef<int64_t> dims) {
  uint64_t product = 1;
  for (int64_t dim : dims) {
    product = times({product, size(value, dim)});
  }
  return product;
}

uint64_t cost::spatial(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  uint64_t product = tensor ? 1 : kMost;
  for (int64_t dim = 2; tensor && dim < tensor.getRank(); ++dim) {
    product = times({product, size(value, dim)});
  }
  return product;
}

uint64_t cost::windowElements(Value x, ArrayRef<int64_t> window) {
  uint64_t product = 1;
  for (auto [k, taps] : llvm::enumerate(window)) {
    uint64_t most = size(x, static_cast<int64_t>(k) + 2);
    product = times({product, taps < 0 ? kMost : std::min(static_cast<uint64_t>(taps), most)});
  }
  return product;
}
