// SPDX-License-Identifier: Apache-2.0
// Canonical bytes: one value has one encoding, so that it can be hashed and signed. A struct lists
// its members once, in a static `fields`, for writing and for reading.
#ifndef SOJOURN_RUNTIME_SIGNING_BYTES_H
#define SOJOURN_RUNTIME_SIGNING_BYTES_H

#include "runtime/privacy/Charge.h"

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace sojourn::signing {

/// BLAKE2b with 32 bytes of output (RFC 7693).
using Hash = std::array<uint8_t, 32>;
Hash hashOf(std::string_view bytes);
/// Lower-case hexadecimal digits.
std::string hex(std::string_view bytes);
inline std::string hex(const Hash &hash) {
  return hex(std::string_view(reinterpret_cast<const char *>(hash.data()), hash.size()));
}

/// Of the bytes of an entry: 1 had charges at kFirstOrders, 2 has them at privacy::kOrders, 3 says of each charge whose
/// table it is for.
inline constexpr uint8_t kEntryVersion = 3, kOrdersSince = 2, kOwnersSince = 3;

inline constexpr std::array<int, 13> kFirstOrders = {2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 1024};
using FirstCosts = std::array<uint64_t, kFirstOrders.size()>;
/// What a charge at the first orders costs at all of them. In between (a-1) R_a lies below its chord, as it is convex
/// in a (a logarithm of moments), and so do sums and what was added to such sums; rounded up.
privacy::Charge widened(const FirstCosts &first, uint64_t delta);
/// The other way, which loses nothing of what was widened: the first orders are among all.
FirstCosts narrowed(const privacy::Charge &charge);

/// Texts and lists that a reader accepts, in bytes and in elements.
inline constexpr size_t kTextBytesMost = 1 << 16, kListMost = 1 << 12;

/// Little-endian integers of fixed width, lengths of 32 bits before texts and lists, IEEE doubles.
class Writer {
public:
  explicit Writer(uint8_t version = kEntryVersion) : version(version) {}
  template <class... Values>
  void operator()(const Values &...values) {
    (write(values), ...);
  }
  std::string bytes;
  /// Of an entry; a struct leaves out what is newer.
  const uint8_t version;

private:
  template <class Value>
  void write(const Value &value) {
    if constexpr (std::is_enum_v<Value>) {
      write(static_cast<std::underlying_type_t<Value>>(value));
    } else if constexpr (std::same_as<Value, bool>) {
      write(static_cast<uint8_t>(value));
    } else if constexpr (std::integral<Value>) {
      auto word = static_cast<std::make_unsigned_t<Value>>(value);
      for (size_t byte = 0; byte < sizeof(word); ++byte) {
        bytes.push_back(static_cast<char>(static_cast<uint64_t>(word) >> (8 * byte)));
      }
    } else if constexpr (std::same_as<Value, double>) {
      write(std::bit_cast<uint64_t>(value));
    } else if constexpr (std::same_as<Value, std::string>) {
      write(static_cast<uint32_t>(value.size()));
      bytes += value;
    } else if constexpr (std::same_as<Value, privacy::Charge>) {
      if (version < kOrdersSince) {
        write(narrowed(value));
      } else {
        write(value.rdp);
      }
      write(value.delta);
    } else if constexpr (requires { Value::fields(*this, value); }) {
      Value::fields(*this, value);
    } else {
      if constexpr (requires(Value & list) { list.resize(size_t{}); }) {
        write(static_cast<uint32_t>(value.size()));
      }
      for (const auto &element : value) {
        write(element);
      }
    }
  }
};

/// Reads what Writer wrote. `good` turns false at the first byte that Writer cannot have written
/// there and stays so; values read after that are meaningless.
class Reader {
public:
  explicit Reader(std::string_view bytes, uint8_t version = kEntryVersion) : version(version), rest(bytes) {}
  template <class... Values>
  void operator()(Values &...values) {
    (read(values), ...);
  }
  /// Everything was read, and well.
  bool done() const { return good && rest.empty(); }
  bool good = true;
  const uint8_t version;

private:
  bool take(size_t count, std::string_view &taken) {
    good = good && rest.size() >= count;
    if (good) {
      taken = rest.substr(0, count);
      rest.remove_prefix(count);
    }
    return good;
  }
  template <class Value>
  void read(Value &value) {
    if constexpr (std::is_enum_v<Value>) {
      std::underlying_type_t<Value> number{};
      read(number);
      value = static_cast<Value>(number);
      good = good && isKnown(value);
    } else if constexpr (std::same_as<Value, bool>) {
      uint8_t number = 0;
      read(number);
      good = good && number <= 1;
      value = number == 1;
    } else if constexpr (std::integral<Value>) {
      std::string_view taken;
      uint64_t word = 0;
      if (take(sizeof(Value), taken)) {
        for (size_t byte = 0; byte < sizeof(Value); ++byte) {
          word |= uint64_t{static_cast<uint8_t>(taken[byte])} << (8 * byte);
        }
      }
      value = static_cast<Value>(word);
    } else if constexpr (std::same_as<Value, double>) {
      uint64_t word = 0;
      read(word);
      value = std::bit_cast<double>(word);
    } else if constexpr (std::same_as<Value, std::string>) {
      std::string_view taken;
      if (uint32_t size = count(kTextBytesMost); take(size, taken)) {
        value = taken;
      }
    } else if constexpr (std::same_as<Value, privacy::Charge>) {
      if (version < kOrdersSince) {
        FirstCosts first{};
        (*this)(first, value.delta);
        value = widened(first, value.delta);
      } else {
        (*this)(value.rdp, value.delta);
      }
    } else if constexpr (requires { Value::fields(*this, value); }) {
      Value::fields(*this, value);
    } else {
      if constexpr (requires(Value & list) { list.resize(size_t{}); }) {
        value.resize(count(kListMost));
      }
      for (auto &element : value) {
        read(element);
      }
    }
  }
  uint32_t count(size_t most) {
    uint32_t size = 0;
    read(size);
    good = good && size <= most;
    return good ? size : 0;
  }

  std::string_view rest;
};

} // namespace sojourn::signing

#endif // SOJOURN_RUNTIME_SIGNING_BYTES_H
