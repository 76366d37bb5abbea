// SPDX-License-Identifier: Apache-2.0
// Goal: the walls behind the row analysis hold where the analysis is wrong. Method: each is given what a broken
// analysis would let through: results that rows reach, lists that name rows twice, rows beyond the ranges that were
// proved.
#include "passes/privacy/Privacy.h"
#include "passes/privacy/RowLists.h"
#include "passes/privacy/SecondReading.h"
#include "passes/privacy/Taint.h"
#include "runtime/Execute.h"
#include "test/dialect/Context.h"
#include "test/runtime/Programs.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <functional>
#include <limits>
#include <set>

using namespace sojourn;
using namespace sojourn::runtime;

namespace {

const std::string kTable = "!sojourn.table<8, \"a\": f64, \"b\": f64, \"k\": i64>";
const std::string kTableArgument = "%t: " + kTable + " {sojourn.kind = \"table\"}";
const std::string kSeed = "%seed: tensor<i64> {sojourn.kind = \"seed\"}";
const std::string kOrder = "(tensor<8xi64>, tensor<i64>, tensor<i64>) -> tensor<8xi64>\n";

std::string read(const std::string &name, const std::string &list, const std::string &column,
                 const std::string &type = "f64", const std::string &table = "t") {
  return "  %" + name + " = sojourn.read_rows %" + table + ", %" + list + ", columns = [\"" + column +
         "\"] : " + kTable + ", tensor<8xi64> -> tensor<8x" + type + ">\n";
}

std::string moduleText(const std::string &arguments, const std::string &results, const std::string &body) {
  return "module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\nfunc.func @step(" + arguments +
         ") -> (" + results + ") {\n  %i = sojourn.iota dim = 0 : tensor<8xi64>\n" + body + "}\n}\n";
}

struct PrivacyLayers : testing::Test {
  sojourn::test::Context context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp parse(const std::string &arguments, const std::string &results, const std::string &body) {
    module = context.parse(moduleText(arguments, results, body));
    EXPECT_TRUE(module) << body;
    return module ? module->lookupSymbol<mlir::func::FuncOp>(kStepName) : mlir::func::FuncOp();
  }
};

std::string kept(const std::string &type) { return type + " {sojourn.result = \"keep\"}"; }

/// Rows as doubles, whatever bounds were declared for them.
class GivenRows final : public RowSource {
public:
  explicit GivenRows(std::map<std::string, std::vector<double>> columns) : columns(std::move(columns)) {}
  int64_t rows() const override { return static_cast<int64_t>(columns.begin()->second.size()); }
  void readRows(llvm::ArrayRef<std::string> names, llvm::ArrayRef<int64_t> indices, Element element,
                void *out) const override {
    for (size_t at = 0; at < indices.size(); ++at) {
      double value =
          indices[at] < 0 || indices[at] >= rows() ? 0 : columns.at(names[0])[static_cast<size_t>(indices[at])];
      convertElements(Element::f64, &value, element, static_cast<char *>(out) + at * byteWidth(element), 1);
    }
  }
  std::map<std::string, std::vector<double>> columns;
};

/// Rows of two numbers each.
class GivenTokens final : public RowSource {
public:
  explicit GivenTokens(std::vector<double> values) : values(std::move(values)) {}
  int64_t rows() const override { return static_cast<int64_t>(values.size()) / 2; }
  void readRows(llvm::ArrayRef<std::string>, llvm::ArrayRef<int64_t> indices, Element, void *out) const override {
    auto *to = static_cast<double *>(out);
    for (int64_t row : indices) {
      for (int64_t k = 0; k < 2; ++k) {
        *to++ = row < 0 || row >= rows() ? 0 : values[static_cast<size_t>(2 * row + k)];
      }
    }
  }
  std::vector<double> values;
};

} // namespace

// --- What rows and draws can reach
// --------------------------------------------------------------------------------------

TEST_F(PrivacyLayers, ResultsThatRowsReachAreTainted) {
  std::string draw = "  %d = sojourn.sample_rows %i, %seed, %seed, rows = 8, expected = 2 : " + kOrder;
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
                    "  %o = sojourn.sample_rows %i, %seed, %seed, rows = 8 : " +
                        kOrder + "  %d = sojourn.sample_rows %i, %seed, %seed, rows = 8, expected = 2 : " + kOrder +
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

// --- Sums that are clipped
// -----------------------------------------------------------------------------------------------

namespace {

/// A step and how it is released: of a published %s, or a commit of %s onto the trained state %w.
struct Clipped {
  std::string body, type;
  bool isTrained = false;
  double bound = 1;
};

std::string scaledRows(const std::string &name, const std::string &by, int tokens) {
  std::string rows = "tensor<4x" + std::to_string(tokens) + "xf64>";
  return "  %c" + name + " = sojourn.constant " + by + " : f64\n  %p" + name +
         " = sojourn.slice %r, start = [0, 0], limit = [4, " + std::to_string(tokens) +
         "], stride = [1, 1] : tensor<4x2xf64>\n  %q" + name + " = sojourn.mul %p" + name + ", %c" + name + " : " +
         rows + ", tensor<f64>\n  %" + name + " = sojourn.reshape %q" + name + " : " + rows + " -> tensor<4x" +
         std::to_string(tokens) + "x1xf64>\n";
}
/// Products of the same rows by two factors, summed over [4 slots, tokens]: one or two of them per slot.
std::string products(const std::string &a, const std::string &b, int tokens) {
  std::string rows = "tensor<4x" + std::to_string(tokens) + "x1xf64>";
  return scaledRows("y", a, tokens) + scaledRows("z", b, tokens) +
         "  %s = sojourn.dot %y, %z, lhs_batch = [], rhs_batch = [], lhs_contract = [0, 1], rhs_contract = [0, 1] : " +
         rows + ", " + rows + " -> tensor<1x1xf64>\n";
}

} // namespace

// Squares of 1e-170 are 0 in f64: a row of such numbers had no norm, and was not clipped.
TEST_F(PrivacyLayers, ClippedSumsStayClippedWhereSquaresUnderflow) {
  unsigned seed = sojourn::test::testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  std::string rows =
      "  %j = sojourn.iota dim = 0 : tensor<4xi64>\n  %r = sojourn.read_rows %t, %j, columns = [\"v\"] : "
      "!sojourn.table<4, \"v\": 2xf64>, tensor<4xi64> -> tensor<4x2xf64>\n  %x = sojourn.reshape %r : "
      "tensor<4x2xf64> -> tensor<8xf64>\n";
  std::vector<Clipped> cases;
  for (const auto &[a, b] : {std::pair<std::string, std::string>{"1.0e-163", "1.0e153"},
                             {"1.0e-200", "1.0e190"},
                             {"1.0e-310", "1.0e300"},
                             {"4.0e-308", "1.0e307"},
                             {"1.0e-150", "1.0e-150"}}) {
    for (int tokens : {1, 2}) {
      cases.push_back({products(a, b, tokens), "tensor<1x1xf64>", true, 1e-12});
      cases.push_back({products(a, b, tokens), "tensor<1x1xf64>", false, 1e-20});
    }
  }
  // Factors near 2^-574, which would take operands of 2^-500 below the normal numbers. Rounding up there was not seen.
  for (int exponent : {888, 889, 890, 891}) {
    std::string large = llvm::formatv("{0:e17}", std::ldexp(1.0, exponent)).str();
    cases.push_back({products("3.1e-151", large, 1), "tensor<1x1xf64>", true, std::ldexp(1.41, -175)});
  }
  for (const char *scale : {"1.0e-170", "1.0e-300", "5.0e-324", "1.0e-160"}) {
    // The bound is divided by what stands behind the sum.
    cases.push_back(
        {"  %c = sojourn.constant " + std::string(scale) +
             " : f64\n  %k = sojourn.constant 1.0e110 : f64\n  %y = sojourn.mul %x, %c : tensor<8xf64>, "
             "tensor<f64>\n  %q = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>\n  %s = sojourn.mul %q, %k "
             ": tensor<f64>, tensor<f64>\n",
         "tensor<f64>"});
  }
  for (const Clipped &each : cases) {
    SCOPED_TRACE(each.body);
    auto step =
        parse("%w: " + each.type +
                  " {sojourn.kind = \"state\"}, %t: !sojourn.table<4, \"v\": 2xf64> "
                  "{sojourn.kind = \"table\"}",
              each.type + (each.isTrained ? " {sojourn.result = \"commit\", sojourn.target = 0 : i64, sojourn.trained}"
                                          : " {sojourn.result = \"publish\"}"),
              rows + each.body + "  return %s : " + each.type + "\n");
    PrivacyOptions options;
    options.clip = each.bound;
    options.lossIsMean = false;
    options.publishes[0].rho = 0.5;
    options.publishes[0].bound = each.bound;
    auto plan = makePrivate(*module, RowInputs::ofStep(step), options);
    ASSERT_TRUE(mlir::succeeded(plan));
    double most = plan->sites.at(0).sensitivity;
    auto executable = Executable::create(*module);
    ASSERT_TRUE(bool(executable)) << llvm::toString(executable.takeError());
    // The result is units of the grid times powers of two and the factor behind: what no noise gives of one row alone.
    for (int round = 0; round < 40; ++round) {
      GivenTokens with{std::vector<double>(8)}, without{std::vector<double>(8)};
      size_t row = random() % 4;
      for (size_t k = 0; k < 8; ++k) {
        without.values[k] = std::ldexp(1.0 + static_cast<double>(random() % 8), static_cast<int>(random() % 12)) *
                            (random() % 2 ? 1 : -1);
        with.values[k] = without.values[k];
      }
      without.values[2 * row] = without.values[2 * row + 1] = 0;
      auto unitsOf = [&](const GivenTokens &table) {
        auto bindings = sojourn::test::bindWith(**executable, [](Element) { return 0; });
        for (auto [binding, spec] : llvm::zip(bindings, (*executable)->args())) {
          binding.table = spec.kind == StepArg::Table ? &table : nullptr;
        }
        auto values = (*executable)->run(bindings);
        EXPECT_TRUE(bool(values)) << llvm::toString(values.takeError());
        return sojourn::test::numbersOf((*values)[0]).at(0);
      };
      double factor = each.type == "tensor<f64>" ? 1e110 : 1; // behind the noise
      double moved =
          std::ldexp(std::abs(unitsOf(with) - unitsOf(without)) / factor, -static_cast<int>(plan->sites[0].exponent));
      EXPECT_LE(moved, most * (1 + 1e-9));
    }
  }
}

// --- Sums that nobody clips
// ----------------------------------------------------------------------------------------------

namespace {

/// A step whose one release is bounded by ranges: its body makes %s of `type`.
struct Bounded {
  std::string body, type = "tensor<f64>";
};

const std::vector<Bounded> kBounded = {
    {read("x", "i", "a") + "  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>\n"},
    {read("x", "i", "a", "f32") +
     "  %q = sojourn.reduce_sum %x, dims = [0] : tensor<8xf32>\n  %s = sojourn.convert %q : "
     "tensor<f32> -> tensor<f64>\n"},
    {read("x", "i", "a") + read("y", "i", "b") +
     "  %s = sojourn.dot %x, %y, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : "
     "tensor<8xf64>, "
     "tensor<8xf64> -> tensor<f64>\n"},
    {read("x", "i", "a") + read("k", "i", "k", "i64") +
         "  %zero = sojourn.constant 0.0 : f64\n  %z = sojourn.broadcast %zero, dims = [] : tensor<f64> -> "
         "tensor<4xf64>\n"
         "  %s = sojourn.put \"add\" %z, %k, %x, dim = 0 : tensor<4xf64>, tensor<8xi64>, tensor<8xf64>\n",
     "tensor<4xf64>"},
    // A rule that takes `ge` for `eq` would say that one element of a row is not zero.
    {read("k", "i", "k", "i64") + read("a", "i", "a") +
         "  %ramp = sojourn.iota dim = 1 : tensor<8x4xi64>\n  %wide = sojourn.broadcast %k, dims = [0] : tensor<8xi64> "
         "-> tensor<8x4xi64>\n  %h = sojourn.compare \"ge\" %wide, %ramp : tensor<8x4xi64>, tensor<8x4xi64>\n"
         "  %x = sojourn.convert %h : tensor<8x4xi1> -> tensor<8x4xf64>\n"
         "  %each = sojourn.broadcast %a, dims = [0] : tensor<8xf64> -> tensor<8x4xf64>\n"
         "  %y = sojourn.mul %x, %each : tensor<8x4xf64>, tensor<8x4xf64>\n"
         "  %s = sojourn.reduce_sum %y, dims = [0] : tensor<8x4xf64>\n",
     "tensor<4xf64>"},
    {read("k", "i", "k", "i64") +
     "  %q = sojourn.reduce_sum %k, dims = [0] : tensor<8xi64>\n  %s = sojourn.convert %q : "
     "tensor<i64> -> tensor<f64>\n"},
};

} // namespace

// Ranges that are false, as those of a wrong rule would be: rows are infinite, NaN and huge where at most 1 was proved.
TEST_F(PrivacyLayers, UnclippedSumsAreClampedToWhatWasProved) {
  const double kInfinity = std::numeric_limits<double>::infinity(), kNone = std::nan("");
  const double hostile[] = {kInfinity, -kInfinity, kNone, 1.7e308, -1.7e308, 3e38, 1e6, 2, -2, 1, 0, 0.5, -1};
  unsigned seed = sojourn::test::testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  for (const Bounded &each : kBounded) {
    SCOPED_TRACE(each.body);
    auto step = parse(kTableArgument, each.type + " {sojourn.result = \"publish\"}",
                      each.body + "  return %s : " + each.type + "\n");
    RowInputs inputs = RowInputs::ofStep(step);
    ASSERT_TRUE(mlir::succeeded(parseBounds(step, {"a=-1:1", "b=-1:1", "k=-3:3"}, inputs)));
    PrivacyOptions options;
    options.publishes[0].rho = 0.5;
    auto plan = makePrivate(*module, inputs, options);
    ASSERT_TRUE(mlir::succeeded(plan));
    ASSERT_EQ(plan->sites.size(), 1u);
    // In units of the grid: what one row moves by being away. The middle of all ranges is 0, what such a row counts as.
    const ReleaseSite &site = plan->sites[0];
    double most = std::ldexp(site.sensitivity, static_cast<int>(site.exponent)) * (1 + 1e-9);
    auto executable = Executable::create(*module);
    ASSERT_TRUE(bool(executable)) << llvm::toString(executable.takeError());
    auto valueOf = [&](const GivenRows &rows) {
      auto bindings = sojourn::test::bindWith(**executable, [](Element) { return 0; }); // no noise
      for (auto [binding, spec] : llvm::zip(bindings, (*executable)->args())) {
        binding.table = spec.kind == StepArg::Table ? &rows : nullptr;
      }
      auto values = (*executable)->run(bindings);
      EXPECT_TRUE(bool(values)) << llvm::toString(values.takeError());
      return sojourn::test::numbersOf((*values)[0]);
    };
    for (int round = 0; round < 40; ++round) {
      std::map<std::string, std::vector<double>> columns;
      for (const char *name : {"a", "b", "k"}) {
        for (int row = 0; row < 8; ++row) {
          columns[name].push_back(name[0] == 'k' ? static_cast<double>(random() % 7) - 2 : hostile[random() % 13]);
        }
      }
      if (round % 2 == 0) { // the integers, too
        columns["k"][random() % 8] = 9e18;
      }
      GivenRows with(columns), without(columns);
      for (auto &[name, values] : without.columns) {
        values[3] = 0; // the null row
      }
      std::vector<double> a = valueOf(with), b = valueOf(without);
      double moved = 0;
      for (size_t k = 0; k < a.size(); ++k) {
        EXPECT_TRUE(std::isfinite(a[k])) << k;
        moved = std::hypot(moved, a[k] - b[k]);
      }
      EXPECT_LE(moved, most);
    }
  }
}
