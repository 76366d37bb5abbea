// SPDX-License-Identifier: Apache-2.0
// sample_rows as plans run it: parts of a table and their splits, tables of any number of rows under one plan, many
// positions. SOJOURN_TEST_SEED repeats a run.
#include "runtime/Buffer.h"
#include "runtime/Execute.h"
#include "runtime/Philox.h"
#include "test/runtime/Programs.h"
#include "test/runtime/Support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

using namespace sojourn;
using namespace sojourn::runtime;
using namespace sojourn::test;

namespace {

/// Says of each row its number, in as many elements as an entry has.
class NumberedRows final : public RowSource {
public:
  explicit NumberedRows(int64_t rows) : count(rows) {}
  int64_t rows() const override { return count; }
  void readRows(llvm::ArrayRef<std::string> columns, llvm::ArrayRef<int64_t> indices, Element element,
                void *out) const override {
    ASSERT_EQ(element, Element::i64);
    int64_t entry = columns[0] == "image" ? 6 : static_cast<int64_t>(columns.size());
    auto *to = static_cast<int64_t *>(out);
    for (int64_t row : indices) {
      for (int64_t k = 0; k < entry; ++k) {
        *to++ = row < 0 || row >= count ? 0 : row * 10 + k;
      }
    }
  }
  int64_t count;
};

Binding bind(const TensorType &type, const void *data) {
  Binding binding;
  binding.tensor = {type, BufferPool::global().allocate(type.bytes())};
  std::memcpy(binding.tensor.buffer->data(), data, type.bytes());
  return binding;
}

/// A list of splits from the table down: the fraction of each, and whether it is the other side.
using Sides = std::vector<std::pair<double, bool>>;

/// "[first 0.80000000000000004, other 0.5]"
std::string textOf(const Sides &sides) {
  std::string text;
  for (auto [fraction, isOther] : sides) {
    char number[40];
    std::snprintf(number, sizeof number, "%.17g", fraction);
    text += (text.empty() ? "[" : ", ") + std::string(isOther ? "other " : "first ") + number;
  }
  return text + "]";
}

struct PartOfTable {
  int64_t rows, start, parent;
};

/// By the op's text; volatile, for a machine may fuse what has to be rounded twice.
PartOfTable partOf(int64_t rows, const Sides &sides) {
  PartOfTable part{rows, 0, rows};
  for (auto [fraction, isOther] : sides) {
    volatile double product = fraction * static_cast<double>(part.rows);
    volatile double sum = product + 0.5;
    int64_t first = static_cast<int64_t>(std::floor(sum));
    part = isOther ? PartOfTable{part.rows - first, first, part.rows} : PartOfTable{first, 0, part.rows};
  }
  return part;
}

/// What a draw gives at a position of a table of so many rows.
int64_t drawnAt(int64_t position, int64_t rows, const Sides &sides, bool isSplit, uint64_t seed, uint64_t epoch) {
  PartOfTable part = partOf(rows, sides);
  if (position < 0 || position >= part.rows) {
    return -1;
  }
  return isSplit ? rowAt(part.start + position, part.parent, seed, epoch) : rowAt(position, part.rows, seed, epoch);
}

/// A draw at uploaded positions of a table of any number of rows, planned once.
class Draw {
public:
  Draw(int64_t slots, const Sides &sides, bool isSplit) : slots(slots) {
    std::string list = "tensor<" + std::to_string(slots) + "xi64>", table = "!sojourn.table<?, \"a\" : i64>";
    std::string part = sides.empty() ? "" : (isSplit ? ", split = " : ", part = ") + textOf(sides);
    auto module = context.parse(
        "module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\nfunc.func @step(%p: " + list +
        " {sojourn.kind = \"upload\"}, %s: tensor<i64> {sojourn.kind = \"slot\"}, %e: tensor<i64> {sojourn.kind = "
        "\"slot\"}, %t: " +
        table + " {sojourn.kind = \"table\"}) -> (" + list +
        " {sojourn.result = \"publish\"}) {\n%i = sojourn.sample_rows %p, %s, %e of %t" + part + " : " + list +
        ", tensor<i64>, tensor<i64>, " + table + " -> " + list + "\nreturn %i : " + list + "\n}\n}");
    executable = module ? llvm::cantFail(Executable::create(*module)) : nullptr;
  }

  std::vector<int64_t> run(const std::vector<int64_t> &positions, int64_t rows, uint64_t seed, uint64_t epoch) const {
    NumberedRows source(rows);
    std::vector<Binding> bindings{bind({Element::i64, {slots}}, positions.data()), bind({Element::i64, {}}, &seed),
                                  bind({Element::i64, {}}, &epoch), Binding{{}, &source}};
    auto results = llvm::cantFail(executable->run(bindings));
    const auto *found = reinterpret_cast<const int64_t *>(results[0].buffer->data());
    return {found, found + slots};
  }

  Context context;
  int64_t slots;
  std::unique_ptr<Executable> executable;
};

/// Computed by another program from the op's text: positions 0 to 9.
TEST(SampleRows, LiteralVectorsOfParts) {
  struct Vector {
    int64_t rows;
    Sides sides;
    bool isSplit;
    uint64_t seed, epoch;
    std::vector<int64_t> order;
  };
  const Sides first = {{0.8, false}}, other = {{0.8, true}}, nested = {{0.3, true}, {0.5, false}};
  const Sides deep = {{1.0 / 3, true}, {0.8, false}, {0.25, true}};
  const std::vector<int64_t> none(10, -1);
  const Vector vectors[] = {
      {569, first, false, 42, 3, {306, 279, 150, 286, 74, 27, 382, 371, 428, 348}},
      {569, first, true, 42, 3, {57, 432, 110, 94, 22, 87, 495, 299, 141, 372}},
      {569, other, false, 42, 3, {26, 94, 39, 44, 50, 69, 30, 49, 47, 29}},
      {569, other, true, 42, 3, {290, 251, 165, 239, 513, 386, 204, 413, 278, 182}},
      {10, nested, false, 7, 0, {2, 3, 1, 0, -1, -1, -1, -1, -1, -1}},
      {10, nested, true, 7, 4294967295, {6, 1, 4, 0, -1, -1, -1, -1, -1, -1}},
      {10, {{0.3, true}}, true, 7, 4294967295, {2, 6, 7, 1, 5, 4, 9, -1, -1, -1}},
      // 0.3 * 5 is 1.5 in f64, and below it in truth.
      {5, {{0.3, false}}, true, 1, 2, {0, 1, -1, -1, -1, -1, -1, -1, -1, -1}},
      {4294967296,
       deep,
       false,
       123456789012345,
       5,
       {1679969270, 954748498, 326024326, 1001001308, 1617366311, 413827286, 1245228744, 554623886, 1572278652,
        1400913369}},
      {4294967296,
       deep,
       true,
       123456789012345,
       5,
       {2103303302, 1102558266, 279451536, 955087140, 2126171721, 1486684601, 2030472902, 896905771, 913220244,
        326032922}},
      // Parts without a row.
      {3, {{0.1, true}}, true, 9, 9, {0, 2, 1, -1, -1, -1, -1, -1, -1, -1}},
      {3, {{0.1, false}}, true, 9, 9, none},
      {1, {{0.25, true}}, false, 3, 3, {0, -1, -1, -1, -1, -1, -1, -1, -1, -1}},
      {1, {{0.25, false}}, false, 3, 3, none},
      {0, {{0.5, true}}, true, 3, 3, none},
      {0, {}, false, 3, 3, none},
  };
  std::vector<int64_t> positions(10);
  std::iota(positions.begin(), positions.end(), 0);
  for (const Vector &vector : vectors) {
    Draw draw(10, vector.sides, vector.isSplit);
    ASSERT_TRUE(draw.executable);
    EXPECT_EQ(draw.run(positions, vector.rows, vector.seed, vector.epoch), vector.order)
        << "rows " << vector.rows << textOf(vector.sides) << vector.isSplit;
  }
}

/// One plan for tables of any number of rows, parts that have none at some of them included.
TEST(SampleRows, PartsOfTablesOfAnyNumberOfRows) {
  std::mt19937_64 random = freshRandom();
  std::uniform_real_distribution<double> anyFraction(0.01, 0.99);
  constexpr int64_t kSlots = 400;
  for (int round = 0; round < 60; ++round) {
    Sides sides;
    for (size_t depth = random() % 4; depth > 0; --depth) {
      const double fractions[] = {0.25, 0.5, 0.8, 1.0 / 3, anyFraction(random)};
      sides.emplace_back(fractions[random() % 5], random() % 2 == 1);
    }
    bool isSplit = !sides.empty() && random() % 2 == 1;
    Draw draw(kSlots, sides, isSplit);
    ASSERT_TRUE(draw.executable);
    for (int64_t rows : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{256}, int64_t{569},
                         (int64_t{1} << 20) + 7, int64_t{1} << 32}) {
      int64_t count = partOf(rows, sides).rows;
      std::vector<int64_t> positions = {INT64_MIN, -2, -1, 0, count - 1, count, count + 1, rows, INT64_MAX};
      while (positions.size() < kSlots) { // every row of small parts
        int64_t last = static_cast<int64_t>(positions.size());
        positions.push_back(count <= kSlots / 2 ? last - 10
                                                : static_cast<int64_t>(random() % static_cast<uint64_t>(count)));
      }
      uint64_t seed = random(), epoch = random();
      std::vector<int64_t> found = draw.run(positions, rows, seed, epoch);
      for (size_t k = 0; k < positions.size(); ++k) {
        ASSERT_EQ(found[k], drawnAt(positions[k], rows, sides, isSplit, seed, epoch))
            << "rows " << rows << ", " << textOf(sides) << (isSplit ? " split" : "") << ", position " << positions[k];
      }
    }
  }
}

/// Both sides of a split of a split are each row of what was split once, whatever its number of rows.
TEST(SampleRows, SidesCoverWhatWasSplit) {
  std::mt19937_64 random = freshRandom();
  constexpr int64_t kSlots = 300;
  for (double fraction : {0.25, 0.5, 0.8, 1.0 / 3}) {
    Sides above = {{0.8, random() % 2 == 1}}, first = above, other = above;
    first.emplace_back(fraction, false);
    other.emplace_back(fraction, true);
    Draw one(kSlots, first, true), two(kSlots, other, true);
    std::vector<int64_t> positions(kSlots);
    std::iota(positions.begin(), positions.end(), 0);
    for (int64_t rows : {0, 1, 2, 3, 10, 299, 300}) {
      uint64_t seed = random(), epoch = random();
      std::vector<int64_t> found = one.run(positions, rows, seed, epoch);
      for (int64_t row : two.run(positions, rows, seed, epoch)) {
        found.push_back(row);
      }
      std::erase(found, -1);
      std::sort(found.begin(), found.end());
      std::vector<int64_t> all(static_cast<size_t>(partOf(rows, above).rows));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(found, all) << "rows " << rows << ", fraction " << fraction;
    }
  }
}

/// A batch of the other half of a table, and what is read at it.
std::string splitProgram() {
  std::string table = "!sojourn.table<?, \"a\" : i64, \"image\" : 2x3xi64>";
  std::string draw = " : tensor<8x8xi64>, tensor<i64>, tensor<i64>, " + table + " -> tensor<8x8xi64>\n";
  return "module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\n"
         "func.func @step(%p: tensor<8x8xi64> {sojourn.kind = \"upload\"}, %s: tensor<i64> {sojourn.kind = \"slot\"}, "
         "%e: tensor<i64> {sojourn.kind = \"slot\"}, %t: " +
         table +
         " {sojourn.kind = \"table\"}) -> (tensor<64xi64> {sojourn.result = \"publish\"}, "
         "tensor<64xi64> {sojourn.result = \"publish\"}, tensor<64x2x3xi64> {sojourn.result = \"publish\"}) {\n"
         "%i = sojourn.sample_rows %p, %s, %e of %t, part = [other 0.5]" +
         draw + "%k = sojourn.sample_rows %i, %s, %e of %t, split = [other 0.5]" + draw +
         "%r = sojourn.reshape %k : tensor<8x8xi64> -> tensor<64xi64>\n"
         "%a = sojourn.read_rows %t, %r, columns = [\"a\"] : " +
         table +
         ", tensor<64xi64> -> tensor<64xi64>\n"
         "%x = sojourn.read_rows %t, %r, columns = [\"image\"] : " +
         table +
         ", tensor<64xi64> -> tensor<64x2x3xi64>\n"
         "return %r, %a, %x : tensor<64xi64>, tensor<64xi64>, tensor<64x2x3xi64>\n}\n}";
}

/// Tables of three rows and of four billion run one plan; an absent position stays absent.
TEST(SampleRows, AProgramOverABillionRows) {
  std::mt19937_64 random = freshRandom();
  Context context;
  auto module = context.parse(splitProgram());
  ASSERT_TRUE(module);
  auto executable = Executable::create(*module);
  ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
  EXPECT_LT((*executable)->runMemory().arena, 16'384u);
  ASSERT_EQ((*executable)->args()[3].columns.size(), 2u);
  EXPECT_EQ((*executable)->args()[3].columns[1].dims, (llvm::SmallVector<int64_t, 4>{2, 3}));
  const Sides half = {{0.5, true}};
  for (int64_t rows : {int64_t{3}, int64_t{1} << 30, (int64_t{1} << 32) - 1, int64_t{1} << 32}) {
    int64_t seed = static_cast<int64_t>(random()), epoch = static_cast<int64_t>(random());
    std::vector<int64_t> positions(64);
    for (int64_t &position : positions) {
      position = static_cast<int64_t>(random() % static_cast<uint64_t>(rows)) - rows / 4;
    }
    positions[0] = -1;
    positions[1] = INT64_MAX;
    NumberedRows source(rows);
    TensorType number{Element::i64, {}};
    std::vector<Binding> bindings{bind({Element::i64, {8, 8}}, positions.data()), bind(number, &seed),
                                  bind(number, &epoch), Binding{{}, &source}};
    auto results = (*executable)->run(bindings);
    ASSERT_TRUE(static_cast<bool>(results)) << llvm::toString(results.takeError());
    const auto *found = reinterpret_cast<const int64_t *>((*results)[0].buffer->data());
    const auto *single = reinterpret_cast<const int64_t *>((*results)[1].buffer->data());
    const auto *images = reinterpret_cast<const int64_t *>((*results)[2].buffer->data());
    uint64_t key = static_cast<uint64_t>(seed), stream = static_cast<uint64_t>(epoch);
    for (int i = 0; i < 64; ++i) {
      int64_t inner = drawnAt(positions[i], rows, half, false, key, stream);
      int64_t expected = drawnAt(inner, rows, half, true, key, stream);
      EXPECT_EQ(found[i], expected) << "rows " << rows << ", position " << positions[i];
      EXPECT_EQ(single[i], expected < 0 ? 0 : expected * 10);
      for (int k = 0; k < 6; ++k) {
        EXPECT_EQ(images[i * 6 + k], expected < 0 ? 0 : expected * 10 + k);
      }
    }
    EXPECT_EQ(found[0], -1);
    EXPECT_EQ(found[1], -1);
  }
}

/// Each is looked for when a plan is made, and counted whenever a table is bound.
TEST(SampleRows, PartsOfOneTableAreBounded) {
  auto problem = [](int draws, int parts) {
    const std::string list = "tensor<2xi64>", table = "!sojourn.table<?, \"a\" : i64>";
    std::string text = "module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\n"
                       "func.func @step(%p: tensor<2xi64> {sojourn.kind = \"upload\"}, %s: tensor<i64> {sojourn.kind = "
                       "\"slot\"}, %t: " +
                       table + " {sojourn.kind = \"table\"}) -> (tensor<2xi64> {sojourn.result = \"publish\"}) {\n";
    std::string before = "p";
    for (int draw = 0; draw < draws; ++draw) {
      std::string name = "i" + std::to_string(draw);
      text += "%" + name + " = sojourn.sample_rows %" + before +
              ", %s, %s of %t, part = " + textOf({{0.5, false}, {(draw % parts + 1) / 1024.0, true}}) + " : " + list +
              ", tensor<i64>, tensor<i64>, " + table + " -> " + list + "\n";
      before = name;
    }
    Context context;
    auto module = context.parse(text + "return %" + before + " : tensor<2xi64>\n}\n}");
    EXPECT_TRUE(module);
    auto executable = Executable::create(*module);
    return executable ? std::string() : llvm::toString(executable.takeError());
  };
  EXPECT_EQ(problem(256, 256), "");
  EXPECT_EQ(problem(300, 3), "");
  EXPECT_NE(problem(257, 257).find("rows of one table are drawn of more than 256 parts of it"), std::string::npos);
}

/// Enough positions for many pieces of the row range: their number does not show. A type says how many rows there are.
TEST(SampleRows, ManyPositionsAreDrawnAsFew) {
  std::mt19937_64 random = freshRandom();
  constexpr int64_t kCount = 5003, kRows = 4000;
  Context context;
  auto module = context.parse(
      "module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\n"
      "func.func @step(%p: tensor<5003xi64> {sojourn.kind = \"upload\"}, %s: tensor<i64> {sojourn.kind = \"slot\"}, "
      "%t: !sojourn.table<4000, \"a\" : i64> {sojourn.kind = \"table\"}) -> (tensor<5003xi64> {sojourn.result = "
      "\"publish\"}) {\n%i = sojourn.sample_rows %p, %s, %s of %t : tensor<5003xi64>, tensor<i64>, tensor<i64>, "
      "!sojourn.table<4000, \"a\" : i64> -> tensor<5003xi64>\nreturn %i : tensor<5003xi64>\n}\n}");
  ASSERT_TRUE(module);
  auto executable = llvm::cantFail(Executable::create(*module));
  std::vector<int64_t> positions(kCount);
  for (int64_t &position : positions) {
    position = static_cast<int64_t>(random() % 4400) - 200;
  }
  int64_t seed = static_cast<int64_t>(random());
  NumberedRows source(kRows);
  std::vector<Binding> bindings{bind({Element::i64, {kCount}}, positions.data()), bind({Element::i64, {}}, &seed),
                                Binding{{}, &source}};
  auto results = llvm::cantFail(executable->run(bindings));
  const auto *found = reinterpret_cast<const int64_t *>(results[0].buffer->data());
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(found[i], rowAt(positions[static_cast<size_t>(i)], kRows, static_cast<uint64_t>(seed),
                              static_cast<uint64_t>(seed)));
  }
}

} // namespace
