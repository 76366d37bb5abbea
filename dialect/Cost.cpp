// SPDX-License-Identifier: Apache-2.0
// Saturating arithmetic on shapes (see Cost.h).
#include "dialect/Cost.h"

#include "dialect/Base.h"

#include "mlir/IR/Operation.h"
#include "mlir/IR/TypeUtilities.h"
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

uint64_t cost::each(Value value, uint64_t ofReal, uint64_t ofInteger, uint64_t ofComplex) {
  Type element = getElementTypeOrSelf(value.getType());
  return times({elements(value), isa<ComplexType>(element) ? ofComplex : isa<FloatType>(element) ? ofReal : ofInteger});
}

uint64_t cost::special(Value value, StringRef function) {
  // Zeta raises up to 4,096 numbers to a power; recurrences take up to 4,096 steps, slow ones on subnormal numbers.
  constexpr uint64_t kZeta = 131'072, kRecurrence = 16'384, kSeries = 4'096;
  return times({elements(value), function == "zeta" ? kZeta : function.contains("polynomial") ? kRecurrence : kSeries});
}

uint64_t cost::results(Operation *op) {
  uint64_t total = 0;
  for (Value result : op->getResults()) {
    total = sum({total, elements(result)});
  }
  return total;
}

/// Product of all sizes but the last two.
static uint64_t matrices(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  uint64_t product = tensor ? 1 : kMost;
  for (int64_t dim = 0; tensor && dim + 2 < tensor.getRank(); ++dim) {
    product = cost::times({product, cost::size(value, dim)});
  }
  return product;
}

static uint64_t lastSize(Value value, int64_t before) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return cost::size(value, tensor ? tensor.getRank() - 1 - before : -1);
}

uint64_t cost::solve(Value a, Value b, uint64_t call) {
  constexpr uint64_t kPerEntry = 8;
  return sum({times({matrices(a), call}), times({kPerEntry, elements(a)}),
              times({2, elements(b), sum({kPerEntry, lastSize(a, 0)})})});
}

uint64_t cost::factors(Operation *op, uint64_t call, uint64_t eliminated, uint64_t made) {
  constexpr uint64_t kPerEntry = 64; // columns are walked over in strides
  Value x = op->getOperand(0);
  const uint64_t steps = std::min(lastSize(x, 0), lastSize(x, 1));
  return sum({times({matrices(x), call}), times({eliminated, elements(x), steps}),
              times({results(op), sum({kPerEntry, times({made, steps})})})});
}

/// Elements of the columns of one image: each window's, one after the other. The library multiplies with them where it
/// has no blocked loops: for doubles, small single images and few channels.
static uint64_t columnElements(Value x, Value w, Value y) {
  constexpr uint64_t kSmallImage = 20'480, kFewChannels = 3, kFewTaps = 49;
  const uint64_t taps = cost::spatial(w);
  const bool hasColumns = getElementTypeOrSelf(x.getType()).isF64() ||
                          (cost::size(x, 0) == 1 && cost::elements(x) <= kSmallImage) ||
                          (cost::size(w, 1) <= kFewChannels && taps <= kFewTaps);
  return hasColumns ? cost::times({cost::size(w, 1), taps, cost::spatial(y)}) : 0;
}

uint64_t cost::convolution(Value x, Value w, Value y, uint64_t groups, uint64_t perElement) {
  constexpr uint64_t kGroup = 4'096, kImage = 256, kWeight = 16, kColumn = 8;
  const uint64_t images = size(x, 0);
  return sum({times({2, elements(y), size(w, 1), spatial(w)}), times({perElement, sum({elements(x), elements(y)})}),
              times({kWeight, elements(w)}), times({groups, sum({kGroup, times({kImage, images})})}),
              times({kColumn, images, groups, columnElements(x, w, y)})});
}

uint64_t cost::convolutionBytes(Value x, Value w, Value y) {
  // Each thread lays out the columns of one image, or of as many as fit in some memory (runtime/Library.h).
  constexpr uint64_t kPieces = 16, kColumnBytes = 16 << 20;
  const uint64_t column = times({8, columnElements(x, w, y)}), images = size(x, 0);
  const uint64_t pieces = std::min(kPieces, times({images, std::max(size(x, 1), size(y, 1))}));
  return sum({times({3, sum({bytes(x), bytes(w), bytes(y)})}), times({pieces, column}),
              std::min(times({images, column}), kPieces * kColumnBytes)});
}

uint64_t cost::windowElements(Value x, ArrayRef<int64_t> window) {
  uint64_t product = 1;
  for (auto [k, taps] : llvm::enumerate(window)) {
    uint64_t most = size(x, static_cast<int64_t>(k) + 2);
    product = times({product, taps < 0 ? kMost : std::min(static_cast<uint64_t>(taps), most)});
  }
  return product;
}
