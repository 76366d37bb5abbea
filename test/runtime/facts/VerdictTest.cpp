// SPDX-License-Identifier: Apache-2.0
// Goal: verdicts go to bytes and come back as they were, and bytes that break a rule are refused. Method: a verdict
// broken by one rule each, and every byte changed.
#include "runtime/Error.h"
#include "runtime/facts/Verdict.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace sojourn;
using namespace sojourn::runtime;

namespace {

std::string textOf(llvm::Error error) { return llvm::toString(std::move(error)); }

privacy::Charge chargeOf(uint64_t first) {
  privacy::Charge charge;
  for (size_t order = 0; order < charge.rdp.size(); ++order) {
    charge.rdp[order] = first + 3 * order;
  }
  charge.delta = first / 2;
  return charge;
}

/// Two tables, one open; a sum that is published, and weights that stay.
ProgramFacts program() {
  ProgramFacts facts;
  facts.args = {{StepArg::State, {Element::f32, {3}}, {}, {}, {}},
                {StepArg::Table, {}, {}, {{"a", Element::f64, {}}}, {}},
                {StepArg::Table, {}, {}, {{"b", Element::f64, {}}}, {}}};
  facts.results = {{StepResult::Publish, {Element::f64, {}}, 0, "div", "train.py:8"},
                   {StepResult::Keep, {Element::f32, {3}}, 0, "add", "train.py:9"}};
  facts.dependence = DependenceSummary({3, {}, {}, {1, 0}});
  EXPECT_EQ(textOf(facts.count()), "");
  return facts;
}

Verdict example() {
  Verdict verdict;
  verdict.charges = {{1, chargeOf(40), chargeOf(7), chargeOf(9)}, {2, chargeOf(50), {}, {}}};
  verdict.sites = {{.what = "published result 0",
                    .op = "reduce_sum",
                    .location = "train.py:7",
                    .isBeside = true,
                    .isLaplace = true,
                    .bound = 2.5,
                    .sensitivity = 1e6,
                    .cost = 0.1,
                    .exponent = -20,
                    .scale = 1 << 24,
                    .coordinates = 1,
                    .result = 0,
                    .tables = {1}},
                   {.what = "gradient of 2 tensors",
                    .op = "dot",
                    .location = "",
                    .bound = 1,
                    .sensitivity = 2e6,
                    .cost = 0.5,
                    .exponent = -21,
                    .scale = 1 << 21,
                    .coordinates = 12,
                    .result = std::nullopt,
                    .tables = {1, 2}}};
  verdict.coins = {{CoinInfo::Kind::draw, {Element::i64, {12}}, 90, 8, 0, 0},
                   {CoinInfo::Kind::laplace, {Element::i64, {}}, 0, 0, 1 << 24, 0},
                   {CoinInfo::Kind::gaussian, {Element::i64, {3, 4}}, 0, 0, 1 << 21, 1}};
  verdict.results = {{true, false, std::vector<unsigned>{}}, {false, true, std::nullopt}};
  verdict.notes = {"the loss's divisor became 8", ""};
  verdict.isSampled = verdict.spendsInStep = true;
  verdict.operations = 1'000;
  verdict.memory = {300, 20, 3};
  verdict.listMemory = {250, 60, 0};
  verdict.moduleDigest.fill(0xA5);
  return verdict;
}

/// What is said of the example after one change.
std::string saidOf(llvm::function_ref<void(Verdict &)> change) {
  Verdict verdict = example();
  change(verdict);
  auto read = readVerdict(writeVerdict(verdict), program());
  return read ? "" : textOf(read.takeError());
}

} // namespace

TEST(Verdicts, ComeBackFromBytes) {
  const Verdict verdict = example();
  auto read = readVerdict(writeVerdict(verdict), program());
  ASSERT_TRUE(bool(read)) << textOf(read.takeError());
  EXPECT_TRUE(*read == verdict);
  EXPECT_EQ(read->runBytes(1), 323u);
  EXPECT_EQ(read->runBytes(4), 490u) << "the lists' programs take more on many threads";
  Verdict least;
  least.results.resize(2);
  auto again = readVerdict(writeVerdict(least), program());
  ASSERT_TRUE(bool(again)) << textOf(again.takeError());
  EXPECT_TRUE(*again == least);
}

TEST(Verdicts, RefusalsStandAlone) {
  Verdict verdict;
  verdict.refusal = {7, "the value depends on one row", "sum", "train.py:4"};
  auto read = readVerdict(writeVerdict(verdict), program());
  ASSERT_TRUE(bool(read)) << textOf(read.takeError());
  EXPECT_TRUE(*read == verdict);
  verdict.refusal->message = "";
  EXPECT_NE(textOf(readVerdict(writeVerdict(verdict), program()).takeError()).find("a refusal without a reason"),
            std::string::npos);
  EXPECT_EQ(saidOf([](Verdict &verdict) {
              verdict.refusal = {7, "no", "", ""};
            }),
            "the verdict on a program is malformed: a refusal beside results, charges, releases, coins or notes");
}

TEST(Verdicts, EachBrokenRuleIsRefused) {
  auto expectSaid = [&](llvm::function_ref<void(Verdict &)> change, const std::string &text) {
    EXPECT_EQ(saidOf(change), text.empty() ? "" : "the verdict on a program is malformed: " + text);
  };
  const std::string unpaid = "release 0 is not paid by each of its tables";
  expectSaid([](Verdict &) {}, "");
  expectSaid([](Verdict &verdict) { verdict.results.pop_back(); }, "1 results, the program has 2");
  expectSaid([](Verdict &verdict) { verdict.charges[0].argument = 0; },
             "charge 0 is of argument 0, expected a table without another charge, and each divergence");
  expectSaid([](Verdict &verdict) { verdict.charges.push_back(verdict.charges[0]); },
             "charge 2 is of argument 1, expected a table without another charge, and each divergence");
  expectSaid([](Verdict &verdict) { verdict.charges.clear(); }, unpaid);
  expectSaid([](Verdict &verdict) { verdict.charges[0].beside = {}; }, unpaid);
  expectSaid([](Verdict &verdict) { std::swap(verdict.charges[0].argument, verdict.charges[1].argument); }, unpaid);
  expectSaid([](Verdict &verdict) { verdict.charges[0].beside.rdp[0] = 0; }, ""); // a difference of rounded costs
  for (double number : {0.0, -1.0, 0x1p63, std::nan("")}) {
    expectSaid([&](Verdict &verdict) { verdict.sites[0].sensitivity = number; },
               "release 0 has an invalid bound, sensitivity, cost or noise");
  }
  expectSaid([](Verdict &verdict) { verdict.sites[0].coordinates = -1; },
             "release 0 has an invalid bound, sensitivity, cost or noise");
  expectSaid([](Verdict &verdict) { verdict.sites[0].exponent = 1'001; },
             "release 0 has an invalid bound, sensitivity, cost or noise");
  expectSaid([](Verdict &verdict) { verdict.sites[0].what = std::string(70'000, 'a'); },
             "release 0 has too long a text");
  expectSaid([](Verdict &verdict) { verdict.sites[0].op = std::string(70'000, 'a'); }, "release 0 has too long a text");
  expectSaid([](Verdict &verdict) { verdict.coins[2].type.dims.assign(17, 1); }, "coin 2 has kind 1 and rank 17");
  expectSaid([](Verdict &verdict) { verdict.charges.pop_back(); }, "release 1 is not paid by each of its tables");
  expectSaid([](Verdict &verdict) { verdict.charges[0].step = {}; }, "release 1 is not paid by each of its tables");
  expectSaid([](Verdict &verdict) { verdict.sites[0].tables.clear(); }, unpaid);
  expectSaid([](Verdict &verdict) { verdict.sites[0].tables = {0, 1}; }, unpaid);
  expectSaid([](Verdict &verdict) { verdict.sites[0].tables = {1, 1}; }, unpaid);
  expectSaid([](Verdict &verdict) { verdict.sites[0].tables = {77}; }, unpaid);
  expectSaid([](Verdict &verdict) { verdict.sites[0].tables.assign(65, 1); }, "release 0 is paid by 65 tables");
  for (unsigned result : {1u, 2u, UINT32_MAX}) {
    expectSaid([&](Verdict &verdict) { verdict.sites[0].result = result; },
               "release 0 is of result " + std::to_string(result) + ", expected a published one or none (-1)");
  }
  for (double number : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    expectSaid([&](Verdict &verdict) { verdict.sites[0].cost = number; },
               std::isinf(number) ? "" : "release 0 has an invalid bound, sensitivity, cost or noise");
    expectSaid([&](Verdict &verdict) { verdict.sites[0].bound = number; },
               "release 0 has an invalid bound, sensitivity, cost or noise");
  }
  expectSaid([](Verdict &verdict) { verdict.sites[0].scale = verdict.coins[1].scale = 0; },
             "release 0 has an invalid bound, sensitivity, cost or noise");
  for (auto [site, coin, scale] : {std::tuple(0, 1, (int64_t{1} << 48) + 1), {1, 2, (int64_t{1} << 22) + 1}}) {
    expectSaid([&](Verdict &verdict) { verdict.sites[site].scale = verdict.coins[coin].scale = scale; },
               "release " + std::to_string(site) + " has an invalid bound, sensitivity, cost or noise");
  }
  expectSaid([](Verdict &verdict) { verdict.sites[0].exponent = INT64_MIN; },
             "release 0 has an invalid bound, sensitivity, cost or noise");
  expectSaid([](Verdict &verdict) { verdict.sites[0].location = std::string(70'000, 'a'); },
             "release 0 has too long a text");
  expectSaid([](Verdict &verdict) { verdict.coins[1].scale = 5; },
             "coin 1 is noise of release 0 of 2, expected its kind and scale");
  expectSaid([](Verdict &verdict) { verdict.coins[1].kind = CoinInfo::Kind::gaussian; },
             "coin 1 is noise of release 0 of 2, expected its kind and scale");
  expectSaid([](Verdict &verdict) { verdict.coins[2].site = 2; },
             "coin 2 is noise of release 2 of 2, expected its kind and scale");
  expectSaid([](Verdict &verdict) { verdict.coins[0].kind = static_cast<CoinInfo::Kind>(9); },
             "coin 0 has kind 9 and rank 1");
  expectSaid([](Verdict &verdict) { verdict.coins[0].expected = 91; }, "coin 0 draws 91 of 90 rows into 12 slots");
  expectSaid([](Verdict &verdict) { verdict.coins[0].expected = -1; }, "coin 0 draws -1 of 90 rows into 12 slots");
  expectSaid([](Verdict &verdict) { verdict.coins[0].expected = 13; }, "coin 0 draws 13 of 90 rows into 12 slots");
  expectSaid([](Verdict &verdict) { verdict.coins[0].type.dims = {(int64_t{1} << 26) + 1}; },
             "coin 0 draws 8 of 90 rows into 67108865 slots");
  expectSaid([](Verdict &verdict) { verdict.memory.arena = 199; }, "200 bytes of coins in a run of 199");
  expectSaid([](Verdict &verdict) { verdict.results[0].isTainted = true; },
             "result 0 would be released with rows that no noise covers");
  const std::string otherwise = "its releases and draws are other than it says";
  expectSaid([](Verdict &verdict) { verdict.spendsInStep = false; }, otherwise);
  expectSaid([](Verdict &verdict) { verdict.coins.erase(verdict.coins.begin()); }, otherwise);
  expectSaid([](Verdict &verdict) { verdict.coins[0].type.dims = {-2}; }, "coin 0 has size -2");
  expectSaid(
      [](Verdict &verdict) {
        verdict.coins[2].type.dims = {int64_t{1} << 20, int64_t{1} << 20};
      },
      "coin 2 has size 1048576");
  expectSaid(
      [](Verdict &verdict) {
        verdict.results[1].tables = {2, 1};
      },
      "result 1 holds arguments that are not tables, or not ascending");
  expectSaid([](Verdict &verdict) { verdict.notes[0] = std::string(70'000, 'a'); }, "note 0 is too long");
  expectSaid([](Verdict &verdict) { verdict.notes.assign(200'000, ""); },
             "2 charges, 2 releases, 3 coins and 200000 notes");
}

/// Notes that share one text are as long as their number says.
TEST(Verdicts, TextsThatShareTheirBytes) {
  Verdict verdict = example();
  verdict.notes.assign(1'100, std::string(64'000, 'a'));
  auto read = readVerdict(writeVerdict(verdict), program());
  ASSERT_FALSE(bool(read));
  EXPECT_EQ(textOf(read.takeError()), "the verdict on a program is malformed: note 1048 is too long");
}

TEST(Verdicts, BytesThatWereChanged) {
  const std::string bytes = writeVerdict(example());
  const ProgramFacts facts = program();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int value : {0, 1, 127, 128, 255}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(value);
      auto read = readVerdict(changed, facts);
      if (!read) {
        EXPECT_TRUE(textOf(read.takeError()).starts_with("the verdict on a program is malformed: ")) << at;
        continue;
      }
      auto twice = readVerdict(writeVerdict(*read), facts);
      ASSERT_TRUE(bool(twice)) << textOf(twice.takeError());
      EXPECT_TRUE(*twice == *read) << at;
    }
    auto cut = readVerdict(llvm::StringRef(bytes).take_front(at), facts);
    ASSERT_FALSE(bool(cut)) << at;
    llvm::consumeError(cut.takeError());
  }
}
