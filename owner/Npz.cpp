// SPDX-License-Identifier: Apache-2.0
// Zip members (stored or deflated, zip64 sizes) and the .npy array inside each.
#include "owner/Npz.h"

#include "owner/Error.h"
#include "owner/SourceFile.h"
#include "owner/Text.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Endian.h"

#include <cstring>
#include <limits>
#include <optional>
#include <zlib.h>

namespace sojourn::owner {

using llvm::StringRef;
using llvm::support::endian::read16le;
using llvm::support::endian::read32le;
using llvm::support::endian::read64le;
using runtime::Element;

namespace {

struct Member {
  std::string name;
  uint16_t method = 0;
  uint64_t packedBytes = 0, bytes = 0, offset = 0;
};

llvm::Error damaged(const std::string &path, const llvm::Twine &what) {
  return failure("'" + path + "' is not a readable .npz archive: " + what);
}

/// The central directory: the only place of a zip file that always states the sizes.
llvm::Expected<std::vector<Member>> readDirectory(const std::string &path, StringRef file) {
  size_t end = file.rfind(StringRef("PK\x05\x06", 4));
  if (end == StringRef::npos || file.size() - end < 22) {
    return damaged(path, "no zip directory found");
  }
  uint64_t count = read16le(file.data() + end + 10), at = read32le(file.data() + end + 16);
  if ((count == 0xffff || at == 0xffffffffu) && end >= 20 && file.substr(end - 20, 4) == StringRef("PK\x06\x07", 4)) {
    uint64_t end64 = read64le(file.data() + end - 12);
    if (end64 > file.size() || file.size() - end64 < 56) {
      return damaged(path, "its zip64 directory lies outside the file");
    }
    count = read64le(file.data() + end64 + 32);
    at = read64le(file.data() + end64 + 48);
  }
  std::vector<Member> members;
  for (uint64_t index = 0; index < count; ++index) {
    if (at > file.size() || file.size() - at < 46 || file.substr(at, 4) != StringRef("PK\x01\x02", 4)) {
      return damaged(path, "directory entry " + llvm::Twine(index) + " is damaged");
    }
    const char *entry = file.data() + at;
    uint64_t name = read16le(entry + 28), extra = read16le(entry + 30), comment = read16le(entry + 32);
    if (file.size() - at < 46 + name + extra + comment) {
      return damaged(path, "directory entry " + llvm::Twine(index) + " is truncated");
    }
    Member member{file.substr(at + 46, name).str(), read16le(entry + 10), read32le(entry + 20), read32le(entry + 24),
                  read32le(entry + 42)};
    StringRef fields = file.substr(at + 46 + name, extra);
    while (fields.size() >= 4) {
      size_t size = read16le(fields.data() + 2);
      if (size > fields.size() - 4) {
        break;
      }
      StringRef payload = fields.substr(4, size);
      if (read16le(fields.data()) == 1) { // zip64: the fields that read all ones, in this order
        for (uint64_t *field : {&member.bytes, &member.packedBytes, &member.offset}) {
          if (*field == 0xffffffffu && payload.size() >= 8) {
            *field = read64le(payload.data());
            payload = payload.drop_front(8);
          }
        }
      }
      fields = fields.drop_front(4 + size);
    }
    members.push_back(std::move(member));
    at += 46 + name + extra + comment;
  }
  return members;
}

/// The bytes of one member, unpacked into memory aligned for any element.
llvm::Expected<std::vector<uint64_t>> unpack(const std::string &path, StringRef file, const Member &member) {
  auto wrong = [&](const llvm::Twine &what) {
    return damaged(path, "member '" + printableName(member.name) + "' " + what);
  };
  if (member.offset > file.size() || file.size() - member.offset < 30) {
    return wrong("lies outside the file");
  }
  const char *header = file.data() + member.offset;
  uint64_t begin = member.offset + 30 + read16le(header + 26) + read16le(header + 28);
  if (begin > file.size() || file.size() - begin < member.packedBytes) {
    return wrong("is truncated");
  }
  // Deflate packs at most 1032 to 1: a larger claim is no reason to allocate.
  if (member.bytes > 1032 * member.packedBytes + 64) {
    return wrong("has an invalid size");
  }
  std::vector<uint64_t> memory((member.bytes + 7) / 8);
  auto *out = reinterpret_cast<unsigned char *>(memory.data());
  const char *packed = file.data() + begin;
  if (member.method == 0) {
    if (member.bytes != member.packedBytes) {
      return wrong("has two different sizes");
    }
    std::copy_n(packed, member.bytes, reinterpret_cast<char *>(memory.data())); // of none, too
    return memory;
  }
  if (member.method != 8) {
    return wrong("uses zip method " + llvm::Twine(member.method) +
                 ", expected stored or deflate (numpy.savez, numpy.savez_compressed)");
  }
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    return wrong("could not be unpacked: zlib did not start");
  }
  uint64_t consumed = 0, produced = 0;
  int state = Z_OK;
  while (state == Z_OK) { // zlib counts in 32 bits: feed and drain in pieces
    constexpr uint64_t kPiece = 1u << 30;
    auto in = static_cast<uInt>(std::min(kPiece, member.packedBytes - consumed));
    auto room = static_cast<uInt>(std::min(kPiece, member.bytes - produced));
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(packed + consumed));
    stream.avail_in = in;
    stream.next_out = out + produced;
    stream.avail_out = room;
    state = inflate(&stream, Z_NO_FLUSH);
    consumed += in - stream.avail_in;
    produced += room - stream.avail_out;
    if (in == stream.avail_in && room == stream.avail_out) {
      break;
    }
  }
  inflateEnd(&stream);
  if (state != Z_STREAM_END || produced != member.bytes) {
    return wrong("could not be unpacked");
  }
  return memory;
}

/// The members take their bytes from different parts of the file: else a small file unpacks to any size.
llvm::Error checkMembers(const std::string &path, StringRef file, const std::vector<Member> &members,
                         ImportMemory &memory) {
  uint64_t packed = 0, bytes = 0;
  for (const Member &member : members) {
    if (__builtin_add_overflow(packed, member.packedBytes, &packed) ||
        __builtin_add_overflow(bytes, member.bytes, &bytes) || packed > file.size()) {
      return damaged(path, "its members have more bytes than the file");
    }
  }
  return memory.take(static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX)), "'" + path + "' unpacks to");
}

/// The text after `'key':` in the header's dict literal.
StringRef headerField(StringRef header, StringRef key) {
  size_t at = header.find(("'" + key + "'").str());
  return at == StringRef::npos ? StringRef() : header.substr(at + key.size() + 2).ltrim(" :");
}

template <class Narrow, class Wide>
std::vector<uint64_t> widen(const void *data, uint64_t count) {
  std::vector<uint64_t> memory((count * sizeof(Wide) + 7) / 8);
  auto *source = static_cast<const Narrow *>(data);
  auto *target = reinterpret_cast<Wide *>(memory.data());
  for (uint64_t index = 0; index < count; ++index) {
    target[index] = source[index];
  }
  return memory;
}

/// The sizes in `(569, 28, 28`; nothing if it is not such a list.
std::optional<std::vector<uint64_t>> readShape(StringRef text) {
  std::vector<uint64_t> sizes;
  if (!text.consume_front("(")) {
    return std::nullopt;
  }
  for (text = text.trim(); !text.empty(); text = text.ltrim()) {
    uint64_t size = 0;
    if (text.consumeInteger(10, size) || size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return std::nullopt;
    }
    sizes.push_back(size);
    text = text.ltrim();
    if (!text.empty() && !text.consume_front(",")) {
      return std::nullopt;
    }
  }
  return sizes;
}

/// An array that lies with its first index fastest (Fortran order), with its last one fastest.
std::vector<uint64_t> rowMajor(const void *data, llvm::ArrayRef<uint64_t> sizes, uint64_t count, size_t width) {
  std::vector<uint64_t> memory((count * width + 7) / 8), strides(sizes.size(), 1), index(sizes.size(), 0);
  for (size_t dim = 1; dim < sizes.size(); ++dim) {
    strides[dim] = strides[dim - 1] * sizes[dim - 1];
  }
  auto *source = static_cast<const char *>(data);
  auto *target = reinterpret_cast<char *>(memory.data());
  uint64_t at = 0; // of the element under `index`, in the source
  for (uint64_t element = 0; element < count; ++element) {
    std::memcpy(target + element * width, source + at * width, width);
    for (size_t dim = sizes.size(); dim-- > 0;) {
      at += strides[dim];
      if (++index[dim] < sizes[dim]) {
        break;
      }
      at -= strides[dim] * sizes[dim];
      index[dim] = 0;
    }
  }
  return memory;
}

/// Characters of a header in an error.
constexpr size_t kShown = 64;

struct Format {
  const char *text;
  Element element;
  uint64_t width;
};
constexpr Format kFormats[] = {{"b1", Element::i1, 1},  {"u1", Element::u8, 1},  {"i1", Element::i8, 1},
                               {"i2", Element::i16, 2}, {"i4", Element::i32, 4}, {"i8", Element::i64, 8},
                               {"f2", Element::f16, 2}, {"f4", Element::f32, 4}, {"f8", Element::f64, 8},
                               {"u2", Element::i32, 2}, {"u4", Element::i64, 4}};

llvm::Error readArray(const std::string &path, const Member &member, std::vector<uint64_t> memory, ImportMemory &room,
                      NpzArrays &result) {
  std::string name =
      StringRef(member.name).ends_with(".npy") ? member.name.substr(0, member.name.size() - 4) : member.name;
  auto wrong = [&](const llvm::Twine &what) {
    return failure("'" + path + "', array '" + printableName(name) + "': " + what);
  };
  StringRef bytes(reinterpret_cast<const char *>(memory.data()), member.bytes);
  if (bytes.size() < 12 || !bytes.starts_with(StringRef("\x93NUMPY", 6))) {
    return wrong("not an array of numpy.savez");
  }
  bool longHeader = bytes[6] != 1;
  uint64_t begin = longHeader ? 12 : 10;
  uint64_t length = longHeader ? read32le(bytes.data() + 8) : read16le(bytes.data() + 8);
  if (bytes.size() - begin < length) {
    return wrong("its header is truncated");
  }
  StringRef header = bytes.substr(begin, length);
  StringRef descr = headerField(header, "descr");
  descr = descr.starts_with("'") ? descr.drop_front().take_until([](char c) { return c == '\''; })
                                 : StringRef("structured");
  const Format *format = nullptr;
  for (const Format &candidate : kFormats) {
    if (descr.size() == 3 && descr[0] != '>' && descr.drop_front() == candidate.text) {
      format = &candidate;
    }
  }
  if (!format) {
    return wrong("unsupported dtype '" + printable(descr, kShown) +
                 "', expected bool, int8 to int64, uint8 to uint32 or float16 to float64 in "
                 "little-endian order; encode texts and dates as numbers first");
  }
  StringRef shape = headerField(header, "shape").take_until([](char c) { return c == ')'; });
  auto sizes = readShape(shape);
  if (!sizes || sizes->empty()) {
    return wrong("shape " + printable(shape, kShown) +
                 "), expected rows first and then the sizes of an entry, such as (569,) or (569, 28, 28)");
  }
  StringRef payload = bytes.substr(begin + length);
  uint64_t count = 1;
  for (uint64_t size : *sizes) {
    if (__builtin_mul_overflow(count, size, &count)) {
      return wrong("shape " + printable(shape, kShown) + ") overflows 64 bits");
    }
  }
  if (payload.size() / format->width < count) {
    return wrong("has fewer values than its shape says");
  }
  // The payload starts at a multiple of 16 in files NumPy wrote; copy if it does not. The header goes with the bytes
  // that it was read from.
  const void *data = payload.data();
  const bool isColumnMajor = headerField(header, "fortran_order").starts_with("True");
  const bool isWidened = descr.drop_front() == "u2" || descr.drop_front() == "u4";
  // A copy, one of twice the size, and one in another order.
  const auto bytesOf = static_cast<int64_t>(count * runtime::byteWidth(format->element));
  if (llvm::Error error = room.take(isWidened || isColumnMajor ? bytesOf : 0, "'" + path + "' unpacks to")) {
    return error;
  }
  if (isWidened || reinterpret_cast<uintptr_t>(data) % format->width != 0) {
    std::vector<uint64_t> aligned((count * format->width + 7) / 8);
    if (count > 0) { // else neither has an address
      std::memcpy(aligned.data(), data, count * format->width);
    }
    if (descr.drop_front() == "u2") {
      aligned = widen<uint16_t, int32_t>(aligned.data(), count);
    } else if (descr.drop_front() == "u4") {
      aligned = widen<uint32_t, int64_t>(aligned.data(), count);
    }
    memory = std::move(aligned);
    data = memory.data();
  }
  if (count > 0 && sizes->size() > 1 && isColumnMajor) {
    memory = rowMajor(data, *sizes, count, runtime::byteWidth(format->element));
    data = memory.data();
  }
  std::vector<int64_t> entry(sizes->begin() + 1, sizes->end());
  result.arrays.push_back({name, format->element, static_cast<int64_t>(sizes->front()), data, std::move(entry)});
  result.memory.push_back(std::move(memory));
  return llvm::Error::success();
}

} // namespace

llvm::Expected<NpzArrays> readNpz(const std::string &path, ImportMemory &memory) {
  auto source = SourceFile::open(path);
  if (!source) {
    return source.takeError();
  }
  if (llvm::Error error = memory.take(source->size(), "'" + path + "' takes")) {
    return error;
  }
  std::vector<char> bytes(static_cast<size_t>(source->size()));
  if (llvm::Error error = source->readInto(bytes.data(), 0, source->size())) {
    return error;
  }
  StringRef file(bytes.data(), bytes.size());
  auto members = readDirectory(path, file);
  if (!members) {
    return members.takeError();
  }
  if (llvm::Error error = checkMembers(path, file, *members, memory)) {
    return error;
  }
  NpzArrays result;
  for (const Member &member : *members) {
    auto unpacked = unpack(path, file, member);
    if (!unpacked) {
      return unpacked.takeError();
    }
    if (llvm::Error error = readArray(path, member, std::move(*unpacked), memory, result)) {
      return error;
    }
  }
  return result;
}

} // namespace sojourn::owner
