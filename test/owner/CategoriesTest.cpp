// SPDX-License-Identifier: Apache-2.0
// Terms of columns with categories, and moments in words: what an import makes of them, what it refuses.
#include "owner/Import.h"
#include "owner/Moment.h"
#include "test/owner/Support.h"

#include <cmath>
#include <limits>
#include <random>

namespace sojourn::owner::test {

namespace {

using Names = std::vector<std::string>;

struct CategoryTerms : testing::Test {
  TemporaryFolder folder;
  RegisterOptions with;

  CategoryTerms() {
    with.name = "t";
    with.policy = Policy::open;
  }

  /// The codes of column `arm` of a text file; or what refuses it.
  std::pair<std::vector<int64_t>, std::string> codes(const std::string &text) {
    auto table = importTable({folder.write("t.csv", "arm\n" + text), {}}, with);
    if (!table) {
      return {{}, llvm::toString(table.takeError())};
    }
    const auto *data = static_cast<const int64_t *>(table->columns[0].data);
    return {{data, data + table->rows}, ""};
  }
  std::string refusal(const std::string &text) { return codes(text).second; }
};

void expectHas(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

} // namespace

TEST_F(CategoryTerms, BoundsAreThoseOfTheCodes) {
  with.meanings["arm"].texts = {"low", "high", "other"};
  int64_t numbers[] = {0, 2, 1};
  const DatasetSource array{"", {{"arm", runtime::Element::i64, 3, numbers}}};
  const std::string expected = "column 'arm' has 3 categories and other bounds than those of their codes, 0 to 2; "
                               "leave its bounds out";
  const std::vector<Bounds> others{{0, 1}, {1, 2}, {0, 3}, {-1, 2}, {0.5, 1.5}, {0, std::nan("")}};
  for (Bounds bounds : others) {
    with.bounds["arm"] = bounds;
    EXPECT_EQ(refusal("low\nother\n"), expected);
    EXPECT_EQ(errorText(importTable(array, with).takeError()), expected);
  }
  with.bounds["arm"] = {0, 2};
  EXPECT_EQ(codes("low\nother\n").first, (std::vector<int64_t>{0, 2}));
  EXPECT_TRUE(bool(importTable(array, with)));
}

TEST_F(CategoryTerms, FillsAreCodes) {
  with.meanings["arm"].texts = {"low", "high"};
  int64_t numbers[] = {0, 1};
  const DatasetSource array{"", {{"arm", runtime::Element::i64, 2, numbers}}};
  for (double fill : {2.0, -1.0, 0.5}) {
    with.fills["arm"] = fill;
    expectHas(refusal("low\n"), "expected one of its categories or a code from 0 to 1");
    expectHas(errorText(importTable(array, with).takeError()), "expected one of its categories or a code from 0 to 1");
  }
  with.fills["arm"] = 1;
  EXPECT_EQ(codes("low\n\"\"\nhihg\n").first, (std::vector<int64_t>{0, 1, 1}));
}

/// A double is one whole number alone, though others are nearest to it.
TEST_F(CategoryTerms, NumbersAreFoundExactly) {
  const int64_t large = (int64_t{1} << 53) + 1;
  with.meanings["arm"].numbers = {large, large - 1, std::numeric_limits<int64_t>::max()};
  const std::string rows = std::to_string(large) + "\n\"\"\n";
  with.fills["arm"] = 0x1p53;
  EXPECT_EQ(codes(rows).first, (std::vector<int64_t>{0, 1}));
  with.fillTexts["arm"] = std::to_string(large); // beside a number: what it is exactly
  EXPECT_EQ(codes(rows).first, (std::vector<int64_t>{0, 0}));
  with.fillTexts.clear();
  for (double fill : {0x1p63, -0x1p63, 0x1p53 + 2, 1e300, 0.5, std::nan("")}) {
    with.fills["arm"] = fill;
    expectHas(refusal(rows), "of column 'arm' is none of its 3 categories; declare one of them");
  }
}

TEST_F(CategoryTerms, CategoriesBeginAfterTheFirstEqualsSign) {
  EXPECT_EQ(errorText(parseCategories("a=x=y,z", with)), "");
  EXPECT_EQ(with.meanings["a"].texts, (Names{"x=y", "z"}));
  EXPECT_EQ(errorText(parseFill("a=x=y", with)), "");
  EXPECT_EQ(with.fillTexts["a"], "x=y");
  EXPECT_EQ(errorText(parseFill("b=c=1.5", with)), "");
  EXPECT_EQ(with.fills["b=c"], 1.5);
  for (const char *wrong : {"", "a", "=", "a=", "=x"}) {
    expectHas(errorText(parseCategories(wrong, with)), "is not of the form column=a,b,c");
    expectHas(errorText(parseFill(wrong, with)), "is not of the form column=value");
  }
}

/// Whole numbers of TOML are exact as categories, and codes beside texts.
TEST_F(CategoryTerms, WholeNumbersOfToml) {
  const std::string text = "a = {fill = 9007199254740993}\nb = {fill = 9007199254740992}\nc = {fill = 2.5}\n"
                           "d = {fill = -9223372036854775808}\n";
  EXPECT_EQ(errorText(readBoundsFile(folder.write("b.toml", text), with)), "");
  EXPECT_EQ(with.fillTexts,
            (std::map<std::string, std::string>{{"a", "9007199254740993"}, {"d", "-9223372036854775808"}}));
  EXPECT_EQ(with.fills, (std::map<std::string, double>{{"a", 0x1p53}, {"b", 0x1p53}, {"c", 2.5}, {"d", -0x1p63}}));
  for (const char *wrong : {"a = {fill = true}", "a = {fill = [1]}", "a = {fill = {x = 1}}"}) {
    expectHas(errorText(readBoundsFile(folder.write("w.toml", wrong), with)), "line 1: column 'a' expects");
  }
}

TEST(Moments, ZonesAreWhole) {
  const int64_t noon = parseMoment("2024-03-01T12:00")->seconds;
  const std::vector<std::pair<std::string, int64_t>> zones{
      {"Z", 0}, {"+02", 7200}, {"+02:00", 7200}, {"-0530", -19800}, {"+23:59", 86340}};
  for (const auto &[zone, seconds] : zones) {
    auto moment = parseMoment("2024-03-01T12:00" + zone);
    ASSERT_TRUE(moment) << zone;
    EXPECT_EQ(moment->seconds, noon - seconds) << zone;
  }
  for (const char *zone : {"+02:", "-02:", "+", "+2", "+02:0", "+02:60", "+24", "+02:00:", "+02:00:30", "Z:", "02"}) {
    EXPECT_FALSE(parseMoment(std::string("2024-03-01T12:00") + zone)) << zone;
  }
}

TEST(Moments, DivisionRoundsDown) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  std::mt19937_64 dice(std::random_device{}());
  for (int64_t by : {int64_t{1}, int64_t{1'000}, int64_t{86'400'000}, int64_t{1'000'000'000}, most}) {
    for (int64_t number : {least, least + 1, int64_t{-1}, int64_t{0}, int64_t{1}, most, static_cast<int64_t>(dice())}) {
      // Without signs, for the product may lie below all of 64 bits.
      const auto product = static_cast<uint64_t>(floorDivide(number, by)) * static_cast<uint64_t>(by);
      EXPECT_LT(static_cast<uint64_t>(number) - product, static_cast<uint64_t>(by)) << number << " / " << by;
    }
  }
}

} // namespace sojourn::owner::test
