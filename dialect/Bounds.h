// SPDX-License-Identifier: Apache-2.0
// Bounds of types and values that the program format states: verifiers, decoder, client and owner refuse the same.
// Bounds of whole programs and runs are in runtime/Limits.h, those of an owner in owner/Limits.h. owner/numpy reads
// them from sojourn_wire.format, which the build writes (runtime/wire/WriteFormat.cpp).
#ifndef SOJOURN_DIALECT_BOUNDS_H
#define SOJOURN_DIALECT_BOUNDS_H

#include <cstddef>
#include <cstdint>

namespace sojourn::bounds {

/// Dims of a tensor.
inline constexpr size_t kRank = 16;
/// Every size, stride, offset and amount that an attribute names, so that sums of a few never overflow.
inline constexpr int64_t kDimension = int64_t{1} << 40;
/// Elements of a tensor, and their bytes. A size of 0 counts as 1: it does not hide large sizes beside it.
inline constexpr int64_t kValueElements = int64_t{1} << 32;
inline constexpr int64_t kValueBytes = int64_t{1} << 34;

inline constexpr int64_t kTableRows = int64_t{1} << 32;
inline constexpr size_t kColumns = 65'536;
/// Sizes and elements of one entry of a shaped column.
inline constexpr size_t kEntryRank = 8;
inline constexpr int64_t kEntryElements = int64_t{1} << 24;

/// Roles of a joint step; segments of rows of one value; exchanges of a step, one after another.
inline constexpr int64_t kPartiesLeast = 2, kPartiesMost = 16;
/// Roles of a sum over rows that has masks: of two, each would know the other one's term.
inline constexpr int64_t kMaskedRolesLeast = 3;
inline constexpr size_t kSegments = 256, kExchanges = 4'096;

/// Captured form alone, which no program holds: a view's sizes and strides are addresses, not memory, and passes may
/// make something smaller of it.
inline constexpr size_t kViewRank = 32;
inline constexpr int64_t kViewElements = kDimension;

} // namespace sojourn::bounds

#endif // SOJOURN_DIALECT_BOUNDS_H
