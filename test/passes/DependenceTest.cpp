// SPDX-License-Identifier: Apache-2.0
// Goal: the summary says of every result exactly the arguments it is computed from. Method: random programs, each
// compared with a set of arguments carried per value; then programs too large for such sets.
#include "passes/Dependence.h"

#include "test/dialect/Context.h"
#include "test/passes/RandomProgram.h"

#include <gtest/gtest.h>

using namespace sojourn;
using namespace sojourn::test;

namespace {

TEST(Dependence, IsThatOfSetsPerValue) {
  uint64_t seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 dice(seed);
  for (int round = 0; round < 60; ++round) {
    // Around the borders of a word of 64 arguments.
    size_t arguments = std::vector<size_t>{1, 2, 5, 63, 64, 65, 128, 130}[dice() % 8];
    RandomProgram program = randomProgram(dice, arguments, dice() % 120, 1 + dice() % 12);
    Context context;
    auto module = context.parse(program.text);
    ASSERT_TRUE(module) << program.text;
    std::string reason;
    auto summary = dependenceOf(*module, reason);
    ASSERT_TRUE(summary) << reason;
    ASSERT_EQ(summary->argumentCount(), arguments);
    ASSERT_EQ(summary->resultCount(), program.depends.size());
    for (size_t result = 0; result < program.depends.size(); ++result) {
      std::vector<size_t> found = summary->argumentsOf(result);
      EXPECT_EQ(std::set<size_t>(found.begin(), found.end()), program.depends[result])
          << "seed " << seed << ", result " << result << "\n"
          << program.text;
      EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
      for (size_t argument = 0; argument < arguments + 2; ++argument) {
        EXPECT_EQ(summary->dependsOn(result, argument), program.depends[result].count(argument) == 1);
      }
    }
  }
}

TEST(Dependence, OutlivesTheModule) {
  std::optional<DependenceSummary> summary;
  {
    Context context;
    std::mt19937_64 dice(7);
    std::string reason;
    summary = dependenceOf(*context.parse(randomProgram(dice, 3, 9, 4).text), reason);
  }
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->resultCount(), 4u);
}

/// Each result depends on its own arguments and on what all share, as in a training step: sets would take a bit per
/// argument and result.
TEST(Dependence, TakesMemoryInProportionToTheProgram) {
  constexpr int kStates = 4000;
  Context context;
  std::string head, body, sum = "%a0", returned, types;
  for (int i = 0; i < kStates; ++i) {
    std::string comma = i > 0 ? ", " : "", n = std::to_string(i);
    head += comma + "%a" + n + ": tensor<f32>";
    returned += comma + "%r" + n;
    types += comma + "tensor<f32>";
    body += "    %s" + n + " = sojourn.add " + sum + ", %a" + n + " : tensor<f32>, tensor<f32>\n";
    sum = "%s" + n;
  }
  for (int i = 0; i < kStates; ++i) {
    std::string n = std::to_string(i);
    body += "    %n" + n + " = sojourn.neg " + sum + " : tensor<f32>\n";
    body += "    %r" + n + " = sojourn.add %a" + n + ", %n" + n + " : tensor<f32>, tensor<f32>\n";
  }
  auto module = context.parse("func.func @step(" + head + ") -> (" + types + ") {\n" + body + "    return " + returned +
                              " : " + types + "\n}\n");
  ASSERT_TRUE(module);
  std::string reason;
  auto summary = dependenceOf(*module, reason);
  ASSERT_TRUE(summary) << reason;
  EXPECT_EQ(summary->argumentsOf(kStates - 1).size(), size_t{kStates});
  EXPECT_LT(summary->bytes(), size_t{kStates} * 64);
}

TEST(Dependence, GathersWhatArgumentsBring) {
  std::mt19937_64 dice(11);
  RandomProgram program = randomProgram(dice, 70, 200, 20);
  Context context;
  std::string reason;
  auto summary = dependenceOf(*context.parse(program.text), reason);
  ASSERT_TRUE(summary) << reason;
  std::vector<uint64_t> brought(70);
  for (uint64_t &word : brought) {
    word = dice();
  }
  std::vector<uint64_t> gathered = summary->gather(brought);
  ASSERT_EQ(gathered.size(), program.depends.size());
  for (size_t result = 0; result < gathered.size(); ++result) {
    uint64_t expected = 0;
    for (size_t argument : program.depends[result]) {
      expected |= brought[argument];
    }
    EXPECT_EQ(gathered[result], expected) << "result " << result;
  }
}

TEST(Dependence, RefusesWhatHasNoStraightLine) {
  Context context;
  std::string reason;
  auto module = context.parse("module {}");
  EXPECT_FALSE(dependenceOf(*module, reason));
  EXPECT_EQ(reason, "the module has no straight-line function @step");
}

} // namespace
