// SPDX-License-Identifier: Apache-2.0
// Reading FlatBuffers' vectors of 64-bit numbers wherever they lie. The verifier checks that a vector lies inside of
// its buffer, not that its elements are aligned, and hostile bytes put them at any address. All generated headers
// include this one (cmake/FlatBuffers.cmake).
#ifndef SOJOURN_RUNTIME_UNALIGNED_H
#define SOJOURN_RUNTIME_UNALIGNED_H
#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <cstring>

namespace sojourn::runtime {

/// As flatbuffers::IndirectHelper for numbers, but by copies.
template <class Number>
struct UnalignedNumbers {
  using return_type = Number;
  using mutable_return_type = Number;
  static constexpr size_t element_stride = sizeof(Number);                   // NOLINT: FlatBuffers' name
  static Number Read(const uint8_t *numbers, flatbuffers::uoffset_t index) { // NOLINT
    Number number;
    std::memcpy(&number, numbers + size_t{index} * sizeof(Number), sizeof(Number));
    return flatbuffers::EndianScalar(number);
  }
};

} // namespace sojourn::runtime

template <>
struct flatbuffers::IndirectHelper<uint64_t> : sojourn::runtime::UnalignedNumbers<uint64_t> {};
template <>
struct flatbuffers::IndirectHelper<int64_t> : sojourn::runtime::UnalignedNumbers<int64_t> {};
template <>
struct flatbuffers::IndirectHelper<double> : sojourn::runtime::UnalignedNumbers<double> {};

#endif // SOJOURN_RUNTIME_UNALIGNED_H
