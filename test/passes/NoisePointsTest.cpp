// SPDX-License-Identifier: Apache-2.0
// Goal: noise is added where chains of sums end, found in time that grows with the program alone. Method: random
// programs of sums against a walk from each sum, and programs of a client that wants the owner to work.

#include "passes/Rows.h"
#include "test/dialect/Context.h"
#include "test/runtime/Programs.h"

#include <ctime>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace sojourn;

namespace {

double processorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class NoisePoints : public ::testing::Test {
protected:
  /// Appends `%name = op`, of numbers.
  void add(const std::string &name, const std::string &op, const std::vector<std::string> &operands) {
    body += "    %" + name + " = sojourn." + op;
    for (size_t k = 0; k < operands.size(); ++k) {
      body += (k ? ", %" : " %") + operands[k];
    }
    body += operands.size() > 1 ? " : tensor<f64>, tensor<f64>\n" : " : tensor<f64>\n";
  }
  void addSum(const std::string &name) {
    body += "    %" + name + " = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>\n";
  }

  /// Parses the step that publishes these values, and analyses it.
  void analyse(const std::vector<std::string> &published) {
    std::string results, values, types;
    for (const std::string &value : published) {
      results += (results.empty() ? "" : ", ") + std::string("tensor<f64> {sojourn.result = \"publish\"}");
      values += (values.empty() ? "%" : ", %") + value;
      types += (types.empty() ? "" : ", ") + std::string("tensor<f64>");
    }
    module = context.parse(R"(module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%t: !sojourn.table<9, "a": f64> {sojourn.kind = "table"}) -> ()" +
                           results + R"() {
    %i = sojourn.iota dim = 0 : tensor<8xi64>
    %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<8xi64> -> tensor<8xf64>
)" + body + "    return " + values +
                           " : " + types + "\n  }\n}\n");
    ASSERT_TRUE(module) << "the program does not parse";
    step = module->lookupSymbol<mlir::func::FuncOp>(kStepName);
    RowInputs inputs = RowInputs::ofStep(step);
    ASSERT_TRUE(mlir::succeeded(parseBounds(step, {"a=-1:3"}, inputs)));
    analyseRows(step, inputs, analysis);
  }

  /// Per sum, in the order of the program, the op where its noise is added, by its number in the block.
  std::map<unsigned, mlir::Operation *> found() {
    std::map<unsigned, mlir::Operation *> ends;
    for (const NoisePoint &point : findNoisePoints(step, analysis)) {
      for (unsigned cut : point.cuts) {
        EXPECT_TRUE(ends.emplace(cut, point.value.getDefiningOp()).second) << "sum " << cut << " is at two points";
      }
    }
    return ends;
  }

  test::Context context;
  std::string body;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp step;
  rows::Analysis analysis;
};

} // namespace

TEST_F(NoisePoints, ChainsOf512Ops) {
  for (int length : {0, 1, 2, 255, 511, 512, 513, 1300}) {
    body.clear();
    analysis = {};
    addSum("v0");
    for (int k = 0; k < length; ++k) {
      add("v" + std::to_string(k + 1), "neg", {"v" + std::to_string(k)});
    }
    analyse({"v" + std::to_string(length)});
    mlir::Operation *expected = analysis.cuts().front().op;
    for (int k = 0; k < std::min(length, 512); ++k) {
      expected = *expected->user_begin();
    }
    EXPECT_EQ(found(), (std::map<unsigned, mlir::Operation *>{{0, expected}})) << length;
  }
}

/// Sums and sums of sums, each used by none, one or two others: a chain ends at a value that several use.
TEST_F(NoisePoints, RandomProgramsOfSums) {
  const unsigned seed = test::testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  auto below = [&](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
  for (int round = 0; round < 40; ++round) {
    body.clear();
    analysis = {};
    std::vector<std::string> unused, all;
    const size_t ops = 3 + below(60);
    for (size_t k = 0; k < ops; ++k) {
      const std::string name = "v" + std::to_string(k);
      auto take = [&] {
        if (below(10) == 0) {
          return all[below(all.size())];
        }
        const size_t at = below(unused.size());
        std::string taken = unused[at];
        unused.erase(unused.begin() + static_cast<std::ptrdiff_t>(at));
        return taken;
      };
      const size_t kind = below(3);
      if (unused.size() < 2 || kind == 0) {
        addSum(name);
      } else if (kind == 1) {
        add(name, "neg", {take()});
      } else {
        const std::string a = take();
        add(name, below(2) ? "add" : "sub", {a, take()});
      }
      unused.push_back(name);
      all.push_back(name);
    }
    analyse(unused);

    llvm::DenseSet<mlir::Operation *> plain;
    auto onlyUser = [&](mlir::Operation *op) {
      llvm::SmallPtrSet<mlir::Operation *, 4> users(op->user_begin(), op->user_end());
      return users.size() == 1 ? *users.begin() : nullptr;
    };
    for (mlir::Operation &op : step.getBody().front()) {
      const bool isSum = llvm::any_of(analysis.cuts(), [&](const rows::Cut &cut) { return cut.op == &op; });
      const bool adds = op.getNumOperands() > 0 && op.getNumResults() == 1 &&
                        llvm::all_of(op.getOperands(), [&](mlir::Value operand) {
                          mlir::Operation *maker = operand.getDefiningOp();
                          return maker && plain.contains(maker) && onlyUser(maker) == &op;
                        });
      if (isSum || adds) {
        plain.insert(&op);
      }
    }
    std::map<unsigned, mlir::Operation *> expected;
    for (auto [number, cut] : llvm::enumerate(analysis.cuts())) {
      mlir::Operation *end = cut.op;
      while (mlir::Operation *user = onlyUser(end)) {
        if (!plain.contains(user)) {
          break;
        }
        end = user;
      }
      expected[static_cast<unsigned>(number)] = end;
    }
    EXPECT_EQ(found(), expected) << body;
  }
}

/// Sums that are added in pairs, pairs of pairs and so on, and a long chain behind the last: each sum has the same end.
TEST_F(NoisePoints, ManySumsWithOneEnd) {
  constexpr size_t kSums = 32'768;
  std::vector<std::string> level;
  for (size_t k = 0; k < kSums; ++k) {
    level.push_back("s" + std::to_string(k));
    addSum(level.back());
  }
  for (size_t next = 0; level.size() > 1;) {
    std::vector<std::string> above;
    for (size_t k = 0; k + 1 < level.size(); k += 2) {
      above.push_back("p" + std::to_string(next++));
      add(above.back(), "add", {level[k], level[k + 1]});
    }
    level = std::move(above);
  }
  for (int k = 0; k < 600; ++k) {
    const std::string name = "n" + std::to_string(k);
    add(name, "neg", {level.front()});
    level.front() = name;
  }
  const double start = processorSeconds();
  analyse(level);
  const double before = processorSeconds();
  EXPECT_EQ(findNoisePoints(step, analysis).size(), 1U);
  EXPECT_LT(processorSeconds() - before, 0.6 * (before - start)) << "each sum walks the chain by itself";
}

/// A sum with many users, none of which reaches a result.
TEST_F(NoisePoints, ManyUsersThatNoResultNeeds) {
  addSum("v");
  for (int k = 0; k < 30'000; ++k) {
    add("n" + std::to_string(k), "neg", {"v"});
  }
  analyse({"v"});
  const double before = processorSeconds();
  EXPECT_EQ(findNoisePoints(step, analysis).size(), 1U);
  EXPECT_LT(processorSeconds() - before, 1) << "each user asks for all users";
}
