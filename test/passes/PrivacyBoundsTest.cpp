// SPDX-License-Identifier: Apache-2.0
// Goal: what a stranger's program may make the owner's privacy passes work ends at their bounds, and not before.
// Method: programs just within a bound and just beyond it, whose work is counted by hand.

#include "dialect/CoreForm.h"
#include "dialect/LayoutOps.h"
#include "passes/privacy/Middle.h"
#include "passes/privacy/Privacy.h"
#include "test/dialect/Context.h"

#include "mlir/IR/Diagnostics.h"
#include <gtest/gtest.h>

using namespace sojourn;

namespace {

const std::string kTable = "%t: !sojourn.table<9, \"a\": f64> {sojourn.kind = \"table\"}";
const std::string kRead = R"(
    %i = sojourn.iota dim = 0 : tensor<8xi64>
    %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<8xi64> -> tensor<8xf64>
)";

std::string join(const std::vector<std::string> &parts) {
  std::string text;
  for (const std::string &part : parts) {
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

class PrivacyBounds : public ::testing::Test {
protected:
  mlir::func::FuncOp parse(const std::string &arguments, const std::string &results, const std::string &body) {
    module = context.parse(
        "module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\n  func.func @step(" +
        arguments + ") -> (" + results + ") {" + kRead + body + "  }\n}\n");
    if (!module) {
      ADD_FAILURE() << "the program does not parse";
      return {};
    }
    return module->lookupSymbol<mlir::func::FuncOp>(kStepName);
  }

  static RowInputs inputsOf(mlir::func::FuncOp step) {
    RowInputs inputs = RowInputs::ofStep(step);
    EXPECT_TRUE(mlir::succeeded(parseBounds(step, {"a=-1:3"}, inputs)));
    return inputs;
  }

  /// Per result whether its standard error is known. `body` computes from %n, a sum with noise; `values`, of `type`,
  /// are published.
  std::vector<bool> knownErrors(const std::string &body, const std::vector<std::string> &values,
                                const std::string &type) {
    std::string released = R"(
    %c = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
    ^bb0(%x0: tensor<8xf64>):
      %s = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
      sojourn.yield %s : tensor<f64>
    }
    %n = sojourn.noise "gaussian" (%c) coins (%coin), exponent = -20, scale = 1048577 {sojourn.site = 0 : i64}
      : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
)";
    std::vector<std::string> types(values.size(), type),
        results(values.size(), type + " {sojourn.result = \"publish\"}");
    auto step = parse(kTable + ", %coin: tensor<i64> {sojourn.kind = \"coin\"}", join(results),
                      released + body + "    return " + join(values) + " : " + join(types) + "\n");
    if (!step) {
      return {};
    }
    PrivacyPlan plan;
    plan.sites.push_back(
        ReleaseSite{.what = "a sum", .op = "reduce_sum", .result = std::nullopt, .location = step.getLoc()});
    rows::Analysis analysis;
    EXPECT_TRUE(mlir::succeeded(provePrivacy(step, inputsOf(step), analysis, plan)));
    std::vector<bool> known;
    for (const auto &form : plan.forms) {
      known.push_back(form.has_value());
    }
    return known;
  }

  /// What is said of a step that updates a weight so often, one update after the other, beside as many other ops; empty
  /// where it is taken.
  std::string refusalOf(size_t updates, size_t others = 0) {
    std::string body, weight = "%w", other = "%k";
    for (size_t k = 0; k < updates; ++k) {
      std::string at = std::to_string(k);
      body += "    %b" + at + " = sojourn.broadcast " + weight + ", dims = [] : tensor<f64> -> tensor<8xf64>\n";
      body += "    %h" + at + " = sojourn.mul %x, %b" + at + " : tensor<8xf64>, tensor<8xf64>\n";
      body += "    %g" + at + " = sojourn.reduce_sum %h" + at + ", dims = [0] : tensor<8xf64>\n";
      body += "    %w" + at + " = sojourn.sub " + weight + ", %g" + at + " : tensor<f64>, tensor<f64>\n";
      weight = "%w" + at;
    }
    for (size_t k = 0; k < others; ++k) {
      std::string next = "%k" + std::to_string(k);
      body += "    " + next + " = sojourn.neg " + other + " : tensor<f64>\n";
      other = next;
    }
    auto step =
        parse("%w: tensor<f64> {sojourn.kind = \"state\"}, %k: tensor<f64> {sojourn.kind = \"slot\"}, " + kTable,
              "tensor<f64> {sojourn.result = \"commit\", sojourn.target = 0}, tensor<f64> {sojourn.result = "
              "\"publish\"}",
              body + "    return " + weight + ", " + other + " : tensor<f64>, tensor<f64>\n");
    if (!step) {
      return "no program";
    }
    return saidOf(step);
  }

  /// What is said of a step; empty where it is taken.
  std::string saidOf(mlir::func::FuncOp step) {
    std::string said;
    mlir::ScopedDiagnosticHandler handler(&context.context, [&](mlir::Diagnostic &diagnostic) {
      said += diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error ? diagnostic.str() + "\n" : "";
      return mlir::success();
    });
    bool isTaken = mlir::succeeded(rewriteForPrivacy(step, inputsOf(step), PrivacyOptions()));
    EXPECT_EQ(isTaken, said.empty()) << said;
    return said;
  }

  test::Context context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Sums of columns of many widths are made of parts, three concatenations for each sum, as long as the budget lasts.
TEST_F(PrivacyBounds, ColumnsThatAreTakenOneByOne) {
  constexpr size_t kColumns = 64, kSums = 300;
  std::string body, sums;
  std::vector<std::string> columns, types, values, valueTypes, results;
  for (size_t k = 0; k < kColumns; ++k) {
    std::string at = std::to_string(k);
    body += "    %f" + at + " = sojourn.constant " + std::to_string(k + 1) + ".0 : f64\n";
    body += "    %m" + at + " = sojourn.mul %x, %f" + at + " : tensor<8xf64>, tensor<f64>\n";
    body += "    %c" + at + " = sojourn.reshape %m" + at + " : tensor<8xf64> -> tensor<8x1xf64>\n";
    columns.push_back("%c" + at);
    types.push_back("tensor<8x1xf64>");
  }
  body += "    %wide = sojourn.concat " + join(columns) + " dim = 1 : " + join(types) + "\n";
  for (size_t k = 0; k < kSums; ++k) {
    std::string sum = "%s" + std::to_string(k);
    body += "    " + sum + " = sojourn.reduce_sum %wide, dims = [0] : tensor<8x64xf64>\n";
    values.push_back(sum);
    valueTypes.push_back("tensor<64xf64>");
    results.push_back("tensor<64xf64> {sojourn.result = \"publish\"}");
  }
  auto step = parse(kTable, join(results), body + "    return " + join(values) + " : " + join(valueTypes) + "\n");
  ASSERT_TRUE(step);
  ASSERT_TRUE(mlir::succeeded(rewriteForPrivacy(step, inputsOf(step), PrivacyOptions())));
  size_t found = 0;
  step.walk([&](ConcatOp) { ++found; });
  EXPECT_EQ(found, 1 + 3 * (ColumnBudget().left / kColumns));
}

} // namespace

TEST_F(PrivacyBounds, PlacesOfAllStandardErrors) {
  // Eight ops, each with a place for 2^13 elements; of all values together 2^21 may be noted: those of 32 values.
  std::string vector = "tensor<8192xf64>",
              body = "    %v0 = sojourn.broadcast %n, dims = [] : tensor<f64> -> " + vector;
  for (int k = 1; k < 8; ++k) {
    body +=
        "\n    %v" + std::to_string(k) + " = sojourn.reverse %v" + std::to_string(k - 1) + ", dims = [0] : " + vector;
  }
  std::vector<bool> expected(40, true);
  std::fill(expected.begin() + 32, expected.end(), false);
  EXPECT_EQ(knownErrors(body + "\n", std::vector<std::string>(40, "%v7"), vector), expected);
}

TEST_F(PrivacyBounds, VisitsOfAllStandardErrors) {
  // A chain of 1000 ops on the noise: each is looked at before its operand and after it, the noise once. 2^20 looks are
  // enough for 524 values, and not for a small one behind them.
  std::string body;
  for (int k = 0; k < 1000; ++k) {
    body += "    %v" + std::to_string(k) + " = sojourn.neg " + (k ? "%v" + std::to_string(k - 1) : "%n") +
            " : tensor<f64>\n";
  }
  std::vector<std::string> values(524, "%v999");
  EXPECT_EQ(knownErrors(body, values, "tensor<f64>"), std::vector<bool>(524, true));
  values.insert(values.end(), {"%v999", "%n"});
  std::vector<bool> expected(526, true);
  expected[524] = expected[525] = false;
  EXPECT_EQ(knownErrors(body, values, "tensor<f64>"), expected);
}

TEST_F(PrivacyBounds, UpdatesOneAfterTheOther) {
  EXPECT_EQ(refusalOf(64), "");
  EXPECT_EQ(refusalOf(65), "the step updates its weights 64 times, one update after the other, too many to analyse; "
                           "split it\n");
  EXPECT_EQ(refusalOf(80), refusalOf(65));
}

/// A rewrite that is stopped ends before its next round.
TEST_F(PrivacyBounds, RewritesThatAreStopped) {
  auto step = parse(kTable, "tensor<f64> {sojourn.result = \"publish\"}",
                    "    %s = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>\n    return %s : tensor<f64>\n");
  ASSERT_TRUE(step);
  PrivacyOptions options;
  options.isStopped = [] { return true; };
  mlir::ScopedDiagnosticHandler handler(&context.context, [](mlir::Diagnostic &diagnostic) {
    ADD_FAILURE() << diagnostic.str();
    return mlir::success();
  });
  EXPECT_TRUE(mlir::failed(rewriteForPrivacy(step, inputsOf(step), options)));
}

/// Many sums and many results are a lot of work, whatever reaches what.
TEST_F(PrivacyBounds, SumsTimesResults) {
  auto said = [&](size_t count) {
    std::string body;
    std::vector<std::string> values, types(count, "tensor<f64>"),
        results(count, "tensor<f64> {sojourn.result = \"publish\"}");
    for (size_t k = 0; k < count; ++k) {
      const std::string at = std::to_string(k);
      body += "    %f" + at + " = sojourn.constant " + at + ".0 : f64\n";
      body += "    %m" + at + " = sojourn.mul %x, %f" + at + " : tensor<8xf64>, tensor<f64>\n";
      body += "    %s" + at + " = sojourn.reduce_sum %m" + at + ", dims = [0] : tensor<8xf64>\n";
      values.push_back("%s" + at);
    }
    return saidOf(parse(kTable, join(results), body + "    return " + join(values) + " : " + join(types) + "\n"));
  };
  EXPECT_EQ(said(100), "");
  EXPECT_EQ(said(2'897), "the step is too large to be made private: it has 2897 sums over rows and 2897 results; split "
                         "it\n");
}

TEST_F(PrivacyBounds, OpsThatUpdatesAnalyseAgain) {
  // Each update analyses the step anew: 2^19 ops in all are those of 25 times 20,700.
  EXPECT_EQ(refusalOf(20, 20'500), "");
  EXPECT_EQ(refusalOf(40, 20'500), "the step updates its weights 26 times, one update after the other, too many to "
                                   "analyse; split it\n");
  EXPECT_EQ(refusalOf(40, 100), "") << "without them 40 are few";
}
