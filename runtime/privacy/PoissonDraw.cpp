// SPDX-License-Identifier: Apache-2.0
// Draws of rows, and why a sum over a draw, with noise, is a sampled Gaussian whatever it does with slots.
//
// The ideal draw. Every row tosses a coin of probability q; where more than `capacity` come up, uniformly chosen
// ones are dropped. A uniform injection then gives each row that is left a slot of its own.
//
// How it is drawn. Given their count, the rows chosen by coins are a uniform subset of that size, and dropping
// uniformly keeps that: so the count is drawn apart. N = max(rows, capacity) numbers are shuffled into the slots;
// those below `rows` name a row. Every slot that got one keeps it with probability rowsLeft / placesLeft, of the
// rows still to be placed and the slots with a row still to come: a uniform subset of these slots, of the size of
// the count (selection sampling: Knuth, volume 2, 3.4.2, algorithm S). Sequence and subset are uniform whatever
// permutation is applied to slots or rows, and such permutations turn every placement of so many rows into every
// other one: all are as likely. Nothing is moved, so no address and no branch depends on the count.
//
// A draw differs from the ideal one by less than 2^-109 in total variation:
//
// 1. Count (CountTable.cpp). With mean m <= 2^26, i steps from the mode a neighbour's ratio is at most about
//    1 - i/(m + i), so a side of the window ends after d < 2^17 steps, below 2^-131 of the mode. Ratios fall
//    outwards (a binomial is log-concave), so what follows is at most 2^-131 / (1 - 2^(-131/d)), that is 2^-131 (2 +
//    d/65): both sides below 2^-118. Every step of a weight rounds down one unit of 2^-256 where the mode has 2^-28:
//    2^18 * 2^17 * 2^-228 = 2^-193 in all. A bound of the table is within 1 + 2^-60 units of 2^-128: with fewer than
//    2^18 counts less than 2^-109.9.
// 2. Slots. One slot takes 192 uniform bits r: the number is at h = floor(r m / 2^192) of the m = N - slot that are
//    left, and is kept if the low part l = r m mod 2^192 has floor(l placesLeft / 2^192) < rowsLeft, which says
//    l < T for the real T = 2^192 rowsLeft / placesLeft. What led up to the slot decides m and T; neither depends on
//    h. The r with (h, kept) are the integers of an interval of length T / m, those with (h, not kept) of one of
//    length (2^192 - T) / m. Half-open intervals have less than 1 integer more or less than their length, so each of
//    the 2 m pairs is off by less than 2^-192, and both decisions together by less than m 2^-192 <= 2^-152 from
//    independent exact ones. For all slots, one after the other: 2^26 * 2^-152 = 2^-126.
//
// In all 2^-118 + 2^-193 + 2^-109.9 + 2^-126 < 2^-109.
//
// Privacy of the ideal draw. Two tables differ in one row, which is the null row in the second. A step releases
// g(draw) and Gaussian noise, where g is a sum over slots of terms that depend on the slot and its row. It asks of g
// (dialect/rows proves it) that the null row adds what an empty slot adds, that the row's term moves the sum by
// f_j(row) in slot j, of norm at most the influence, and that the terms of the others do not depend on it.
//
// Let A be the other rows that come up, b the row's coin, independent of A. A draw fails if |A| + b > capacity,
// which is charged apart as overflowMass(): it is as likely on both tables, so the rest may be compared given that
// it does not happen; where |A| < capacity, b is still a coin of rate q. Let a be the slots of A. A uniform
// injection of A and the row, less the row, is a uniform injection of A: given A, the law of a is the same for b = 0
// and for b = 1, and on both tables. (The layout "drawn rows first" has no such law: there the row pushes another
// one out of the first slots, and a sum over these tells more than is charged.) Given A, a and b = 1, the row's slot
// is uniform among the capacity - |A| slots that are free.
//
// Given (A, a), let Q be the release where the row is not drawn: Gaussian noise around the sum of the others. On the
// second table the release is Q for either coin. On the first it is, where |A| < capacity,
//
//     (1 - q) Q + q mean_j P_j = mean_j ((1 - q) Q + q P_j),    P_j = Q shifted by f_j(row), j a free slot,
//
// and Q where |A| = capacity, as b = 1 has failed. Each (1 - q) Q + q P_j against Q is a sampled Gaussian of rate q
// and a shift of at most the influence; a smaller shift costs no more, being made of a larger one by scaling and
// noise. The divergences that are charged, Renyi's as exp((order - 1) D) and any hockey stick, are jointly convex,
// in either direction: the mean over j, and then the mean over (A, a), which has one law on both tables, cost at
// most the sampled Gaussian of the whole influence. Several releases of one draw share A, a, b and j: given these
// they compose as Gaussians do, so the same holds with their summed rho. Where a row may become any other one, P_j
// meets the P_j of the other row, in the same slot: the same argument, with what owner/worker/Prove.cpp charges for
// it.
#include "runtime/privacy/PoissonDraw.h"

#include "runtime/privacy/CountTable.h"
#include "runtime/privacy/Misuse.h"

#include <algorithm>
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
  VirtualRows(const VirtualRows &) = delete;
  VirtualRows &operator=(const VirtualRows &) = delete;
  ~VirtualRows() {
    sodium_memzero(dense.data(), dense.size() * sizeof(int64_t));
    sodium_memzero(changed.data(), changed.size() * sizeof(Entry));
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

/// floor(r m / 2^192) for the words of r, least first, which become r m mod 2^192: as good as fresh coins.
static int64_t takeBelow(uint64_t *r, int64_t m) {
  Uint128 carry = 0;
  for (size_t k = 0; k < kSlotWords; ++k) {
    carry += Uint128{r[k]} * static_cast<uint64_t>(m);
    r[k] = static_cast<uint64_t>(carry);
    carry >>= 64;
  }
  return static_cast<int64_t>(carry);
}

/// -1 where a < b, else 0, without a branch. Both are in [0, 2^62].
static int64_t maskBelow(int64_t a, int64_t b) { return (a - b) >> 63; }

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
  const int64_t numbers = std::max(rowCount, slotCount);
  VirtualRows shuffled(numbers, slotCount, words[2]);
  // Fisher and Yates' shuffle as far as there are slots; the slots that stay empty are drawn all the same.
  int64_t rowsLeft = count, placesLeft = std::min(rowCount, slotCount);
  for (int64_t slot = 0; slot < slotCount; ++slot) {
    const size_t place = static_cast<size_t>(slot) % kSlotsPerRefill;
    if (place == 0) {
      const size_t ahead = std::min(kSlotsPerRefill, static_cast<size_t>(slotCount - slot));
      refill(1 + static_cast<uint64_t>(slot) / kSlotsPerRefill * kBlocksPerRefill, ahead * kSlotWords * sizeof *words);
    }
    uint64_t *coin = words + place * kSlotWords;
    const int64_t number = shuffled.replace(slot + takeBelow(coin, numbers - slot), slot);
    const int64_t isRow = maskBelow(number, rowCount);
    const int64_t isDrawn = isRow & maskBelow(takeBelow(coin, placesLeft), rowsLeft);
    slots[static_cast<size_t>(slot)] = number | ~isDrawn;
    placesLeft += isRow;
    rowsLeft += isDrawn;
  }
  sodium_memzero(words, sizeof words);
}

} // namespace sojourn::privacy
