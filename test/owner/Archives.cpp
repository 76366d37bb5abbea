// SPDX-License-Identifier: Apache-2.0
// Archives, byte by byte (see Archives.h).
#include "test/owner/Archives.h"

#include <cstdint>
#include <zlib.h>

namespace sojourn::owner::test {

template <class T>
static void put(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

std::string npy(const std::string &descr, const std::string &shape, const std::string &data, bool fortran) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }";
  header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  put(out, static_cast<uint16_t>(header.size()));
  return out + header + data;
}

std::string deflated(const std::string &data) {
  std::string out(compressBound(data.size()), '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef *>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zip(const std::vector<std::pair<std::string, std::string>> &members, bool pack) {
  std::string out, directory;
  for (const auto &[name, data] : members) {
    std::string stored = pack ? deflated(data) : data;
    auto method = static_cast<uint16_t>(pack ? 8 : 0);
    auto offset = static_cast<uint32_t>(out.size());
    auto sizes = [&](std::string &to) {
      put(to, method);
      to.append(8, '\0'); // time, date, checksum
      put(to, static_cast<uint32_t>(stored.size()));
      put(to, static_cast<uint32_t>(data.size()));
      put(to, static_cast<uint16_t>(name.size()));
    };
    out += std::string("PK\x03\x04\x14\0\0\0", 8);
    sizes(out);
    put(out, uint16_t(0));
    out += name + stored;
    directory += std::string("PK\x01\x02\x14\0\x14\0\0\0", 10);
    sizes(directory);
    directory.append(12, '\0');
    put(directory, offset);
    directory += name;
  }
  auto at = static_cast<uint32_t>(out.size()), size = static_cast<uint32_t>(directory.size());
  auto count = static_cast<uint16_t>(members.size());
  out += directory + std::string("PK\x05\x06\0\0\0\0", 8);
  put(out, count);
  put(out, count);
  put(out, size);
  put(out, at);
  put(out, uint16_t(0));
  return out;
}

} // namespace sojourn::owner::test
