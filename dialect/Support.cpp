// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic and bounds (see Support.h), and the shape checks that traits share.
#include "dialect/Base.h"
#include "dialect/Bounds.h"
#include "dialect/ElementTypes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sojourn;

/// The product with sizes of 0 as 1: kernels multiply the others even where a tensor is empty.
static std::optional<int64_t> checkedSpan(ArrayRef<int64_t> shape, int64_t most) {
  int64_t span = 1;
  for (int64_t size : shape) {
    int64_t factor = std::max<int64_t>(size, 1);
    if (size < 0 || span > most / factor) {
      return std::nullopt;
    }
    span *= factor;
  }
  return span;
}

int64_t sojourn::elementBytes(Type element) {
  if (auto complex = dyn_cast<ComplexType>(element)) {
    return 2 * elementBytes(complex.getElementType());
  }
  return element.isInteger(1) ? 1 : element.isIntOrFloat() ? element.getIntOrFloatBitWidth() / 8 : 0;
}

std::optional<int64_t> sojourn::checkedNumel(ArrayRef<int64_t> shape, int64_t most) {
  std::optional<int64_t> span = checkedSpan(shape, most);
  return span && llvm::is_contained(shape, 0) ? 0 : span;
}

std::optional<int64_t> sojourn::checkedNumel(ArrayRef<int64_t> shape) {
  return checkedNumel(shape, bounds::kValueElements);
}

std::string sojourn::outOfBounds(RankedTensorType tensor) {
  if (tensor.getRank() > static_cast<int64_t>(bounds::kRank)) {
    return "expected at most " + std::to_string(bounds::kRank) + " dims";
  }
  std::optional<int64_t> span = checkedSpan(tensor.getShape(), bounds::kValueElements);
  if (!span) {
    return "expected at most " + boundText(bounds::kValueElements) + " elements";
  }
  std::optional<Element> element = elementOf(tensor.getElementType());
  if (element && *span > bounds::kValueBytes / static_cast<int64_t>(byteWidth(*element))) {
    return "expected at most " + boundText(bounds::kValueBytes) + " bytes";
  }
  return {};
}

std::string sojourn::boundText(int64_t bound) {
  return llvm::isPowerOf2_64(static_cast<uint64_t>(bound)) ? "2^" + std::to_string(llvm::Log2_64(bound))
                                                           : std::to_string(bound);
}

bool sojourn::isCoreElement(Type type) { return elementOf(type).has_value(); }

bool sojourn::isUnresolved(Type type) { return isa<UnresolvedType>(type); }

bool sojourn::isRankZero(Type type, unsigned integerWidth) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 0 && !tensor.getEncoding() &&
         tensor.getElementType().isSignlessInteger(integerWidth);
}

bool sojourn::isScalarOf(Type type, unsigned integerWidth) {
  auto scalar = dyn_cast<ScalarType>(type);
  return scalar && scalar.getElementType().isSignlessInteger(integerWidth);
}

std::string sojourn::unknownSpecial(StringRef function, unsigned arity) {
  static constexpr std::pair<StringLiteral, unsigned> functions[] = {
#define SOJOURN_SPECIAL(name, arity) {#name, arity},
#include "dialect/SpecialFunctions.def"
  };
  std::string expected;
  for (const auto &[name, operands] : functions) {
    if (operands != arity) {
      continue;
    }
    if (name == function) {
      return {};
    }
    expected += (expected.empty() ? "" : ", ") + name.str();
  }
  return "function is \"" + function.str() + "\", expected one of " + expected;
}

std::optional<int64_t> sojourn::windowOutput(int64_t size, int64_t window, int64_t stride, int64_t padding,
                                             int64_t dilation) {
  auto bounded = [](int64_t value, int64_t low) { return value >= low && value <= bounds::kDimension; };
  if (!bounded(size, 0) || !bounded(window, 1) || !bounded(stride, 1) || !bounded(padding, 0) ||
      !bounded(dilation, 1) || (window - 1) > bounds::kDimension / dilation) {
    return std::nullopt;
  }
  int64_t span = size + 2 * padding - dilation * (window - 1) - 1;
  if (span < 0) {
    return std::nullopt;
  }
  return span / stride + 1;
}

LogicalResult sojourn::detail::verifyCoreTensors(Operation *op) {
  auto check = [&](Type type, StringRef what, unsigned index) -> LogicalResult {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor) {
      return success();
    }
    if (tensor.getEncoding()) {
      return op->emitOpError() << what << " #" << index << " has type " << type
                               << ", expected a tensor without encoding";
    }
    if (std::string problem = outOfBounds(tensor); !problem.empty()) {
      return op->emitOpError() << what << " #" << index << " has type " << type << ", " << problem;
    }
    return success();
  };
  for (auto [index, type] : llvm::enumerate(op->getOperandTypes())) {
    if (failed(check(type, "operand", index))) {
      return failure();
    }
  }
  for (auto [index, type] : llvm::enumerate(op->getResultTypes())) {
    if (failed(check(type, "result", index))) {
      return failure();
    }
  }
  return success();
}
