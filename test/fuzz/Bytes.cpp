// SPDX-License-Identifier: Apache-2.0
// Mutations of bytes and numbers (see Bytes.h).
#include "test/fuzz/Bytes.h"

#include <cstring>
#include <limits>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most); // NOLINT: libFuzzer's name

namespace sojourn::fuzz {

std::string mutateBytes(std::string bytes, size_t most) {
  const size_t size = std::min(bytes.size(), most);
  bytes.resize(most);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(bytes.data()), size, most));
  return bytes;
}

int64_t edgeInteger(Dice &dice) {
  if (dice.chance(0.5)) {
    return dice.between(-2, 9);
  }
  const int64_t power = int64_t{1} << dice.below(63);
  return dice.of({power, power - 1, -power, -power - 1, std::numeric_limits<int64_t>::min(),
                  std::numeric_limits<int64_t>::max(), int64_t{255}, int64_t{65536}});
}

double edgeReal(Dice &dice) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (dice.chance(0.5)) {
    return static_cast<double>(dice.between(-8, 8)) / dice.of({1.0, 4.0, 10.0});
  }
  return dice.of({0.0, -0.0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(), 1e308, -1e308, 5e-324,
                  1e-310, 1e-38, 3e38, 1e16, 1.0 + 0x1p-52, 9007199254740993.0, -1.0});
}

namespace {
template <class T>
void put(void *memory, T value) {
  std::memcpy(memory, &value, sizeof value);
}
} // namespace

void mutateNumber(void *memory, size_t width, Dice &dice) {
  auto *bytes = static_cast<uint8_t *>(memory);
  switch (dice.below(4)) {
  case 0: bytes[dice.below(width)] ^= static_cast<uint8_t>(1u << dice.below(8)); return;
  case 1: { // a step up or down, in little-endian order
    const bool isUp = dice.chance(0.5);
    for (size_t at = 0; at < width; ++at) {
      bytes[at] = static_cast<uint8_t>(bytes[at] + (isUp ? 1 : 255));
      if (bytes[at] != (isUp ? 0 : 255)) {
        return;
      }
    }
    return;
  }
  case 2: {
    const int64_t value = edgeInteger(dice);
    std::memcpy(memory, &value, std::min(width, sizeof value));
    return;
  }
  default:
    if (width == sizeof(double)) {
      put(memory, edgeReal(dice));
    } else if (width == sizeof(float)) {
      put(memory, static_cast<float>(edgeReal(dice)));
    } else {
      bytes[dice.below(width)] = static_cast<uint8_t>(dice.word());
    }
  }
}

} // namespace sojourn::fuzz
