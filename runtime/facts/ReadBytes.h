// SPDX-License-Identifier: Apache-2.0
// Vectors and strings of flatbuffers that may be absent. Internal to runtime/facts.
#ifndef SOJOURN_RUNTIME_FACTS_READBYTES_H
#define SOJOURN_RUNTIME_FACTS_READBYTES_H
#include "runtime/Limits.h"
#include "llvm/ADT/StringRef.h"
#include <cstring>
#include <flatbuffers/flatbuffers.h>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::runtime {

/// At most so many bytes, and so many tables of flatbuffers, of facts or a verdict.
inline constexpr size_t kBytesMost = size_t{256} << 20;
inline constexpr flatbuffers::uoffset_t kTablesMost = 1 << 20;

template <class T>
size_t sizeOf(const flatbuffers::Vector<T> *vector) {
  return vector ? vector->size() : 0;
}

template <class T>
std::vector<T> listOf(const flatbuffers::Vector<T> *vector) {
  return vector ? std::vector<T>(vector->begin(), vector->end()) : std::vector<T>();
}

/// Texts of one message. They may share their bytes, so each use counts.
class Texts {
public:
  /// False where the text is longer than `most` bytes, or all are longer than the texts of a program.
  bool take(const flatbuffers::String *text, size_t most, std::string &into) {
    const size_t size = text ? text->size() : 0;
    if (size > most || size > left) {
      return false;
    }
    left -= size;
    into = text ? text->str() : "";
    return true;
  }

private:
  size_t left = limits::kTextBytes;
};

/// The bytes at an address that flatbuffers reads from; nothing where they are too few or too many for a message.
inline std::optional<std::vector<uint64_t>> wordsOf(llvm::StringRef bytes) {
  if (bytes.size() < 8 || bytes.size() > kBytesMost) {
    return std::nullopt;
  }
  std::vector<uint64_t> words((bytes.size() + 7) / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_FACTS_READBYTES_H
