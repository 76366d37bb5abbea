// SPDX-License-Identifier: Apache-2.0
// Where drawn rows lie: the law of whole small draws, that all slots are alike, that the others' slots tell nothing of
// a row, and that coins do not tell the count.
#include "test/runtime/privacy/PoissonSupport.h"

#include <array>
#include <map>
#include <numeric>
#include <set>

extern "C" {
// The linker sends calls of libsodium's function here (-Wl,--wrap in CMakeLists.txt).
int __real_crypto_stream_chacha20_xor_ic(unsigned char *, const unsigned char *, unsigned long long,
                                         const unsigned char *, uint64_t, const unsigned char *);
int __wrap_crypto_stream_chacha20_xor_ic(unsigned char *, const unsigned char *, unsigned long long,
                                         const unsigned char *, uint64_t, const unsigned char *);
}

/// First block and bytes of every request for coins, of a thread that asked to know.
using Requests = std::vector<std::pair<uint64_t, uint64_t>>;
static thread_local Requests *requests = nullptr;

int __wrap_crypto_stream_chacha20_xor_ic(unsigned char *out, const unsigned char *in, unsigned long long bytes,
                                         const unsigned char *nonce, uint64_t block, const unsigned char *key) {
  if (requests) {
    requests->emplace_back(block, bytes);
  }
  return __real_crypto_stream_chacha20_xor_ic(out, in, bytes, nonce, block, key);
}

namespace sojourn::privacy::test {

namespace {

using Slots = std::vector<int64_t>;

/// All ways in which some of the rows can lie in the slots, with no row twice, from slot `slot` on.
void addOutcomes(int64_t rows, size_t slot, Slots &slots, std::vector<Slots> &all) {
  if (slot == slots.size()) {
    all.push_back(slots);
    return;
  }
  for (int64_t row = -1; row < rows; ++row) {
    if (row < 0 || std::count(slots.begin(), slots.begin() + static_cast<int64_t>(slot), row) == 0) {
      slots[slot] = row;
      addOutcomes(rows, slot + 1, slots, all);
    }
  }
}

int64_t countOf(const Slots &slots) {
  return static_cast<int64_t>(slots.size()) - std::count(slots.begin(), slots.end(), -1);
}

/// The p-value of whole draws: given its count, which is binomial and cut at the capacity, every outcome is as likely
/// as any other. 0 if there is an outcome that cannot be.
template <typename Draw>
double lawFit(const PoissonDraw &plan, int64_t expected, int64_t draws, Draw draw) {
  std::vector<Slots> all;
  Slots slots(static_cast<size_t>(plan.capacity()));
  addOutcomes(plan.rows(), 0, slots, all);
  std::vector<double> ofCount(static_cast<size_t>(plan.capacity()) + 1), ways(ofCount.size());
  const auto exact = binomial(plan.rows(), sixtyFourths(plan.rows(), expected));
  for (size_t n = 0; n < exact.size(); ++n) {
    ofCount[std::min(n, ofCount.size() - 1)] += static_cast<double>(exact[n]);
  }
  std::map<Slots, size_t> number;
  for (const Slots &outcome : all) {
    number.emplace(outcome, number.size());
    ++ways[static_cast<size_t>(countOf(outcome))];
  }
  std::vector<int64_t> seen(all.size());
  for (int64_t k = 0; k < draws; ++k) {
    auto found = number.find(draw(static_cast<uint32_t>(k)));
    if (found == number.end()) {
      return 0;
    }
    ++seen[found->second];
  }
  std::vector<double> probability;
  for (const Slots &outcome : all) {
    const auto count = static_cast<size_t>(countOf(outcome));
    probability.push_back(ofCount[count] / ways[count]);
  }
  return fit(seen, probability);
}

/// Sums over draws, which given the counts have known means and variances.
struct Places {
  explicit Places(int64_t capacity) : perSlot(static_cast<size_t>(capacity)), ofRow(perSlot.size()) {}

  std::vector<int64_t> perSlot, ofRow;
  /// Of a count n of C slots, n (C - n) / (C (C - 1)) is the variance of a slot's occupation within a draw.
  double slotVariance = 0;
  /// Of the other rows that lie in the first quarter, where row 0 is drawn (1) or not (0): what exceeds the mean.
  double excess[2] = {0, 0}, variance[2] = {0, 0};

  void add(const Slots &slots) {
    const auto capacity = static_cast<double>(slots.size());
    const size_t quarter = slots.size() / 4;
    const auto at = static_cast<size_t>(std::find(slots.begin(), slots.end(), 0) - slots.begin());
    const size_t in = at < slots.size();
    double count = 0, front = 0;
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      perSlot[slot] += slots[slot] >= 0;
      count += slots[slot] >= 0;
      front += slot < quarter && slots[slot] > 0;
    }
    if (in) {
      ++ofRow[at];
    }
    slotVariance += count * (capacity - count) / (capacity * (capacity - 1));
    // Hypergeometric: the others' slots are a uniform subset of all slots, whether row 0 has one or not.
    const double others = count - static_cast<double>(in), share = static_cast<double>(quarter) / capacity;
    excess[in] += front - others * share;
    variance[in] += others * share * (1 - share) * (capacity - others) / (capacity - 1);
  }

  /// p-values: all slots are taken as often; row 0 lies anywhere; the others lie anywhere with row 0 and without.
  std::array<double, 4> fits() const {
    const double mean = static_cast<double>(std::accumulate(perSlot.begin(), perSlot.end(), int64_t{0})) /
                        static_cast<double>(perSlot.size());
    double statistic = 0;
    for (int64_t hits : perSlot) {
      statistic += std::pow(static_cast<double>(hits) - mean, 2) / slotVariance;
    }
    const std::vector<double> uniform(ofRow.size(), 1.0 / static_cast<double>(ofRow.size()));
    return {chiSquareTail(statistic, static_cast<double>(perSlot.size() - 1)), fit(ofRow, uniform),
            normalFit(excess[0] / std::sqrt(variance[0])), normalFit(excess[1] / std::sqrt(variance[1]))};
  }
};

/// Of a draw: more slots than a draw has rows, or fewer; more than the table has rows, or fewer.
struct Sizes {
  int64_t rows, expected, capacity;
};

} // namespace

// Every check here alarms with probability 1e-10 (kAlarm) on a right draw.

TEST(PoissonPlacement, ExactLawOfSmallDraws) {
  const Coins coins = Coins::forTests(freshSeed());
  for (auto [rows, expected, capacity] :
       {Sizes{2, 1, 5}, {3, 1, 2}, {3, 2, 3}, {3, 2, 5}, {4, 1, 1}, {4, 2, 3}, {4, 2, 4}, {4, 2, 5}, {4, 3, 5}}) {
    auto draw = planned(rows, expected, capacity);
    auto ours = [&, base = static_cast<uint32_t>(1000000 * capacity)](uint32_t k) {
      return drawn(draw, coins, base + k);
    };
    EXPECT_GT(lawFit(draw, expected, 400000, ours), kAlarm) << rows << " " << expected << " " << capacity;
  }
}

TEST(PoissonPlacement, WrongOnesAreCaught) {
  std::mt19937_64 random(freshSeed());
  const Coins coins = Coins::forTests(freshSeed());
  auto draw = planned(4, 2, 5);
  auto caught = [&](auto change) {
    return lawFit(draw, 2, 400000, [&](uint32_t k) {
      Slots slots = drawn(draw, coins, k);
      change(slots);
      return slots;
    });
  };
  EXPECT_GT(caught([](Slots &) {}), kAlarm) << "nothing is wrong";
  EXPECT_LT(caught([](Slots &slots) { moveToFront(slots); }), kAlarm) << "in front";
  auto turn = [&](Slots &slots) {
    moveToFront(slots);
    std::rotate(slots.begin(), slots.begin() + static_cast<int64_t>(random() % 5), slots.end());
  };
  EXPECT_LT(caught(turn), kAlarm) << "side by side, though every slot is taken as often";
  auto rarely = [&](Slots &slots) {
    if (random() % 50 == 0) {
      std::sort(slots.begin(), slots.end());
    }
  };
  EXPECT_LT(caught(rarely), kAlarm) << "in order, once in 50 draws";
}

TEST(PoissonPlacement, SlotsAreAlike) {
  const Coins coins = Coins::forTests(freshSeed());
  // Dense and hashed tables, several refills of coins, tables smaller than the batch.
  for (auto [rows, expected, capacity] :
       {Sizes{20, 8, 24}, {60, 20, 60}, {60, 45, 300}, {150, 64, 160}, {500, 30, 48}, {400, 200, 600}}) {
    auto draw = planned(rows, expected, capacity);
    const int64_t draws = 4000000 / capacity;
    Places places(capacity);
    for (int64_t k = 0; k < draws; ++k) {
      const Slots slots = drawn(draw, coins, static_cast<uint32_t>(k));
      ASSERT_EQ(std::set<int64_t>(slots.begin(), slots.end()).size(),
                static_cast<size_t>(countOf(slots) + (countOf(slots) < capacity)))
          << "a row lies in two slots";
      places.add(slots);
    }
    for (double p : places.fits()) {
      EXPECT_GT(p, kAlarm) << rows << " " << expected << " " << capacity;
    }
  }
}

TEST(PoissonPlacement, UnlikeSlotsAreCaught) {
  const Coins coins = Coins::forTests(freshSeed());
  auto draw = planned(20, 8, 24);
  Places front(24), next(24), pushed(24);
  for (uint32_t k = 0; k < 200000; ++k) {
    Slots slots = drawn(draw, coins, k);
    Slots moved = slots, half = slots;
    if (auto at = std::find(half.begin(), half.end(), 0); at != half.end()) {
      std::swap(*at, half[12 + k % 12]);
      // Now and then another one leaves the first quarter for a row that is drawn.
      auto other = std::find_if(moved.begin(), moved.begin() + 6, [](int64_t row) { return row > 0; });
      auto free = std::find(moved.begin() + 6, moved.end(), -1);
      if (k % 8 == 0 && other != moved.begin() + 6 && free != moved.end()) {
        std::swap(*other, *free);
      }
    }
    pushed.add(moved);
    next.add(half);
    moveToFront(slots);
    front.add(slots);
  }
  EXPECT_LT(front.fits()[0], kAlarm) << "in front";
  EXPECT_LT(front.fits()[1], kAlarm) << "in front";
  EXPECT_LT(next.fits()[1], kAlarm) << "one row in one half";
  EXPECT_LT(pushed.fits()[3], kAlarm) << "others give way to a row";
}

TEST(PoissonPlacement, CoinsDoNotTellTheCount) {
  const Coins coins = Coins::forTests(freshSeed());
  for (auto [rows, expected, capacity] : {Sizes{4, 2, 5}, {455, 64, 136}, {9000, 2, 512}, {40, 20, 300}}) {
    auto draw = planned(rows, expected, capacity);
    std::set<int64_t> counts;
    std::set<Requests> asked;
    Slots slots(static_cast<size_t>(capacity));
    for (uint32_t index = 0; index < 100; ++index) {
      Requests made;
      requests = &made;
      draw.draw(coins, index, slots);
      requests = nullptr;
      counts.insert(countOf(slots));
      asked.insert(made);
    }
    EXPECT_GT(counts.size(), 1u) << rows;
    ASSERT_EQ(asked.size(), 1u) << "the same blocks and bytes for every count of " << rows;
    // Block 0, and 24 bytes per slot from block 1 on, each once.
    uint64_t bytes = 0;
    for (auto [block, part] : *asked.begin()) {
      EXPECT_TRUE(block == 0 || block == 1 + bytes / kCoinBlock);
      bytes += block == 0 ? 0 : part;
    }
    EXPECT_EQ(bytes, 24 * static_cast<uint64_t>(capacity));
  }
}

} // namespace sojourn::privacy::test
