// SPDX-License-Identifier: Apache-2.0
// The least and the largest element (see Extent.h).
#include "runtime/Extent.h"

#include "llvm/ADT/APFloat.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace sojourn::runtime {

template <typename T>
static double numberAt(const uint8_t *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return static_cast<double>(value);
}

static double halfAt(const uint8_t *bytes, const llvm::fltSemantics &semantics) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  llvm::APFloat value(semantics, llvm::APInt(16, bits));
  bool lossy;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return value.convertToDouble();
}

/// NaN for complex numbers.
static double elementAt(Element element, const uint8_t *bytes) {
  switch (element) {
  case Element::i1:
  case Element::u8: return numberAt<uint8_t>(bytes);
  case Element::i8: return numberAt<int8_t>(bytes);
  case Element::i16: return numberAt<int16_t>(bytes);
  case Element::i32: return numberAt<int32_t>(bytes);
  case Element::i64: return numberAt<int64_t>(bytes);
  case Element::f16: return halfAt(bytes, llvm::APFloat::IEEEhalf());
  case Element::bf16: return halfAt(bytes, llvm::APFloat::BFloat());
  case Element::f32: return numberAt<float>(bytes);
  case Element::f64: return numberAt<double>(bytes);
  default: return std::nan("");
  }
}

std::optional<std::vector<double>> numbersOf(Element element, std::span<const uint8_t> bytes) {
  if (bytes.size() > kExtentBytes || isComplex(element)) {
    return std::nullopt;
  }
  std::vector<double> numbers;
  for (size_t at = 0, width = byteWidth(element); at + width <= bytes.size(); at += width) {
    numbers.push_back(elementAt(element, bytes.data() + at));
  }
  return numbers;
}

std::optional<Extent> extentOf(Element element, std::span<const uint8_t> bytes) {
  size_t width = byteWidth(element);
  if (bytes.empty() || bytes.size() > kExtentBytes) {
    return std::nullopt;
  }
  std::optional<Extent> extent;
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    double number = elementAt(element, bytes.data() + at);
    if (!std::isfinite(number) || (isInteger(element) && std::abs(number) >= 0x1p53)) {
      return std::nullopt;
    }
    extent = extent ? Extent{std::min(extent->low, number), std::max(extent->high, number)} : Extent{number, number};
  }
  return extent;
}

/// Down for -1, up for 1.
static double rounded(double number, int direction) {
  int exponent;
  double fraction = std::frexp(number, &exponent) * 16; // between 8 and 16 in magnitude
  double result = std::ldexp(direction < 0 ? std::floor(fraction) : std::ceil(fraction), exponent - 4);
  return std::isfinite(result) ? result : direction * std::numeric_limits<double>::infinity();
}

Extent roundedOut(const Extent &extent) { return {rounded(extent.low, -1), rounded(extent.high, 1)}; }

} // namespace sojourn::runtime
