// SPDX-License-Identifier: Apache-2.0
// Several byte strings in one input; any bytes are such an input.
#ifndef SOJOURN_TEST_FUZZ_FRAME_H
#define SOJOURN_TEST_FUZZ_FRAME_H

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace sojourn::fuzz {

inline std::string lengthBytes(size_t size) {
  const auto length = static_cast<uint32_t>(size);
  return {reinterpret_cast<const char *>(&length), sizeof length};
}

/// Takes the next string off an input: its length (32 bits) stands before it; what is left where that is too long.
inline std::string_view takeFrame(std::string_view &input) {
  uint32_t length = 0;
  if (input.size() < sizeof length) {
    return std::exchange(input, {});
  }
  std::memcpy(&length, input.data(), sizeof length);
  input.remove_prefix(sizeof length);
  const std::string_view frame = input.substr(0, length);
  input.remove_prefix(frame.size());
  return frame;
}

inline std::pair<std::string_view, std::string_view> splitPair(std::string_view input) {
  const std::string_view first = takeFrame(input);
  return {first, input};
}

inline std::string joinPair(std::string_view first, std::string_view second) {
  return lengthBytes(first.size()).append(first).append(second);
}

} // namespace sojourn::fuzz

#endif // SOJOURN_TEST_FUZZ_FRAME_H
