// SPDX-License-Identifier: Apache-2.0
// A digest of the results of a joint step that all members have, by which they notice that their bits differ.
#ifndef SOJOURN_RUNTIME_COPIESDIGEST_H
#define SOJOURN_RUNTIME_COPIESDIGEST_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sojourn::runtime {

using CopiesDigest = std::array<uint64_t, 2>;

/// Of bytes in pieces of any size. Fast, and no protection from members that look for collisions: these would harm
/// values that they may choose in any case.
class CopiesHash {
public:
  void add(const void *bytes, size_t size);
  CopiesDigest get() const;

private:
  static constexpr size_t kBlock = size_t{64} << 10;
  std::vector<uint8_t> rest;         ///< since the last whole block
  std::vector<CopiesDigest> digests; ///< of whole blocks
};

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_COPIESDIGEST_H
