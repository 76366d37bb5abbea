// SPDX-License-Identifier: Apache-2.0
// Goal: the walls behind the row analysis hold where the analysis is wrong. Method: each is given what a broken
// analysis would let through: results that rows reach, lists that name rows twice, rows beyond the ranges that were
// proved.
#include "PrivacyLayers.h"

#include "dialect/CoreForm.h"
#include "dialect/OwnerOps.h"
#include "dialect/RowOps.h"
#include "passes/privacy/RowLists.h"
#include "passes/privacy/SecondReading.h"
#include "passes/privacy/Taint.h"

#include "llvm/Support/FormatVariadic.h"

#include <functional>
#include <set>

using namespace sojourn;
using namespace sojourn::runtime;
using namespace sojourn::test;

// --- What rows and draws can reach
// --------------------------------------------------------------------------------------

TEST_F(PrivacyLayers, ResultsThatRowsReachAreTainted) {
  std::string draw = "  %d = sojourn.sample_rows %i, %seed, %seed of %t, expected = 2" + kOrder;
  auto step = parse(
      kSeed + ", %s: tensor<8xf64> {sojourn.kind = \"state\"}, " + kTableArgument + ", %o: " + kTable +
          " {sojourn.kind = \"table\"}, %coin: tensor<i64> {sojourn.kind = \"coin\"}",
      kept("tensor<8xf64>") + ", " + kept("tensor<8xi64>") + ", " + kept("tensor<8xf64>") + ", " + kept("tensor<f64>") +
          ", " + kept("tensor<8xf64>") + ", " + kept("tensor<8xf64>") + ", " + kept("tensor<0xf64>") + ", " +
          kept("tensor<8xf64>") + ", " + kept("tensor<i64>"),
      draw + read("x", "i", "a") + read("y", "i", "a", "f64", "o") + read("z", "d", "a", "f64", "o") +
          "  %one = sojourn.constant 1.0 : f64\n  %m = sojourn.mul %x, %one : tensor<8xf64>, tensor<f64>\n"
          "  %c = sojourn.clipped_sum \"flat\" rows %i, bounds = [1.0], norm = 2 (%m) : tensor<8xi64>, (tensor<8xf64>) "
          "-> tensor<f64> {\n  ^bb0(%b: tensor<8xf64>):\n    %r = sojourn.reduce_sum %b, dims = [0] : tensor<8xf64>\n"
          "    sojourn.yield %r : tensor<f64>\n  }\n"
          "  %n = sojourn.noise \"gaussian\" (%c) coins (%coin), exponent = -20, scale = 1048577 : (tensor<f64>), "
          "(tensor<i64>) -> (tensor<f64>)\n"
          "  %e = sojourn.slice %x, start = [0], limit = [0], stride = [1] : tensor<8xf64>\n"
          "  %u = sojourn.mul %y, %n : tensor<8xf64>, tensor<f64>\n"
          "  return %m, %d, %z, %n, %s, %y, %e, %u, %coin : tensor<8xf64>, tensor<8xi64>, tensor<8xf64>, tensor<f64>, "
          "tensor<8xf64>, tensor<8xf64>, tensor<0xf64>, tensor<8xf64>, tensor<i64>\n");
  RowInputs inputs = RowInputs::ofStep(step);
  inputs.arguments[1].isPublic = false;        // the state
  inputs.arguments[3].table.isPrivate = false; // %o
  // Of rows; the draw; an open table read at it; noise; a private state; an open table; no element; open values times a
  // released one; a coin that leaves.
  EXPECT_EQ(taintedResults(step, inputs),
            (std::vector<bool>{true, true, true, false, true, false, false, false, true}));
  inputs.arguments.resize(1); // what is not known is private
  EXPECT_EQ(taintedResults(step, inputs), (std::vector<bool>{true, true, true, false, true, true, false, true, true}));
}

// --- Lists of rows
// -------------------------------------------------------------------------------------------------------

TEST_F(PrivacyLayers, ListsAreKnownWithTheProgramTheMessageOrTheRun) {
  auto step = parse("%u: tensor<8xi64> {sojourn.kind = \"upload\"}, " + kSeed + ", " + kTableArgument,
                    kept("tensor<8xf64>") + ", " + kept("tensor<8xf64>") + ", " + kept("tensor<8xf64>") + ", " +
                        kept("tensor<8xf64>") + ", " + kept("tensor<8xf64>"),
                    "  %two = sojourn.constant 2 : i64\n  %h = sojourn.div %i, %two : tensor<8xi64>, tensor<i64>\n"
                    "  %o = sojourn.sample_rows %i, %seed, %seed of %t" +
                        kOrder + "  %d = sojourn.sample_rows %i, %seed, %seed of %t, expected = 2" + kOrder +
                        read("k", "i", "k", "i64") + read("a", "h", "a") + read("b", "u", "a") + read("c", "o", "a") +
                        read("e", "d", "a") + read("f", "k", "a") +
                        "  return %a, %b, %c, %e, %f : tensor<8xf64>, tensor<8xf64>, tensor<8xf64>, tensor<8xf64>, "
                        "tensor<8xf64>\n");
  RowInputs inputs = RowInputs::ofStep(step);
  GivenRows eight({{"a", std::vector<double>(8)}});
  auto resultsOf = [&](ListTime time) {
    auto program = rowListsProgram(step, inputs, time);
    if (!program) {
      return std::vector<std::vector<double>>();
    }
    auto executable = Executable::create(*program);
    EXPECT_TRUE(bool(executable)) << llvm::toString(executable.takeError());
    std::vector<Binding> bindings;
    if (time == ListTime::Message) {
      bindings = sojourn::test::bindWith(**executable, [](Element) { return 5; });
      bindings.back().table = &eight;
    }
    auto lists = (*executable)->run(bindings);
    EXPECT_TRUE(bool(lists)) << llvm::toString(lists.takeError());
    std::vector<std::vector<double>> numbers;
    for (const HostTensor &list : *lists) {
      numbers.push_back(sojourn::test::numbersOf(list));
    }
    return numbers;
  };
  auto fixed = resultsOf(ListTime::Plan), sent = resultsOf(ListTime::Message);
  ASSERT_EQ(fixed.size(), 2u); // iota, and halves of it
  EXPECT_EQ(fixed[1], (std::vector<double>{0, 0, 1, 1, 2, 2, 3, 3}));
  ASSERT_EQ(sent.size(), 2u); // the upload, and an order by a seed
  EXPECT_EQ(sent[0], std::vector<double>(8, 5));
  EXPECT_EQ(std::set<double>(sent[1].begin(), sent[1].end()).size(), 8u);
  // The draw, and rows chosen by rows.
  guardRowLists(step, inputs);
  std::set<std::string> guarded;
  int reads = 0;
  step.walk([&](ReadRowsOp op) {
    ++reads;
    if (auto once = op.getIndices().getDefiningOp<FirstRowsOp>()) {
      guarded.insert(once.getRows().getDefiningOp()->getName().stripDialect().str());
    }
  });
  EXPECT_EQ(reads, 6);
  EXPECT_EQ(guarded, (std::set<std::string>{"sample_rows", "read_rows"}));
  // A state that is not public may hold anything.
  auto again = parse("%u: tensor<8xi64> {sojourn.kind = \"state\"}, " + kTableArgument, kept("tensor<8xf64>"),
                     read("b", "u", "a") + "  return %b : tensor<8xf64>\n");
  inputs = RowInputs::ofStep(again);
  inputs.arguments[0].isPublic = false;
  EXPECT_FALSE(rowListsProgram(again, inputs, ListTime::Message));
  guardRowLists(again, inputs);
  EXPECT_EQ(std::distance(again.getOps<FirstRowsOp>().begin(), again.getOps<FirstRowsOp>().end()), 1);
}

// What the gate's constants make known is checked ahead, what they do not is guarded: no list is in neither hand.
TEST_F(PrivacyLayers, ListsThatConstantsMakeKnownAreChecked) {
  std::string body = read("x", "i", "a") +
                     "  %two = sojourn.constant 2.0 : f64\n  %m = sojourn.max %x, %two : tensor<8xf64>, tensor<f64>\n"
                     "  %c = sojourn.convert %m : tensor<8xf64> -> tensor<8xi64>\n"
                     "  %r = sojourn.reduce_max %c, dims = [0] : tensor<8xi64>\n"
                     "  %l = sojourn.add %i, %r : tensor<8xi64>, tensor<i64>\n" +
                     read("y", "l", "a") +
                     "  %s = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>\n"
                     "  return %s : tensor<f64>\n";
  auto step = parse(kTableArgument, "tensor<f64> {sojourn.result = \"publish\"}", body);
  RowInputs inputs = RowInputs::ofStep(step);
  ASSERT_TRUE(mlir::succeeded(parseBounds(step, {"a=0:1"}, inputs)));
  PrivacyOptions options;
  options.publishes[0].rho = 0.5;
  auto plan = makePrivate(*module, inputs, options);
  ASSERT_TRUE(mlir::succeeded(plan));
  ASSERT_TRUE(plan->fixedLists);
  auto executable = Executable::create(*plan->fixedLists);
  ASSERT_TRUE(bool(executable)) << llvm::toString(executable.takeError());
  auto lists = (*executable)->run({});
  ASSERT_TRUE(bool(lists)) << llvm::toString(lists.takeError());
  std::set<std::vector<double>> found;
  for (const HostTensor &list : *lists) {
    found.insert(sojourn::test::numbersOf(list));
  }
  EXPECT_TRUE(found.count({2, 3, 4, 5, 6, 7, 8, 9}));
}

namespace {

std::vector<int64_t> randomList(std::mt19937 &random, size_t most) {
  static constexpr int64_t kEnds[] = {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), -1, 0};
  std::vector<int64_t> rows(random() % (most + 1));
  int64_t span = 1 + static_cast<int64_t>(random() % (4 * most));
  for (int64_t &row : rows) {
    row = random() % 8 == 0 ? kEnds[random() % 4]
                            : static_cast<int64_t>(random()) % span - static_cast<int64_t>(random() % 2);
  }
  if (random() % 3 == 0) {
    std::iota(rows.begin(), rows.end(), static_cast<int64_t>(random() % 5) - 2);
  }
  return rows;
}

} // namespace

TEST_F(PrivacyLayers, ARowThatIsNamedTwiceIsFound) {
  unsigned seed = sojourn::test::testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  int twice = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> rows = randomList(random, 24);
    std::set<int64_t> seen;
    bool expected = false;
    for (int64_t row : rows) {
      expected |= row >= 0 && !seen.insert(row).second;
    }
    EXPECT_EQ(namesRowTwice(rows), expected);
    twice += expected;
  }
  EXPECT_GT(twice, 100);
  EXPECT_LT(twice, 1900);
  // Longer than one piece of the sort: a permutation, then one row of it again.
  std::vector<int64_t> rows((size_t{5} << 20) + random() % 1000);
  std::iota(rows.begin(), rows.end(), 0);
  std::shuffle(rows.begin(), rows.end(), random);
  EXPECT_EQ(namesRowTwice(rows), false);
  rows.push_back(rows[1]);
  EXPECT_EQ(namesRowTwice(rows), true);
  EXPECT_EQ(namesRowTwice(rows, [] { return true; }), std::nullopt);
}

TEST_F(PrivacyLayers, FirstRowsKeepsTheFirstOfEach) {
  unsigned seed = sojourn::test::testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> rows = randomList(random, round < 200 ? 40 : 700), expected = rows;
    std::set<int64_t> seen;
    for (int64_t &row : expected) {
      row = seen.insert(row).second ? row : -1;
    }
    std::string type = "tensor<" + std::to_string(rows.size()) + "xi64>";
    auto text = context.parse("module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\n"
                              "func.func @step(%x: " +
                              type + " {sojourn.kind = \"coin\"}) -> (" + type +
                              " {sojourn.result = \"keep\"}) {\n  %y = sojourn.first_rows %x : " + type +
                              "\n  return %y : " + type + "\n}\n}");
    ASSERT_TRUE(text);
    ASSERT_TRUE(mlir::succeeded(verifyCoreFormWithCoins(*text)));
    mlir::ScopedDiagnosticHandler silent(&context.context, [](mlir::Diagnostic &) { return mlir::success(); });
    ASSERT_TRUE(mlir::failed(verifyCoreForm(*text))) << "a client may send it";
    auto executable = Executable::create(*text);
    ASSERT_TRUE(bool(executable)) << llvm::toString(executable.takeError());
    Binding binding;
    binding.tensor = {(*executable)->args()[0].type, BufferPool::global().allocate(rows.size() * 8)};
    std::copy(rows.begin(), rows.end(), static_cast<int64_t *>(binding.tensor.buffer->data()));
    auto values = (*executable)->run({binding});
    ASSERT_TRUE(bool(values)) << llvm::toString(values.takeError());
    const auto *found = static_cast<const int64_t *>((*values)[0].buffer->data());
    EXPECT_EQ(std::vector<int64_t>(found, found + rows.size()), expected);
  }
}

// --- Which slot a value belongs to
// ---------------------------------------------------------------------------------------

// The facts of an honest step, one of them changed as a wrong rule would: the second reading contradicts.
TEST_F(PrivacyLayers, AMistakenSlotIsSeen) {
  std::string sum =
      "  %y = sojourn.reshape %x : tensor<8xf64> -> tensor<8x1xf64>\n  %z = sojourn.broadcast %y, dims = [0, "
      "2] : tensor<8x1xf64> -> tensor<8x3x1xf64>\n  %v = sojourn.tanh %z : tensor<8x3x1xf64>\n"
      "  %c = sojourn.clipped_sum \"flat\" rows %i, bounds = [1.0], norm = 2 (%v) : tensor<8xi64>, "
      "(tensor<8x3x1xf64>) -> tensor<3x1xf64> {\n  ^bb0(%b: tensor<8x3x1xf64>):\n    %r = "
      "sojourn.reduce_sum %b, dims = [0] : tensor<8x3x1xf64>\n    sojourn.yield %r : tensor<3x1xf64>\n  }\n"
      "  %n = sojourn.noise \"gaussian\" (%c) coins (%coin), exponent = -20, scale = 1048577 : "
      "(tensor<3x1xf64>), (tensor<3x1xi64>) -> (tensor<3x1xf64>)\n  return %n : tensor<3x1xf64>\n";
  auto step = parse(kTableArgument + ", %coin: tensor<3x1xi64> {sojourn.kind = \"coin\"}", kept("tensor<3x1xf64>"),
                    read("x", "i", "a") + sum);
  RowInputs inputs = RowInputs::ofStep(step);
  mlir::ScopedDiagnosticHandler silent(&context.context, [](mlir::Diagnostic &) { return mlir::success(); });
  auto facts = [&] {
    rows::Analysis analysis;
    analyseRows(step, inputs, analysis);
    return analysis;
  };
  rows::Analysis honest = facts();
  auto read = readAgain(step, inputs, honest);
  ASSERT_TRUE(mlir::succeeded(read));
  EXPECT_GE(read->agreed, 6u);
  EXPECT_TRUE(read->unread.empty());
  std::vector<std::function<void(rows::Fact &)>> mistakes = {
      [](rows::Fact &fact) { fact = rows::Fact::publicValue(); },
      [](rows::Fact &fact) { fact.rows.first += 1; },
      [](rows::Fact &fact) { fact.rows.step = 2; },
      [](rows::Fact &fact) { fact.rows.slots = 4; },
      [](rows::Fact &fact) { fact.kind = rows::Kind::Sum; },
  };
  int seen = 0;
  for (mlir::Operation &op : step.getBody().front()) {
    if (op.getNumResults() != 1 || !honest.factOf(op.getResult(0)).isPerRow()) {
      continue;
    }
    for (const auto &mistake : mistakes) {
      rows::Analysis wrong = facts();
      rows::Fact &fact = wrong.facts[op.getResult(0)];
      fact.cuts = wrong.intern({0});
      mistake(fact);
      EXPECT_TRUE(mlir::failed(readAgain(step, inputs, wrong))) << op.getName().getStringRef().str();
      ++seen;
    }
  }
  EXPECT_EQ(seen, 20);
}
