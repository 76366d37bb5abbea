// SPDX-License-Identifier: Apache-2.0
// Between what numbers the elements of a small public tensor lie: class weights, for instance, bound what a loss is
// divided by. Client and owner look with the same function, each at the bytes that it has.
#ifndef SOJOURN_RUNTIME_EXTENT_H
#define SOJOURN_RUNTIME_EXTENT_H

#include "runtime/Tensor.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sojourn::runtime {

/// Closed.
struct Extent {
  double low = 0, high = 0;
  friend bool operator==(const Extent &, const Extent &) = default;
};

/// Larger tensors are not looked at.
inline constexpr size_t kExtentBytes = 8192;

/// All elements of a real tensor of up to kExtentBytes, as numbers; whole ones beyond 2^53 are rounded.
std::optional<std::vector<double>> numbersOf(Element element, std::span<const uint8_t> bytes);

/// Nothing for empty, large and complex tensors, and where an element is NaN, infinite, or a whole number beyond 2^53,
/// which f64 may round.
std::optional<Extent> extentOf(Element element, std::span<const uint8_t> bytes);

/// Outward, to eight numbers between two powers of two: what decides over a program's proof should not be new with
/// every value.
Extent roundedOut(const Extent &extent);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_EXTENT_H
