// SPDX-License-Identifier: Apache-2.0
// Ranges and places of slots (see Fact.h).
#include "dialect/rows/Fact.h"

#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <cmath>

using namespace sojourn;
using namespace sojourn::rows;

bool Range::isBounded() const { return !nan && std::isfinite(low) && std::isfinite(high); }

double Range::magnitude() const {
  return nan ? std::numeric_limits<double>::infinity() : std::max(std::abs(low), std::abs(high));
}

Range Range::hull(const Range &other) const {
  return {std::min(low, other.low), std::max(high, other.high), nan || other.nan, whole && other.whole};
}

Range Range::meet(const Range &other) const {
  Range both{std::max(low, other.low), std::min(high, other.high), nan && other.nan, whole || other.whole};
  return both.low <= both.high ? both : *this;
}

llvm::StringRef rows::stringify(Kind kind) {
  switch (kind) {
  case Kind::Public: return "public";
  case Kind::PerRow: return "per row";
  case Kind::Sum: return "sum over rows";
  case Kind::Derived: return "derived from sums over rows";
  case Kind::Mixed: return "mixed";
  }
  llvm_unreachable("every kind has a name");
}

std::optional<Place> rows::placeOf(const Alignment &alignment, llvm::ArrayRef<int64_t> shape) {
  int64_t inner = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    int64_t size = shape[d];
    if (size > 1 && alignment.stride >= inner && alignment.stride / inner < size) {
      int64_t within = alignment.stride / inner;
      if (alignment.stride % inner != 0 || size % within != 0 || (size / within) % alignment.slots != 0) {
        return std::nullopt;
      }
      return Place{static_cast<int64_t>(d), size / within / alignment.slots, within};
    }
    if (size == 0) {
      return std::nullopt;
    }
    inner *= size;
  }
  return std::nullopt;
}
