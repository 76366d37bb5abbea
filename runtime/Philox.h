// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 and the documented order of a table's rows: the executor draws with them, and so
// does a table in the client's own memory. Header only; knows neither torch nor MLIR.
#ifndef SOJOURN_RUNTIME_PHILOX_H
#define SOJOURN_RUNTIME_PHILOX_H

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sojourn::runtime {

struct Words {
  uint32_t word[4];
};

/// Philox4x32 with 10 rounds (Salmon et al., 2011).
inline Words philox(Words counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53u} * counter.word[0], p1 = uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<uint32_t>(p1 >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(p1),
                static_cast<uint32_t>(p0 >> 32) ^ counter.word[3] ^ key1, static_cast<uint32_t>(p0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

struct RowEntry {
  uint64_t key;
  uint64_t row;
};

/// Fills `entries` with all rows in the order of an epoch: sorted by the 64 bits that Philox draws
/// for the row under key `seed`, equal ones by number. The fourth counter word holds "SJRO", so
/// that no other stream shares its counters.
inline void orderRows(RowEntry *entries, size_t rows, uint64_t seed, uint64_t epoch) {
  for (uint64_t row = 0; row < rows; ++row) {
    Words words = philox({{static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32), static_cast<uint32_t>(epoch),
                           static_cast<uint32_t>(epoch >> 32) ^ 0x534A524Fu}},
                         static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
    entries[row] = {words.word[0] | uint64_t{words.word[1]} << 32, row};
  }
  std::sort(entries, entries + rows,
            [](const RowEntry &a, const RowEntry &b) { return a.key != b.key ? a.key < b.key : a.row < b.row; });
}

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_PHILOX_H
