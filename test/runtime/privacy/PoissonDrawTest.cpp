// SPDX-License-Identifier: Apache-2.0
// Draws of rows: the table of counts against exact binomials, whole draws against a plain shuffle of the
// same coins, and statistics of membership as independent coins would have them.
// Where the rows lie is PoissonPlacementTest.cpp's.
#include "runtime/privacy/CountTable.h"
#include "test/runtime/privacy/PoissonSupport.h"

#include <array>
#include <map>
#include <numeric>
#include <set>

namespace sojourn::privacy::test {

namespace {

/// r m = high 2^192 + low in digits of 32 bits, least first, m below 2^32: long multiplication.
struct Product {
  uint64_t high;
  std::array<uint32_t, 6> low;
};

Product product(const std::array<uint32_t, 6> &r, uint64_t m) {
  Product result{};
  for (size_t k = 0; k < 6; ++k) {
    result.high += r[k] * m;
    result.low[k] = static_cast<uint32_t>(result.high);
    result.high >>= 32;
  }
  return result;
}

/// Fisher and Yates' shuffle with a plain map and a plain selection of slots, from the documented positions of the
/// coins: block 0 has 128 bits for the count, and from block 1 on each slot has 192 bits r. With m numbers left, the
/// high part of r m says which of them comes, and the low part whether the slot keeps it.
std::vector<int64_t> plainDraw(const PoissonDraw &draw, uint64_t q, const Coins &coins, uint32_t index) {
  const int64_t rows = draw.rows(), capacity = draw.capacity();
  uint64_t head[2];
  coins.fill({CoinUse::sampling, index}, 0, {reinterpret_cast<uint8_t *>(head), sizeof head});
  std::vector<std::array<uint32_t, 6>> body(static_cast<size_t>(capacity));
  coins.fill({CoinUse::sampling, index}, 1, {reinterpret_cast<uint8_t *>(body.data()), 24 * body.size()});
  const Uint128 uniform = Uint128{head[1]} << 64 | head[0];
  const auto probability = binomial(rows, q);
  Quad below = 0;
  int64_t count = 0;
  for (; count < std::min(rows, capacity); ++count) {
    below += probability[static_cast<size_t>(count)];
    if (share(uniform) < below) {
      break;
    }
  }
  std::map<int64_t, int64_t> moved;
  auto at = [&](int64_t position) { return moved.count(position) ? moved[position] : position; };
  std::vector<int64_t> slots(static_cast<size_t>(capacity), -1);
  // Of a table that is smaller than the batch, the numbers past its rows are no rows.
  const int64_t numbers = std::max(rows, capacity);
  int64_t open = std::min(rows, capacity); // slots, from here on, that a row comes to
  for (int64_t slot = 0; slot < capacity; ++slot) {
    const Product choice = product(body[static_cast<size_t>(slot)], static_cast<uint64_t>(numbers - slot));
    const int64_t position = slot + static_cast<int64_t>(choice.high), number = at(position);
    moved[position] = at(slot);
    if (number >= rows) {
      continue;
    }
    if (static_cast<int64_t>(product(choice.low, static_cast<uint64_t>(open)).high) < count) {
      slots[static_cast<size_t>(slot)] = number;
      --count;
    }
    --open;
  }
  EXPECT_EQ(count, 0) << "all rows found a slot";
  return slots;
}

/// What many draws of one plan had in common; the first and the last row are those in the order of slots.
struct Membership {
  int64_t draws;
  std::vector<int64_t> perRow, perCount, pairs, first, last;
};

template <typename Draw>
Membership membership(int64_t rows, int64_t draws, Draw draw) {
  Membership seen{draws,
                  std::vector<int64_t>(static_cast<size_t>(rows)),
                  std::vector<int64_t>(static_cast<size_t>(rows) + 1),
                  std::vector<int64_t>(4 * (static_cast<size_t>(rows) / 2)),
                  std::vector<int64_t>(static_cast<size_t>(rows)),
                  std::vector<int64_t>(static_cast<size_t>(rows))};
  std::vector<char> in(static_cast<size_t>(rows));
  for (int64_t k = 0; k < draws; ++k) {
    std::fill(in.begin(), in.end(), 0);
    size_t count = 0;
    int64_t first = -1, last = -1;
    for (int64_t row : draw(static_cast<uint32_t>(k))) {
      if (row >= 0) {
        in[static_cast<size_t>(row)] = 1;
        first = count++ == 0 ? row : first;
        last = row;
      }
    }
    ++seen.perCount[count];
    for (size_t row = 0; row < in.size(); ++row) {
      seen.perRow[row] += in[row];
    }
    for (size_t pair = 0; pair < in.size() / 2; ++pair) {
      ++seen.pairs[4 * pair + static_cast<size_t>(2 * in[2 * pair] + in[2 * pair + 1])];
    }
    if (count > 0) {
      ++seen.first[static_cast<size_t>(first)];
      ++seen.last[static_cast<size_t>(last)];
    }
  }
  return seen;
}

/// Smallest p-value of: each row a coin of probability q, pairs of rows independent, the count binomial,
/// the first and the last row uniform.
double coinFit(const Membership &seen, double q) {
  const auto rows = static_cast<double>(seen.perRow.size()), draws = static_cast<double>(seen.draws);
  double statistic = 0, smallest = 1;
  for (int64_t hits : seen.perRow) {
    statistic += std::pow(static_cast<double>(hits) - draws * q, 2) / (draws * q * (1 - q));
  }
  smallest = std::min(smallest, chiSquareTail(statistic, rows));
  statistic = 0;
  const double cells[4] = {(1 - q) * (1 - q), (1 - q) * q, q * (1 - q), q * q};
  for (size_t k = 0; k < seen.pairs.size(); ++k) {
    statistic += std::pow(static_cast<double>(seen.pairs[k]) - draws * cells[k % 4], 2) / (draws * cells[k % 4]);
  }
  smallest = std::min(smallest, chiSquareTail(statistic, 3 * static_cast<double>(seen.pairs.size() / 4)));
  std::vector<double> counts;
  for (double n = 0; n <= rows; ++n) {
    counts.push_back(std::exp(std::lgamma(rows + 1) - std::lgamma(n + 1) - std::lgamma(rows - n + 1) + n * std::log(q) +
                              (rows - n) * std::log1p(-q)));
  }
  smallest = std::min(smallest, fit(seen.perCount, counts));
  const std::vector<double> uniform(seen.perRow.size(), 1 / rows);
  return std::min({smallest, fit(seen.first, uniform), fit(seen.last, uniform)});
}

} // namespace

TEST(CountTable, IsTheBinomial) {
  std::mt19937_64 random(freshSeed());
  std::vector<std::array<int64_t, 3>> cases{{2, 1, 2}, {10, 9, 10}, {455, 64, 136}, {5000, 64, 136}, {3000, 1, 8}};
  for (int k = 0; k < 8; ++k) {
    int64_t rows = 2 + static_cast<int64_t>(random() % 2000),
            expected = 1 + static_cast<int64_t>(random() % (rows - 1));
    cases.push_back({rows, expected, expected + static_cast<int64_t>(random() % 30)});
  }
  for (auto [rows, expected, capacity] : cases) {
    const uint64_t q = sixtyFourths(rows, expected);
    auto table = countTable(rows, q, capacity);
    auto exact = binomial(rows, q);
    // Everything below the window and beyond the table belongs to its ends.
    Quad below = 0, previous = 0, variation = 0, found = 0;
    for (int64_t n = 0; n <= std::min(rows, capacity); ++n) {
      const auto k = static_cast<size_t>(std::max<int64_t>(0, n - table->first));
      below = n == std::min(rows, capacity) ? 1 : below + exact[static_cast<size_t>(n)];
      const Quad now = n < table->first ? 0 : k < table->below.size() ? share(table->below[k]) : 1;
      variation += magnitude((now - found) - (below - previous)) / 2;
      found = now;
      previous = below;
    }
    EXPECT_LT(static_cast<double>(variation), 0x1p-98) << rows << " " << expected << " " << capacity;
    Quad over = 0;
    for (int64_t n = rows; n > capacity; --n) {
      over += exact[static_cast<size_t>(n)];
    }
    EXPECT_GE(table->overflow, static_cast<double>(over) * (1 - 1e-15));
    EXPECT_LE(table->overflow, static_cast<double>(over) * (1 + 1e-12) + 0x1p-109);
  }
}

TEST(CountTable, LargeOnes) {
  // Mean, deviation and median of the table where a plain product would take too long.
  for (auto [rows, expected] :
       {std::pair<int64_t, int64_t>{int64_t{1} << 40, 4096}, {1 << 30, 1 << 20}, {1 << 20, 1 << 19}}) {
    const int64_t capacity = expected + 12 * static_cast<int64_t>(std::sqrt(static_cast<double>(expected)));
    auto table = countTable(rows, sixtyFourths(rows, expected), capacity);
    Quad mean = 0, squares = 0, previous = 0;
    for (size_t k = 0; k <= table->below.size(); ++k) {
      const Quad now = k < table->below.size() ? share(table->below[k]) : 1;
      const Quad distance = table->first + static_cast<int64_t>(k) - expected;
      mean += (now - previous) * distance;
      squares += (now - previous) * distance * distance;
      previous = now;
    }
    const double q = static_cast<double>(expected) / static_cast<double>(rows);
    EXPECT_NEAR(static_cast<double>(mean), 0, 1e-12 * static_cast<double>(expected));
    EXPECT_NEAR(static_cast<double>(squares) / (static_cast<double>(expected) * (1 - q)), 1, 1e-12);
    EXPECT_EQ(table->count(Uint128{1} << 127), expected);
  }
}

TEST(CountTable, EdgesOfInversion) {
  auto table = countTable(455, sixtyFourths(455, 64), 136);
  EXPECT_EQ(table->count(0), table->first);
  EXPECT_EQ(table->count(~Uint128{0}), 136);
  const size_t k = table->below.size() / 2;
  EXPECT_EQ(table->count(table->below[k] - 1), table->first + static_cast<int64_t>(k));
  EXPECT_EQ(table->count(table->below[k]), table->first + static_cast<int64_t>(k) + 1);
}

TEST(PoissonDraw, IsAPlainShuffle) {
  const Coins coins = Coins::forTests(freshSeed());
  // Dense and hashed rows; capacities around the refill; more slots than rows.
  for (auto [rows, expected, capacity] : std::vector<std::array<int64_t, 3>>{{2, 1, 8},
                                                                             {100, 20, 64},
                                                                             {455, 64, 136},
                                                                             {5000, 64, 136},
                                                                             {3000, 900, 1160},
                                                                             {4000, 200, 256},
                                                                             {4000, 200, 257},
                                                                             {40, 30, 300},
                                                                             {255, 100, 256},
                                                                             {256, 100, 256},
                                                                             {20000, 3, 8}}) {
    auto draw = planned(rows, expected, capacity);
    for (uint32_t index = 0; index < 20; ++index) {
      auto slots = drawn(draw, coins, index);
      EXPECT_EQ(slots, plainDraw(draw, sixtyFourths(rows, expected), coins, index)) << rows << " " << index;
      std::set<int64_t> distinct(slots.begin(), slots.end());
      const auto absent = std::count(slots.begin(), slots.end(), -1);
      EXPECT_EQ(static_cast<int64_t>(distinct.size()), static_cast<int64_t>(slots.size()) - absent + (absent > 0));
      EXPECT_GE(*distinct.begin(), -1);
      EXPECT_LT(*distinct.rbegin(), rows);
    }
    std::set<std::vector<int64_t>> draws; // a few rows of many are often none
    for (uint32_t index = 1000; index < 1040; ++index) {
      draws.insert(drawn(draw, coins, index));
    }
    EXPECT_GT(draws.size(), 1u);
  }
}

TEST(PoissonDraw, IsIndependentCoins) {
  const Coins coins = Coins::forTests(freshSeed());
  for (auto [rows, expected] : {std::pair<int64_t, int64_t>{50, 10}, {60, 45}}) {
    auto draw = planned(rows, expected, rows);
    EXPECT_EQ(draw.overflowMass(), 0);
    auto seen = membership(rows, 100000, [&](uint32_t k) { return drawn(draw, coins, k); });
    EXPECT_GT(coinFit(seen, draw.probability()), kAlarm) << rows;
  }
}

TEST(PoissonDraw, WrongOnesAreCaught) {
  std::mt19937_64 random(freshSeed());
  const int64_t rows = 50, draws = 100000;
  std::vector<int64_t> order(rows);
  auto coins = [&](double q) {
    return membership(rows, draws, [&](uint32_t) {
      std::vector<int64_t> slots;
      for (int64_t row = 0; row < rows; ++row) {
        if (std::bernoulli_distribution(q)(random)) {
          slots.push_back(row);
        }
      }
      std::shuffle(slots.begin(), slots.end(), random);
      return slots;
    });
  };
  EXPECT_GT(coinFit(coins(0.2), 0.2), kAlarm) << "independent coins themselves";
  EXPECT_LT(coinFit(coins(0.204), 0.2), kAlarm) << "q 2 % off";
  auto fixed = membership(rows, draws, [&](uint32_t) {
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    return std::vector<int64_t>(order.begin(), order.begin() + 10);
  });
  EXPECT_LT(coinFit(fixed, 0.2), kAlarm) << "batches of a fixed size";
  auto floyd = membership(rows, draws, [&](uint32_t) {
    // Floyd's subset is uniform as a whole, its prefixes are not.
    std::vector<int64_t> slots;
    for (int64_t last = rows - 20; last < rows; ++last) {
      auto row = static_cast<int64_t>(random() % static_cast<uint64_t>(last + 1));
      slots.push_back(std::count(slots.begin(), slots.end(), row) ? last : row);
    }
    slots.resize(static_cast<size_t>(std::binomial_distribution<int>(rows, 0.2)(random)));
    return slots;
  });
  EXPECT_LT(coinFit(floyd, 0.2), kAlarm) << "a prefix of a set";
  auto repeated = membership(rows, draws, [&](uint32_t) {
    std::vector<int64_t> slots(static_cast<size_t>(std::binomial_distribution<int>(rows, 0.2)(random)));
    for (int64_t &slot : slots) {
      slot = static_cast<int64_t>(random() % rows);
    }
    return slots;
  });
  EXPECT_LT(coinFit(repeated, 0.2), kAlarm) << "rows twice";
}

TEST(PoissonDraw, OverflowDropsUniformly) {
  const Coins coins = Coins::forTests(freshSeed());
  const int64_t rows = 64, draws = 100000;
  auto draw = planned(rows, 16, 16);
  auto exact = binomial(rows, uint64_t{1} << 62);
  Quad over = 0;
  for (size_t n = 17; n <= 64; ++n) {
    over += exact[n];
  }
  EXPECT_NEAR(draw.overflowMass(), static_cast<double>(over), 1e-15);
  auto seen = membership(rows, draws, [&](uint32_t k) { return drawn(draw, coins, k); });
  std::vector<double> counts;
  for (size_t n = 0; n <= 64; ++n) {
    counts.push_back(n > 16 ? 0 : static_cast<double>(n == 16 ? exact[n] + over : exact[n]));
  }
  EXPECT_GT(fit(seen.perCount, counts), kAlarm);
  const std::vector<double> uniform(static_cast<size_t>(rows), 1.0 / static_cast<double>(rows));
  EXPECT_GT(fit(seen.first, uniform), kAlarm);
  EXPECT_GT(fit(seen.last, uniform), kAlarm);
}

TEST(PoissonDraw, EveryRowOfASmallTable) {
  const Coins coins = Coins::forTests(freshSeed());
  for (auto [rows, expected, capacity] :
       std::vector<std::array<int64_t, 3>>{{5, 5, 8}, {5, 7, 8}, {8, 8, 8}, {1, 1, 2}}) {
    auto draw = planned(rows, expected, capacity);
    EXPECT_EQ(draw.probability(), 1);
    EXPECT_EQ(draw.overflowMass(), 0);
    EXPECT_EQ(draw.errorMass(), 0);
    std::vector<int64_t> all(static_cast<size_t>(capacity), -1);
    std::iota(all.begin(), all.begin() + rows, 0);
    EXPECT_EQ(drawn(draw, coins, 3), all);
  }
}

TEST(PoissonDraw, ProbabilityIsRoundedUp) {
  std::mt19937_64 random(freshSeed());
  for (int k = 0; k < 2000; ++k) {
    const auto rows = static_cast<int64_t>(2 + random() % 5000), expected = static_cast<int64_t>(1 + random() % 8);
    if (expected >= rows) {
      continue;
    }
    const double p = planned(rows, expected, expected).probability();
    const Quad q = share(Uint128{sixtyFourths(rows, expected)} << 64);
    EXPECT_GE(Quad(p), q);
    EXPECT_LE(Quad(p), q * (1 + Quad(0x1p-52)));
    EXPECT_LE(q * Quad(rows), Quad(expected)) << "the draw itself rounds down";
  }
}

TEST(PoissonDraw, ManyRows) {
  const Coins coins = Coins::forTests(freshSeed());
  auto draw = planned(kDrawRowsMax, 4096, 4672);
  EXPECT_LT(draw.overflowMass(), 0x1p-50);
  std::vector<int64_t> high(64), low(64);
  for (uint32_t index = 0; index < 20; ++index) {
    auto slots = drawn(draw, coins, index);
    std::set<int64_t> distinct;
    for (int64_t row : slots) {
      ASSERT_LT(row, kDrawRowsMax);
      if (row >= 0) {
        EXPECT_TRUE(distinct.insert(row).second);
        ++high[static_cast<size_t>(row >> 34)];
        ++low[static_cast<size_t>(row & 63)];
      }
    }
  }
  const std::vector<double> uniform(64, 1.0 / 64);
  EXPECT_GT(fit(high, uniform), kAlarm);
  EXPECT_GT(fit(low, uniform), kAlarm);
}

TEST(PoissonDraw, PlansOutsideTheLimits) {
  struct {
    int64_t rows, expected, capacity;
    const char *text;
  } cases[] = {
      {0, 1, 8, "the number of rows of a draw is 0, expected a number in [1, 2^40]"},
      {kDrawRowsMax + 1, 1, 8, "the number of rows of a draw is 1099511627777, expected a number in [1, 2^40]"},
      {10, 1, 0, "the capacity of a draw is 0, expected a number in [1, 2^26]"},
      {10, 1, kDrawCapacityMax + 1, "the capacity of a draw is 67108865, expected a number in [1, 2^26]"},
      {10, 0, 8, "the expected size of a draw is 0, expected a number in [1, 8], the capacity"},
      {10, -3, 8, "the expected size of a draw is -3, expected a number in [1, 8], the capacity"},
      {100, 9, 8, "the expected size of a draw is 9, expected a number in [1, 8], the capacity"},
      {6, 5, 4, "the expected size of a draw is 5, expected a number in [1, 4], the capacity"},
  };
  for (const auto &wrong : cases) {
    auto plan = PoissonDraw::plan(wrong.rows, wrong.expected, wrong.capacity);
    ASSERT_TRUE(std::holds_alternative<std::string>(plan)) << wrong.text;
    EXPECT_EQ(std::get<std::string>(plan), wrong.text);
  }
}

TEST(PoissonDrawDeathTest, ABufferOfAnotherSize) {
  auto draw = planned(10, 3, 8);
  std::vector<int64_t> slots(9);
  EXPECT_DEATH(draw.draw(Coins::forTests(1), 0, slots), "another capacity");
}

} // namespace sojourn::privacy::test
