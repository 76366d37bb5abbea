// SPDX-License-Identifier: Apache-2.0
// Goal: on random chains of layout ops the second reading is right, and follows whatever the row analysis follows.
// Method: a slot carried per element says what is true of each value.
#include "SlotPrograms.h"

#include "passes/privacy/SecondReading.h"

#include <functional>
#include <numeric>
#include <random>

using namespace mlir;
using namespace sojourn;
using namespace sojourn::test;

namespace {

/// A value of a random program: its shape, and per element the slot it comes from, -1 for what comes from no row.
struct Labelled {
  std::vector<int64_t> shape, slots;

  int64_t after(size_t dim) const {
    return std::accumulate(shape.begin() + dim + 1, shape.end(), int64_t{1}, std::multiplies<>());
  }
  /// With `size` elements along dim, each that at `from` of its position there, or of no row at -1.
  Labelled along(size_t dim, int64_t size, std::function<int64_t(int64_t)> from) const {
    Labelled result{shape, {}};
    result.shape[dim] = size;
    int64_t inner = after(dim), block = inner * shape[dim];
    for (int64_t first = 0; first < static_cast<int64_t>(slots.size()); first += block) {
      for (int64_t k = 0; k < size * inner; ++k) {
        int64_t at = from(k / inner);
        result.slots.push_back(at < 0 ? -1 : slots[first + at * inner + k % inner]);
      }
    }
    return result;
  }
  /// With dim and the next one exchanged.
  Labelled exchanged(size_t dim) const {
    Labelled result = *this;
    std::swap(result.shape[dim], result.shape[dim + 1]);
    int64_t inner = after(dim + 1), n = shape[dim], m = shape[dim + 1];
    for (size_t to = 0; to < slots.size(); ++to) {
      int64_t c = to % inner, i = to / inner % n, j = to / inner / n % m, a = to / inner / n / m;
      result.slots[to] = slots[((a * n + i) * m + j) * inner + c];
    }
    return result;
  }
};

std::string list(const std::vector<int64_t> &numbers, const char *between = ", ") {
  std::string text;
  for (int64_t number : numbers) {
    text += (text.empty() ? "" : between) + std::to_string(number);
  }
  return text;
}

/// A random op that moves the elements of `from`, and what they are then.
Labelled randomMove(std::mt19937_64 &dice, const Labelled &x, const std::string &from, std::string &op) {
  auto oneOf = [&](std::vector<int64_t> list) { return list[dice() % list.size()]; };
  size_t rank = x.shape.size(), dim = dice() % (rank - 1);
  int64_t n = x.shape[dim], stride = oneOf({1, 1, 2, 4});
  std::vector<int64_t> ones(rank, 1), low(rank, 0), high = low, gap = low, to = x.shape, perm = low;
  std::string type = " : f[" + list(x.shape, "x") + "]";
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[dim], perm[dim + 1]);
  ones[dim] = stride;
  gap[dim] = stride - 1;
  switch (dice() % 5) {
  case 0: {
    int64_t left = static_cast<int64_t>(x.slots.size());
    for (to.clear(); to.size() < 4;) {
      int64_t size = oneOf({1, 2, 3, 4, 8, 16, 24, 32});
      to.push_back(left % size == 0 ? size : 1);
      left /= to.back();
    }
    to.insert(to.begin() + dice() % 4, left);
    op = "reshape " + from + type + " -> f[" + list(to, "x") + "]";
    return {to, x.slots};
  }
  case 1: op = "transpose " + from + ", perm = [" + list(perm) + "]" + type; return x.exchanged(dim);
  case 2:
    op = "reverse " + from + ", dims = [" + std::to_string(dim) + "]" + type;
    return x.along(dim, n, [=](int64_t k) { return n - 1 - k; });
  case 3: {
    int64_t start = dice() % n;
    low[dim] = start;
    to[dim] = start + 1 + dice() % (n - start);
    op = "slice " + from + ", [" + list(low) + "] to [" + list(to) + "] by [" + list(ones) + "]" + type;
    return x.along(dim, (to[dim] - start + stride - 1) / stride, [=](int64_t k) { return start + k * stride; });
  }
  default: {
    // Half of them fill up to whole strides.
    int64_t before = dice() % 5, behind = before < stride && dice() % 2 ? stride - 1 - before : dice() % 5;
    low[dim] = before;
    high[dim] = behind;
    op = "pad " + from + ", %c, low = [" + list(low) + "], high = [" + list(high) + "], interior = [" + list(gap) +
         "]" + type + ", f[]";
    return x.along(dim, before + (n - 1) * stride + 1 + behind, [=](int64_t k) {
      int64_t at = k - before;
      return at >= 0 && at % stride == 0 && at / stride < n ? at / stride : -1;
    });
  }
  }
}

/// Five moves of %m or of the same at the secret draw, one after another; the last value's labels are the last.
struct Chain {
  std::string body;
  std::vector<Labelled> values;

  explicit Chain(std::mt19937_64 &dice, bool isDrawn = false) {
    body = isDrawn ? "%md = read_rows %t, %d, columns = [\"m\"] : !T, i[8] -> f[8x4x4]; " : "";
    auto same = [](int64_t) { return 0; };
    values = {Labelled{{8, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7}}.along(1, 4, same).along(2, 4, same)};
    for (std::string name = isDrawn ? "%md" : "%m"; values.size() < 6; name = "%y" + std::to_string(values.size())) {
      std::string op;
      values.push_back(randomMove(dice, values.back(), name, op));
      body += "%y" + std::to_string(values.size()) + " = " + op + "; ";
    }
  }
};

TEST(SlotChains, ReadingsAreThoseOfSlotsPerElement) {
  uint64_t seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 dice(seed);
  int read = 0;
  for (int round = 0; round < 400; ++round) {
    Chain chain(dice);
    Program program(chain.body);
    ASSERT_TRUE(program.module);
    std::vector<Labelled> &values = chain.values;
    for (Operation *op = program.last(); values.size() > 1; values.pop_back(), op = op->getPrevNode()) {
      SlotReading reading = program.reader->readingOf(op->getResult(0));
      const SlotPlace &place = reading.place;
      const Labelled &labels = values.back();
      read += reading.kind == SlotReading::Kind::Slots;
      for (size_t at = 0; reading.kind != SlotReading::Kind::Unknown && at < labels.slots.size(); ++at) {
        int64_t position = place.dim < 0 ? at : at / labels.after(place.dim) % labels.shape[place.dim];
        int64_t slot = place.first + place.step * (position / place.inner % place.slots);
        ASSERT_TRUE(labels.slots[at] == -1 || (labels.slots[at] == slot && reading.kind == SlotReading::Kind::Slots))
            << "seed " << seed << ", " << program.show(reading) << "\n"
            << chain.body;
      }
    }
  }
  EXPECT_GT(read, 600);
}

TEST(SlotChains, WhatTheAnalysisFollowsIsFollowedTwice) {
  uint64_t seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 dice(seed);
  int claimed = 0;
  for (int round = 0; round < 400; ++round) {
    Chain chain(dice, /*isDrawn=*/true);
    Program program(chain.body);
    ASSERT_TRUE(program.module);
    RowInputs inputs;
    inputs.arguments.resize(8);
    for (unsigned argument : {1, 2, 3, 4, 5}) {
      inputs.arguments[argument].isPublic = true;
    }
    inputs.arguments[6].table.isPrivate = true;
    rows::Analysis analysis;
    analyseRows(program.step, inputs, analysis);
    for (auto [op, left] = std::pair(program.last(), 5); left > 0; op = op->getPrevNode(), --left) {
      SlotClaim claim = claimOf(op->getResult(0), analysis, *program.reader);
      claimed += claim.kind == SlotClaim::Kind::PerRow;
      ASSERT_EQ(compare(program.reader->readingOf(op->getResult(0)), claim), Agreement::Agrees)
          << "seed " << seed << ", " << program.show(program.reader->readingOf(op->getResult(0))) << " and "
          << describe(analysis.factOf(op->getResult(0))) << " of value " << left << "\n"
          << chain.body;
    }
  }
  EXPECT_GT(claimed, 300);
}
} // namespace
