// SPDX-License-Identifier: Apache-2.0
// What is wrong with a meaning: lists and fills from outside.
#include "runtime/wire/Meaning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <unordered_set>

using namespace sojourn;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

/// Draws from a fresh seed, which failures name.
struct MeaningProblems : testing::Test {
  unsigned seed = std::random_device()();
  std::mt19937 dice{seed};
  testing::ScopedTrace trace{__FILE__, __LINE__, "seed " + std::to_string(seed)};

  size_t below(size_t limit) { return dice() % limit; }

  static std::string twice(size_t place) {
    return "has category number " + std::to_string(place) + " (counting from 0) twice; name each category once";
  }
};

template <class T>
std::string problem(std::vector<T> list) {
  Meaning meaning;
  if constexpr (std::is_same_v<T, std::string>) {
    meaning.texts = std::move(list);
  } else {
    meaning.numbers = std::move(list);
  }
  return problemOf(meaning);
}

/// By a set that holds what came before.
template <class T>
size_t firstSeenBefore(const std::vector<T> &list) {
  std::set<T> seen;
  return static_cast<size_t>(
      std::find_if(list.begin(), list.end(), [&](const T &each) { return !seen.insert(each).second; }) - list.begin());
}

TEST_F(MeaningProblems, TheFirstRepeatedPositionIsNamed) {
  EXPECT_EQ(problem<std::string>({"a", "b", "a", "b"}), twice(2));
  EXPECT_EQ(problem<std::string>({"b", "a", "a", "b"}), twice(2));
  EXPECT_EQ(problem<std::string>({"b", "b", "b"}), twice(1));
  EXPECT_EQ(problem<std::string>({"", "a", ""}), twice(2));
  EXPECT_EQ(problem<std::string>({"a", "aa", std::string("a\0", 2)}), "");
  EXPECT_EQ(problem<int64_t>({5, -5, 7, 7, 5}), twice(3));
  EXPECT_EQ(problem<int64_t>({std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), 0}), "");
  EXPECT_EQ(problem<int64_t>({}), "");
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> numbers(1 + below(12));
    std::vector<std::string> texts;
    for (int64_t &number : numbers) {
      number = static_cast<int64_t>(below(20)) - 10;
      texts.push_back("x" + std::to_string(number));
    }
    const size_t first = firstSeenBefore(numbers);
    const std::string expected = first < numbers.size() ? twice(first) : "";
    EXPECT_EQ(problem(numbers), expected);
    EXPECT_EQ(problem(texts), expected);
  }
}

/// As many as there may be, which the library's own set of numbers puts into one bucket.
TEST_F(MeaningProblems, ListsWithOneHash) {
  std::unordered_set<int64_t> set;
  set.reserve(kCategories);
  const auto step = static_cast<int64_t>(set.bucket_count());
  std::vector<int64_t> numbers(kCategories);
  for (size_t code = 0; code < numbers.size(); ++code) {
    numbers[code] = static_cast<int64_t>(code) * step;
  }
  std::shuffle(numbers.begin(), numbers.end(), dice);
  EXPECT_EQ(problem(numbers), "");
  const size_t place = 1 + below(kCategories - 1);
  numbers[place] = numbers[below(place)];
  EXPECT_EQ(problem(numbers), twice(place));
  numbers.push_back(1);
  EXPECT_EQ(problem(numbers), "has 65537 categories, the limit is 65536; group the rare ones, or leave the column out");
}

TEST_F(MeaningProblems, LongTextsThatDifferAtTheirEnd) {
  std::vector<std::string> texts(kCategories / 4);
  for (size_t code = 0; code < texts.size(); ++code) {
    texts[code] = std::string(kCategoryBytes - 8, 'x') + std::to_string(10'000'000 + code);
  }
  std::shuffle(texts.begin(), texts.end(), dice);
  EXPECT_EQ(problem(texts), "");
  const size_t place = 1 + below(texts.size() - 1);
  texts[place] = texts[below(place)];
  EXPECT_EQ(problem(texts), twice(place));
}

TEST_F(MeaningProblems, AFillIsACode) {
  for (bool areTexts : {false, true}) {
    Meaning meaning;
    if (areTexts) {
      meaning.texts = {"low", "high"};
    } else {
      meaning.numbers = {7, 5};
    }
    for (double fill : {0.0, -0.0, 1.0}) {
      meaning.fill = fill;
      EXPECT_EQ(problemOf(meaning), "") << fill;
    }
    const std::vector<std::pair<double, std::string>> wrong{{2, "2"}, {-1, "-1"}, {0.5, "0.5"}, {1e300, "1e+300"}};
    for (const auto &[fill, text] : wrong) {
      meaning.fill = fill;
      EXPECT_EQ(problemOf(meaning), "has a fill of " + text + ", expected one of its categories or a code from 0 to 1");
    }
    for (double fill : {kNaN, kInfinity, -kInfinity}) {
      meaning.fill = fill;
      EXPECT_EQ(problemOf(meaning), "has a fill that is not finite; declare a number");
    }
  }
  Meaning numbers;
  for (double fill : {-1.0, 0.5, 1e300}) { // of a column without categories
    numbers.fill = fill;
    EXPECT_EQ(problemOf(numbers), "");
  }
}

} // namespace
