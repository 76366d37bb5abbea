// SPDX-License-Identifier: Apache-2.0
// Draws of rows. A draw differs from independent coins, cut at capacity, by less than 2^-109:
//
// 1. Given their count, the rows chosen by independent coins of one probability are a uniform subset of
//    that size, and dropping to capacity uniformly keeps that. A prefix of a uniform sequence of distinct
//    rows is a uniform subset. So the count and the sequence are drawn apart.
// 2. Count (CountTable.cpp). With mean m <= 2^26, i steps from the mode a neighbour's ratio is at most about
//    1 - i/(m + i), so a side of the window ends after d < 2^17 steps, below 2^-131 of the mode. Ratios fall
//    outwards (a binomial is log-concave), so what follows is at most 2^-131 / (1 - 2^(-131/d)), that is
//    2^-131 (2 + d/65): both sides below 2^-118. Every step of a weight rounds down one unit of 2^-256
//    where the mode has 2^-28: 2^18 * 2^17 * 2^-228 = 2^-193 in all. A bound of the table is within
//    1 + 2^-60 units of 2^-128: with fewer than 2^18 counts less than 2^-109.9.
// 3. Rows. floor(r m / 2^192) of 192 uniform bits r is within m 2^-192 of uniform on [0, m): for all slots
//    2^26 * 2^40 * 2^-192 = 2^-126.
#include "runtime/privacy/PoissonDraw.h"

#include "runtime/privacy/CountTable.h"
#include "runtime/privacy/Misuse.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <sodium.h>
#include <utility>
#include <vector>

namespace sojourn::privacy {

static_assert(std::endian::native == std::endian::little, "words of coins are read in place");

/// Coins per slot, in words: 8 slots take 3 blocks. Slots begin at block 1.
static constexpr size_t kSlotWords = 3;
static constexpr size_t kSlotsPerRefill = 256;
static constexpr uint64_t kBlocksPerRefill = kSlotsPerRefill * kSlotWords * sizeof(uint64_t) / kCoinBlock;

namespace {

/// The numbers 0, 1, ... as an array of which only `writes` entries are ever changed.
class VirtualRows {
public:
  VirtualRows(int64_t rows, int64_t writes, uint64_t secret) : secret(secret | 1) {
    if (rows <= 8 * writes) {
      dense.resize(static_cast<size_t>(rows));
      std::iota(dense.begin(), dense.end(), 0);
      return;
    }
    const auto bits = static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(2 * writes - 1)));
    shift = 64 - bits;
    mask = (size_t{1} << bits) - 1;
    changed.assign(mask + 1, {-1, 0});
  }

  /// The entry at `position`; the one at `from` takes its place.
  int64_t replace(int64_t position, int64_t from) {
    if (!dense.empty()) {
      return std::exchange(dense[static_cast<size_t>(position)], dense[static_cast<size_t>(from)]);
    }
    const Entry &source = at(from);
    const int64_t moved = source.position < 0 ? from : source.value;
    Entry &target = at(position);
    const int64_t old = target.position < 0 ? position : target.value;
    target = {position, moved};
    return old;
  }

private:
  struct Entry {
    int64_t position;
    int64_t value;
  };

  /// The entry of a position, or the free one where it belongs. Half of the entries stay free.
  Entry &at(int64_t position) {
    size_t slot = static_cast<uint64_t>(position) * secret >> shift;
    while (changed[slot].position >= 0 && changed[slot].position != position) {
      slot = (slot + 1) & mask;
    }
    return changed[slot];
  }

  const uint64_t secret;
  unsigned shift = 0;
  size_t mask = 0;
  std::vector<int64_t> dense;
  std::vector<Entry> changed;
};

} // namespace

/// floor(r m / 2^192) for the words of r, least first.
static uint64_t scaledDown(const uint64_t *r, uint64_t m) {
  Uint128 carry = 0;
  for (size_t k = 0; k < kSlotWords; ++k) {
    carry = (Uint128{r[k]} * m + carry) >> 64;
  }
  return static_cast<uint64_t>(carry);
}

std::variant<PoissonDraw, std::string> PoissonDraw::plan(int64_t rows, int64_t expected, int64_t capacity) {
  auto outside = [](const char *what, int64_t found, const std::string &range) {
    return std::string(what) + " of a draw is " + std::to_string(found) + ", expected " + range;
  };
  if (rows < 1 || rows > kDrawRowsMax) {
    return outside("the number of rows", rows, "a number in [1, 2^40]");
  }
  if (capacity < 1 || capacity > kDrawCapacityMax) {
    return outside("the capacity", capacity, "a number in [1, 2^26]");
  }
  if (expected < 1 || expected > capacity) {
    return outside("the expected size", expected, "a number in [1, " + std::to_string(capacity) + "], the capacity");
  }
  if (expected >= rows) { // and so is the capacity
    return PoissonDraw(rows, capacity, nullptr);
  }
  const Uint128 q = (Uint128(expected) << 64) / Uint128(rows);
  return PoissonDraw(rows, capacity, countTable(rows, static_cast<uint64_t>(q), capacity));
}

double PoissonDraw::probability() const {
  if (!counts) {
    return 1;
  }
  // The conversion rounds to nearest; compare in integers whether it rounded down.
  double value = static_cast<double>(counts->sixtyFourths);
  if (static_cast<Uint128>(value) < counts->sixtyFourths) {
    value = std::nextafter(value, std::numeric_limits<double>::infinity());
  }
  return std::ldexp(value, -64);
}

double PoissonDraw::overflowMass() const { return counts ? counts->overflow : 0; }
double PoissonDraw::errorMass() const { return counts ? 0x1p-109 : 0; }

void PoissonDraw::draw(const Coins &coins, uint32_t index, std::span<int64_t> slots) const {
  if (slots.size() != static_cast<size_t>(slotCount)) {
    misuse("a draw of rows into a buffer of another capacity");
  }
  if (!counts) {
    std::iota(slots.begin(), slots.begin() + rowCount, 0);
    std::fill(slots.begin() + rowCount, slots.end(), -1);
    return;
  }
  const CoinStream stream{CoinUse::sampling, index};
  uint64_t words[kSlotsPerRefill * kSlotWords];
  auto refill = [&](uint64_t block, size_t bytes) {
    coins.fill(stream, block, {reinterpret_cast<uint8_t *>(words), bytes});
  };
  refill(0, kCoinBlock);
  const int64_t count = counts->count(Uint128{words[1]} << 64 | words[0]);
  VirtualRows rows(rowCount, slotCount, words[2]);
  // Fisher and Yates' shuffle as far as there are slots; the slots past the count are drawn all the same.
  for (int64_t slot = 0; slot < slotCount; ++slot) {
    const size_t place = static_cast<size_t>(slot) % kSlotsPerRefill;
    if (place == 0) {
      refill(1 + static_cast<uint64_t>(slot) / kSlotsPerRefill * kBlocksPerRefill, sizeof words);
    }
    int64_t row = -1;
    if (slot < rowCount) {
      const auto left = static_cast<uint64_t>(rowCount - slot);
      row = rows.replace(slot + static_cast<int64_t>(scaledDown(words + place * kSlotWords, left)), slot);
    }
    slots[static_cast<size_t>(slot)] = row | -static_cast<int64_t>(slot >= count);
  }
  sodium_memzero(words, sizeof words);
}

} // namespace sojourn::privacy
