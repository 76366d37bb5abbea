// SPDX-License-Identifier: Apache-2.0
// Generated headers read vectors of 64-bit numbers wherever they lie (runtime/Unaligned.h). The sanitizers' build sees
// a read that is not aligned.
#include "runtime/Program_generated.h"
#include "runtime/wire/Artifact_generated.h"
#include "runtime/wire/Messages_generated.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <type_traits>

namespace {

template <class Number>
void expectAnyPlace() {
  static_assert(std::is_base_of_v<sojourn::runtime::UnalignedNumbers<Number>, flatbuffers::IndirectHelper<Number>>);
  std::mt19937_64 random(std::random_device{}());
  alignas(16) std::array<uint8_t, 64> bytes{};
  for (uint8_t &byte : bytes) {
    byte = static_cast<uint8_t>(random());
  }
  for (size_t offset : {0, 4}) { // the verifier asks that the count is aligned
    const flatbuffers::uoffset_t size = 3;
    std::memcpy(bytes.data() + offset, &size, sizeof(size));
    const auto *vector = reinterpret_cast<const flatbuffers::Vector<Number> *>(bytes.data() + offset);
    flatbuffers::uoffset_t index = 0;
    for (const Number &found : *vector) {
      Number expected;
      std::memcpy(&expected, bytes.data() + offset + sizeof(size) + index * sizeof(Number), sizeof(Number));
      EXPECT_EQ(std::memcmp(&found, &expected, sizeof(Number)), 0) << offset;
      const Number again = vector->Get(index++);
      EXPECT_EQ(std::memcmp(&again, &expected, sizeof(Number)), 0) << offset;
    }
    EXPECT_EQ(index, size);
  }
}

} // namespace

TEST(Unaligned, NumbersAreReadWhereverTheyLie) {
  expectAnyPlace<uint64_t>();
  expectAnyPlace<int64_t>();
  expectAnyPlace<double>();
}
