// SPDX-License-Identifier: Apache-2.0
// The order of rows: literal vectors, a bijection, even to chance. SOJOURN_TEST_SEED repeats a run.
// SampleRowsTest.cpp has the op.
#include "runtime/Philox.h"
#include "test/runtime/Programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

using namespace sojourn;
using namespace sojourn::runtime;
using namespace sojourn::test;

namespace {

/// Computed by another program from the op's text.
TEST(RowOrder, LiteralVectors) {
  struct Vector {
    int64_t rows;
    uint64_t seed, epoch;
    std::vector<int64_t> order;
  };
  const Vector vectors[] = {
      {1, 0, 0, {0}},
      {2, 1, 0, {1, 0}},
      {3, 7, 2, {1, 2, 0}},
      {10, 0, 0, {3, 7, 5, 1, 0, 6, 8, 4, 2, 9}},
      {10, 0, 1, {5, 0, 9, 1, 7, 8, 4, 2, 6, 3}},
      {569, 42, 3, {57, 432, 110, 94, 22, 87, 495, 299, 141, 372}},
      {1000, UINT64_MAX, 5, {838, 698, 497, 979, 891, 916, 612, 581, 427, 969}},
      {1048583,
       123456789012345,
       4294967295,
       {348454, 955737, 987095, 242304, 921811, 440978, 375513, 224659, 60650, 848659}},
      {4294967296,
       9,
       1,
       {370058575, 4218705112, 4060099028, 3838052784, 1310379029, 3274113433, 2826108521, 1766265392, 2484536418,
        3328275903}},
      {1099511627773,
       5,
       4294967297,
       {284898317415, 344360557445, 524940690953, 1005149496901, 194181136607, 288014776981, 817146251552, 254279823197,
        231757725237, 832248992718}},
      {1099511627776,
       5,
       0,
       {713953332599, 633616600717, 186103134128, 95173509646, 731840867477, 486336047883, 118971145603, 907488574867,
        265099694719, 950934787642}},
  };
  for (const Vector &vector : vectors) {
    for (size_t p = 0; p < vector.order.size(); ++p) {
      EXPECT_EQ(rowAt(static_cast<int64_t>(p), vector.rows, vector.seed, vector.epoch), vector.order[p])
          << "rows " << vector.rows << ", position " << p;
    }
  }
}

TEST(RowOrder, EveryRowStandsOnceAndNothingStandsOutside) {
  std::mt19937_64 random = freshRandom();
  for (int64_t rows : {0, 1, 2, 3, 255, 256, 257, 1000}) {
    for (int round = 0; round < 4; ++round) {
      uint64_t seed = random(), epoch = random();
      std::vector<bool> seen(static_cast<size_t>(rows));
      for (int64_t p = 0; p < rows; ++p) {
        int64_t row = rowAt(p, rows, seed, epoch);
        ASSERT_TRUE(row >= 0 && row < rows) << "rows " << rows << ", position " << p << " gave " << row;
        ASSERT_FALSE(seen[static_cast<size_t>(row)]) << "rows " << rows << ": row " << row << " twice";
        seen[static_cast<size_t>(row)] = true;
      }
      for (int64_t p : {INT64_MIN, int64_t{-2}, int64_t{-1}, rows, rows + 1, INT64_MAX}) {
        EXPECT_EQ(rowAt(p, rows, seed, epoch), -1) << "rows " << rows << ", position " << p;
      }
    }
  }
}

TEST(RowOrder, TablesOfUpToTwoToTheFortyRows) {
  std::mt19937_64 random = freshRandom();
  for (int64_t rows : {(int64_t{1} << 33) + 5, (int64_t{1} << 40) - 3, int64_t{1} << 40}) {
    uint64_t seed = random(), epoch = random();
    std::set<int64_t> positions, found;
    for (int64_t p : {int64_t{0}, int64_t{1}, rows / 2, rows - 2, rows - 1}) {
      positions.insert(p);
    }
    while (positions.size() < 50'000) {
      positions.insert(static_cast<int64_t>(random() % static_cast<uint64_t>(rows)));
    }
    for (int64_t p : positions) {
      int64_t row = rowAt(p, rows, seed, epoch);
      ASSERT_TRUE(row >= 0 && row < rows) << "rows " << rows << ", position " << p << " gave " << row;
      found.insert(row);
    }
    EXPECT_EQ(found.size(), positions.size()) << "rows " << rows;
  }
}

/// Chi-square against expected probabilities, refused at one chance in a million (Wilson and
/// Hilferty's approximation of the quantile).
void expectFits(const std::vector<int64_t> &counts, const std::vector<double> &probabilities, const std::string &what) {
  double total = 0, statistic = 0;
  for (int64_t count : counts) {
    total += static_cast<double>(count);
  }
  for (size_t k = 0; k < counts.size(); ++k) {
    double expected = total * probabilities[k], off = static_cast<double>(counts[k]) - expected;
    ASSERT_GT(expected, 5) << what << ": too few draws for a chi-square";
    statistic += off * off / expected;
  }
  double freedom = static_cast<double>(counts.size()) - 1, step = 2 / (9 * freedom);
  double quantile = freedom * std::pow(1 - step + 4.7534 * std::sqrt(step), 3);
  EXPECT_LT(statistic, quantile) << what << ": chi-square of " << freedom << " degrees of freedom";
}

/// Shares of [0, size) that fall into each of `buckets` of almost equal width: value * buckets / size.
std::vector<double> shares(int64_t size, int64_t buckets) {
  std::vector<double> result(static_cast<size_t>(buckets));
  for (int64_t k = 0; k < buckets; ++k) {
    int64_t first = (k * size + buckets - 1) / buckets, last = ((k + 1) * size + buckets - 1) / buckets;
    result[static_cast<size_t>(k)] = static_cast<double>(last - first) / static_cast<double>(size);
  }
  return result;
}

/// Over fresh seeds and epochs, the row at a position is any row, and its neighbour any other.
TEST(RowOrder, PositionsAndNeighboursAreEven) {
  std::mt19937_64 random = freshRandom();
  constexpr int kDraws = 40'000;
  for (int64_t rows : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{1000}, (int64_t{1} << 20) + 7}) {
    int64_t buckets = std::min<int64_t>(rows, 100), steps = std::min<int64_t>(rows - 1, 100);
    for (const char *changes : {"seed", "epoch", "seed and position"}) {
      std::string what = std::to_string(rows) + " rows, fresh " + changes;
      uint64_t seed = random(), epoch = random() % 1000;
      int64_t p = rows > 1 ? static_cast<int64_t>(random() % static_cast<uint64_t>(rows - 1)) : 0;
      std::vector<int64_t> places(static_cast<size_t>(buckets)), distances(static_cast<size_t>(steps));
      std::map<std::pair<int64_t, int64_t>, int64_t> pairs;
      // One row leaves nothing to chance, and its cycles are the longest.
      for (int draw = 0; draw < (rows == 1 ? 200 : kDraws); ++draw) {
        (changes[0] == 'e' ? epoch : seed) += changes[0] == 'e' ? 1 : random();
        if (changes[4] != '\0' && changes[0] == 's' && rows > 1) {
          p = static_cast<int64_t>(random() % static_cast<uint64_t>(rows - 1));
        }
        int64_t row = rowAt(p, rows, seed, epoch);
        ++places[static_cast<size_t>(row * buckets / rows)];
        if (rows > 1) {
          int64_t next = rowAt(p + 1, rows, seed, epoch), distance = (next - row + rows) % rows;
          ++distances[static_cast<size_t>((distance - 1) * steps / (rows - 1))];
          ++pairs[{row, next}];
        }
      }
      if (buckets > 1) {
        expectFits(places, shares(rows, buckets), what + ", positions");
      }
      if (steps > 1) {
        expectFits(distances, shares(rows - 1, steps), what + ", neighbours");
      }
      if (rows == 3) {
        std::vector<int64_t> counts;
        for (const auto &[pair, count] : pairs) {
          counts.push_back(count);
        }
        ASSERT_EQ(counts.size(), 6u) << what;
        expectFits(counts, std::vector<double>(6, 1.0 / 6), what + ", ordered pairs");
      }
    }
  }
}

/// Along one order of many rows, neither places nor steps drift.
TEST(RowOrder, OneOrderIsEven) {
  std::mt19937_64 random = freshRandom();
  const int64_t rows = (int64_t{1} << 20) + 7, buckets = 256;
  uint64_t seed = random(), epoch = random() % 100;
  std::vector<int64_t> early(buckets), distances(buckets);
  int64_t previous = rowAt(0, rows, seed, epoch);
  for (int64_t p = 1; p < rows / 2; ++p) {
    int64_t row = rowAt(p, rows, seed, epoch);
    ++early[static_cast<size_t>(row * buckets / rows)];
    ++distances[static_cast<size_t>(((row - previous + rows) % rows - 1) * buckets / (rows - 1))];
    previous = row;
  }
  expectFits(early, shares(rows, buckets), "the first half");
  expectFits(distances, shares(rows - 1, buckets), "steps of the first half");
}

} // namespace
