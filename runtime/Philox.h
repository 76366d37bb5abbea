// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 and the documented order of a table's rows: the executor draws with them, and so
// does a table in the client's own memory. Header only; knows neither torch nor MLIR.
#ifndef SOJOURN_RUNTIME_PHILOX_H
#define SOJOURN_RUNTIME_PHILOX_H

#include "dialect/Part.h"

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

/// Number of rows up to which `rowAt` is defined: the counters' fields then do not overlap.
inline constexpr int64_t kOrderedRows = int64_t{1} << 40;

/// The row at a position of an epoch's order, or -1 for a position outside [0, rows): a keyed
/// bijection of [0, rows), so that the rows of an epoch are distinct. A Feistel network over Philox
/// (Luby and Rackoff, 1988) walks cycles until it is back inside (Black and Rogaway, 2002). The
/// fourth counter word holds "SJRO", so that no other stream shares its counters. Any seed and
/// epoch; rows in [0, 2^40].
inline int64_t rowAt(int64_t position, int64_t rows, uint64_t seed, uint64_t epoch) {
  if (position < 0 || position >= rows) {
    return -1;
  }
  uint64_t count = static_cast<uint64_t>(rows);
  unsigned bits = 8;
  while (bits < 40 && (count - 1) >> bits != 0) {
    ++bits;
  }
  unsigned left = bits / 2, right = bits - left;
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  uint32_t high = static_cast<uint32_t>(count >> 32) << 23;
  Words counter{{0, static_cast<uint32_t>(count), static_cast<uint32_t>(epoch),
                 static_cast<uint32_t>(epoch >> 32) ^ 0x534A524Fu}};
  uint64_t x = static_cast<uint64_t>(position);
  do {
    uint32_t l = static_cast<uint32_t>(x >> right), r = static_cast<uint32_t>(x & ((uint64_t{1} << right) - 1));
    for (uint32_t round = 0; round < 6; ++round) {
      counter.word[0] = r + (round << 20) + high;
      uint32_t mask = (uint32_t{1} << (round % 2 == 0 ? left : right)) - 1;
      uint32_t mixed = l ^ (philox(counter, key0, key1).word[0] & mask);
      l = r;
      r = mixed;
    }
    x = static_cast<uint64_t>(l) << right | r;
  } while (x >= count);
  return static_cast<int64_t>(x);
}

/// The row of what was split at a position within one side of the split, or -1 for a position outside of the side.
inline int64_t rowOfSplit(int64_t position, const PartRows &side, uint64_t seed, uint64_t epoch) {
  bool isInside = position >= 0 && position < side.rows;
  return isInside ? rowAt(side.start + position, side.parent, seed, epoch) : -1;
}

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_PHILOX_H
