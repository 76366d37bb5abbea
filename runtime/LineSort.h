// SPDX-License-Identifier: Apache-2.0
// Stable sorts of lines of elements: by keys, numbers whose order is that of the elements.
#ifndef SOJOURN_RUNTIME_LINESORT_H
#define SOJOURN_RUNTIME_LINESORT_H

#include "runtime/Stop.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace sojourn::runtime {

/// NaN is the largest element; both zeros are equal.
template <typename T>
uint64_t sortKey(T value, bool descending) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1), kAll = std::numeric_limits<Bits>::max();
    const Bits bits = std::bit_cast<Bits>(value == 0 ? T(0) : value);
    const Bits key = value != value ? kAll : (bits & kSign) != 0 ? static_cast<Bits>(~bits) : bits | kSign;
    return descending ? kAll - key : key;
  } else {
    const uint64_t key = static_cast<uint64_t>(static_cast<int64_t>(value)) ^ (uint64_t{1} << 63);
    return descending ? ~key : key;
  }
}

struct KeyedIndex {
  uint64_t key;
  int64_t index;
  bool operator<(const KeyedIndex &other) const { return key != other.key ? key < other.key : index < other.index; }
};

/// Sorts by key; `entries` are in the order of their indices, `spare` is room for as many. Returns which of the two has
/// the result. Long lines are sorted by digits from the lowest on, short ones by comparisons.
inline KeyedIndex *sortByKey(KeyedIndex *entries, KeyedIndex *spare, int64_t size) {
  constexpr int64_t kLong = 1024;
  constexpr int kBits = 11, kDigits = 6;
  constexpr uint64_t kValues = uint64_t{1} << kBits;
  if (size < kLong || size > std::numeric_limits<uint32_t>::max()) {
    std::sort(entries, entries + size);
    return entries;
  }
  std::array<std::array<uint32_t, kValues>, kDigits> counts{};
  for (int64_t i = 0; i < size; ++i) {
    for (int digit = 0; digit < kDigits; ++digit) {
      ++counts[static_cast<size_t>(digit)][entries[i].key >> (digit * kBits) & (kValues - 1)];
    }
  }
  for (int digit = 0; digit < kDigits; ++digit) {
    auto &starts = counts[static_cast<size_t>(digit)];
    const int shift = digit * kBits;
    if (starts[entries[0].key >> shift & (kValues - 1)] == size) {
      continue; // all have this digit
    }
    uint32_t start = 0;
    for (uint32_t &each : starts) {
      start += std::exchange(each, start);
    }
    for (int64_t i = 0; i < size; ++i) {
      spare[starts[entries[i].key >> shift & (kValues - 1)]++] = entries[i];
    }
    std::swap(entries, spare);
    checkStop();
  }
  return entries;
}

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_LINESORT_H
