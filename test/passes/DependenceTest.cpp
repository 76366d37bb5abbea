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
    auto summary = DependenceSummary::compute(*module, reason);
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
    summary = DependenceSummary::compute(*context.parse(randomProgram(dice, 3, 9, 4).text), reason);
  }
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->resultCount(), 4u);
}

TEST(Dependence, EqualSetsAreOne) {
  Context context;
  std::string head, returned, types, kinds;
  for (int i = 0; i < 300; ++i) {
    std::string comma = i > 0 ? ", " : "";
    head += comma + "%a" + std::to_string(i) + ": tensor<f32>";
    returned += comma + "%s";
    types += comma + "tensor<f32>";
  }
  std::string body = "    %v0 = sojourn.neg %a0 : tensor<f32>\n";
  for (int i = 1; i < 300; ++i) {
    body += "    %v" + std::to_string(i) + " = sojourn.add %v" + std::to_string(i - 1) + ", %a" + std::to_string(i) +
            " : tensor<f32>, tensor<f32>\n";
  }
  body += "    %s = sojourn.neg %v299 : tensor<f32>\n";
  auto module = context.parse("func.func @step(" + head + ") -> (" + types + ") {\n" + body + "    return " + returned +
                              " : " + types + "\n}\n");
  ASSERT_TRUE(module);
  std::string reason;
  auto summary = DependenceSummary::compute(*module, reason);
  ASSERT_TRUE(summary) << reason;
  EXPECT_EQ(summary->argumentsOf(299).size(), 300u);
  EXPECT_LT(summary->bytes(), 4096u); // 300 sets of 300 bits would take 11 KB.
}

TEST(Dependence, RefusesWhatHasNoStraightLine) {
  Context context;
  std::string reason;
  auto module = context.parse("module {}");
  EXPECT_FALSE(DependenceSummary::compute(*module, reason));
  EXPECT_EQ(reason, "the module has no straight-line function @step");
}

} // namespace
