// SPDX-License-Identifier: Apache-2.0
// Goal: the gate alone refuses what must not leave, whatever was made of the program before. Method: programs written
// as a broken rewrite would leave them go to provePrivacy, which sees no rewrite.
#include "dialect/CoreForm.h"
#include "passes/privacy/Privacy.h"
#include "test/dialect/Context.h"

#include "mlir/IR/Diagnostics.h"
#include <gtest/gtest.h>

using namespace sojourn;

namespace {

const std::string kRead = R"(
    %i = sojourn.iota dim = 0 : tensor<8xi64>
    %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<8xi64> -> tensor<8xf64>
    %s = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
)";

/// A clipped sum with noise; `site` is what its attribute says.
std::string release(const std::string &name, const std::string &coin, const std::string &site) {
  return "%c" + name + R"( = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%x)
        : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
    ^bb0(%x0: tensor<8xf64>):
      %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
      sojourn.yield %a : tensor<f64>
    }
    %n)" +
         name + " = sojourn.noise \"gaussian\" (%c" + name + ") coins (%" + coin +
         "), exponent = -20, scale = 1048577" + site + " : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)\n";
}

class Gate : public ::testing::Test {
protected:
  /// Whether the step passes; `sites` releases are planned, states are public or not.
  bool passes(const std::string &arguments, const std::string &results, const std::string &body,
              const std::string &returned, size_t sites = 0, bool isPublicState = true) {
    mlir::ScopedDiagnosticHandler handler(&context.context, [this](mlir::Diagnostic &diagnostic) {
      said += diagnostic.str() + "\n";
      return mlir::success();
    });
    said.clear();
    module = context.parse(
        "module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\n  func.func @step(" +
        arguments + ") -> (" + results + ") {" + kRead + body + "    return " + returned + "\n  }\n}\n");
    if (!module) {
      ADD_FAILURE() << "the program does not parse: " << said;
      return false;
    }
    auto step = module->lookupSymbol<mlir::func::FuncOp>(kStepName);
    RowInputs inputs = RowInputs::ofStep(step);
    inputs.arguments[0].isPublic = inputs.arguments[0].isPublic && isPublicState;
    EXPECT_TRUE(mlir::succeeded(parseBounds(step, {"a=-1:3"}, inputs)));
    plan = PrivacyPlan();
    for (size_t k = 0; k < sites; ++k) {
      plan.sites.push_back(
          ReleaseSite{.what = "a sum", .op = "reduce_sum", .result = std::nullopt, .location = step.getLoc()});
    }
    rows::Analysis analysis;
    return mlir::succeeded(provePrivacy(step, inputs, analysis, plan));
  }

  test::Context context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  PrivacyPlan plan;
  std::string said;
};

const std::string kTable = "%t: !sojourn.table<9, \"a\": f64> {sojourn.kind = \"table\"}";
const std::string kState = "%w: tensor<f64> {sojourn.kind = \"state\"}, " + kTable;
const std::string kCoins =
    kTable + ", %d: tensor<i64> {sojourn.kind = \"coin\"}, %e: tensor<i64> {sojourn.kind = \"coin\"}";
const std::string kPublish = "tensor<f64> {sojourn.result = \"publish\"}";
const std::string kKeep = "tensor<f64> {sojourn.result = \"keep\"}";
const std::string kCommit = "tensor<f64> {sojourn.result = \"commit\", sojourn.target = 0}";

} // namespace

TEST_F(Gate, WhatIsPublishedIsReleased) {
  EXPECT_FALSE(passes(kTable, kPublish, "", "%s : tensor<f64>"));
  EXPECT_NE(said.find("result #0 would leave without noise: it is sum over rows"), std::string::npos) << said;
  EXPECT_FALSE(passes(kTable, kPublish, "    %e = sojourn.exp %s : tensor<f64>\n", "%e : tensor<f64>"));
  EXPECT_NE(said.find("it is derived from sums over rows"), std::string::npos) << said;
}

TEST_F(Gate, WhatIsCommittedIsReleasedOrStaysPrivate) {
  EXPECT_FALSE(passes(kState, kCommit, "", "%s : tensor<f64>"));
  EXPECT_NE(said.find("result #0 would leave without noise"), std::string::npos) << said;
  ASSERT_TRUE(passes(kState, kCommit, "", "%s : tensor<f64>", 0, /*isPublicState=*/false)) << said;
  EXPECT_EQ(plan.released, std::vector<bool>{false});
}

TEST_F(Gate, WhatIsKeptIsReleasedOnlyWithNoise) {
  std::string body = release("0", "d", " {sojourn.site = 0 : i64}");
  ASSERT_TRUE(passes(kCoins, kKeep + ", " + kKeep + ", " + kKeep, body + "    %z = sojourn.exp %n0 : tensor<f64>\n",
                     "%s, %n0, %z : tensor<f64>, tensor<f64>, tensor<f64>", 1))
      << said;
  EXPECT_EQ(plan.released, (std::vector<bool>{false, true, true}));
  ASSERT_EQ(plan.draws.size(), 1u);
  EXPECT_EQ(plan.draws[0].sites, std::vector<size_t>{0});
}

TEST_F(Gate, EveryReleaseIsPlannedOnce) {
  std::string one = " {sojourn.site = 0 : i64}", two = " {sojourn.site = 1 : i64}", returned = "%n0, %n1";
  std::string results = kPublish + ", " + kPublish;
  returned += " : tensor<f64>, tensor<f64>";
  EXPECT_TRUE(passes(kCoins, results, release("0", "d", one) + release("1", "e", two), returned, 2)) << said;
  // Two that pass for one, of which one would be paid.
  EXPECT_FALSE(passes(kCoins, results, release("0", "d", one) + release("1", "e", one), returned, 1));
  EXPECT_NE(said.find("2 releases are proved, 1 were planned"), std::string::npos) << said;
  EXPECT_FALSE(passes(kCoins, results, release("0", "d", one) + release("1", "e", two), returned, 3));
  EXPECT_NE(said.find("2 releases are proved, 3 were planned"), std::string::npos) << said;
  for (const std::string &site :
       {std::string(), std::string(" {sojourn.site = 2 : i64}"), std::string(" {sojourn.site = -1 : i64}")}) {
    EXPECT_FALSE(passes(kCoins, results, release("0", "d", one) + release("1", "e", site), returned, 2));
    EXPECT_NE(said.find("is an unplanned release"), std::string::npos) << said;
  }
}

TEST_F(Gate, WhatStaysHasTheLabelsOfItsDraws) {
  std::string arguments = "%seed: tensor<i64> {sojourn.kind = \"seed\"}, " + kTable +
                          ", %u: !sojourn.table<9, \"a\": f64> {sojourn.kind = \"table\"}";
  std::string draw = "sojourn.sample_rows %i, %seed, %seed of %u, expected = 3 : tensor<8xi64>, tensor<i64>, "
                     "tensor<i64>, !sojourn.table<9, \"a\": f64> -> tensor<8xi64>\n";
  std::string body = "    %j = " + draw + "    %k = " + draw +
                     "    %y = sojourn.read_rows %u, %j, columns = [\"a\"] : !sojourn.table<9, \"a\": f64>, "
                     "tensor<8xi64> -> tensor<8xf64>\n    %r = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>\n"
                     "    %both = sojourn.mul %s, %r : tensor<f64>, tensor<f64>\n"
                     "    %c = sojourn.cumsum %y, dim = 0 : tensor<8xf64>\n";
  std::string rows = "tensor<8xf64>", list = "tensor<8xi64>", number = "tensor<f64>";
  auto kept = [](const std::string &type) { return type + " {sojourn.result = \"keep\"}"; };
  std::string results, types;
  for (const std::string &type : {rows, rows, list, list, list, number, number, number, rows}) {
    results += (results.empty() ? "" : ", ") + kept(type);
    types += (types.empty() ? "" : ", ") + type;
  }
  ASSERT_TRUE(passes(arguments, results, body, "%x, %y, %i, %j, %k, %s, %r, %both, %c : " + types)) << said;
  using Tables = std::vector<unsigned>;
  // Rows by their draws; a public list; two draws, of which one reads no table; sums and what follows from them; mixed.
  std::vector<ResultTables> expected = {Tables{1}, Tables{2}, Tables{},     Tables{2},   Tables{1, 2},
                                        Tables{1}, Tables{2}, Tables{1, 2}, Tables{1, 2}};
  EXPECT_EQ(plan.tables, expected);
  EXPECT_EQ(plan.tainted, (std::vector<bool>{true, true, false, true, true, true, true, true, true}));
}

TEST_F(Gate, AReleaseIsPaidForByATable) {
  std::string draw =
      "    %k = sojourn.sample_rows %i, %seed, %seed of %t, expected = 3 : tensor<8xi64>, tensor<i64>, tensor<i64>, "
      "!sojourn.table<9, \"a\": f64> -> tensor<8xi64>\n    %f = sojourn.convert %k : tensor<8xi64> -> tensor<8xf64>\n";
  std::string body = release("0", "d", " {sojourn.site = 0 : i64}");
  for (const auto &[from, to] : {std::pair<std::string, std::string>{"rows %i", "rows %k"}, {"(%x)", "(%f)"}}) {
    body.replace(body.find(from), from.size(), to);
  }
  EXPECT_FALSE(
      passes("%seed: tensor<i64> {sojourn.kind = \"seed\"}, " + kTable + ", %d: tensor<i64> {sojourn.kind = \"coin\"}",
             kPublish, draw + body, "%n0 : tensor<f64>", 1));
  EXPECT_NE(said.find("at which no private table is read, so there is no budget to charge"), std::string::npos) << said;
}
