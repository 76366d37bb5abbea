// SPDX-License-Identifier: Apache-2.0
// The core-form predicate: one good module, and each rule broken once, told by its message.
#include "dialect/CoreForm.h"
#include "dialect/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <string>

namespace {

/// "" for a module in core form, otherwise the message of its first error.
std::string verdict(const std::string &text) {
  mlir::MLIRContext context;
  sojourn::loadDialects(context);
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    if (message.empty()) {
      message = diagnostic.str();
    }
    return mlir::success();
  });
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module) {
    return "does not parse: " + message;
  }
  bool good = mlir::succeeded(sojourn::verifyCoreForm(*module));
  EXPECT_EQ(good, message.empty());
  return message;
}

const char *const kModule = R"(module attributes {sojourn.promotion = "torch"} {
  func.func @step(%w: tensor<2xf32> {sojourn.kind = "state"}, %x: tensor<2xf32> {sojourn.kind = "upload"},
                  %lr: tensor<f64> {sojourn.kind = "slot"}, %seed: tensor<i64> {sojourn.kind = "seed"},
                  %rows: !sojourn.table<5, "a" : f64> {sojourn.kind = "table"})
      -> (tensor<2xf32> {sojourn.result = "keep"}, tensor<2xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}) {
    %0 = sojourn.add %w, %x : tensor<2xf32>, tensor<2xf32>
    return %0, %0 : tensor<2xf32>, tensor<2xf32>
  }
})";

/// The good module with the first occurrence of `from` replaced.
std::string with(const std::string &from, const std::string &to) {
  std::string text = kModule;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(CoreForm, AcceptsAWholeStep) { EXPECT_EQ(verdict(kModule), ""); }

TEST(CoreForm, ModuleMustSayItsPromotion) {
  EXPECT_EQ(verdict(with("attributes {sojourn.promotion = \"torch\"}", "")),
            "'builtin.module' op has no sojourn.promotion, expected \"torch\" or \"numpy\"");
  EXPECT_EQ(verdict(with("\"torch\"", "\"julia\"")),
            "does not parse: 'builtin.module' op sojourn.promotion is \"julia\", expected \"torch\" or \"numpy\"");
}

TEST(CoreForm, OneFunctionNamedStep) {
  EXPECT_EQ(verdict("module attributes {sojourn.promotion = \"torch\"} {}"),
            "'builtin.module' op has no function @step");
  EXPECT_EQ(verdict(with("@step", "@main")), "'builtin.module' op has no function @step");
  EXPECT_EQ(verdict(with("{\n  func.func @step", "{\n  func.func private @other()\n  func.func @step")),
            "'func.func' op is next to @step, expected one function and nothing else");
  EXPECT_EQ(verdict("module attributes {sojourn.promotion = \"torch\"} { func.func private @step() }"),
            "'func.func' op has 0 blocks, expected one");
}

TEST(CoreForm, ArgumentsHaveKindsInOrder) {
  EXPECT_EQ(verdict(with(" {sojourn.kind = \"upload\"}", "")),
            "'func.func' op argument #1 has no sojourn.kind, expected state, upload, slot, seed or table");
  EXPECT_EQ(verdict(with("\"state\"", "\"slot\"")),
            "'func.func' op argument #0 of kind slot has type 'tensor<2xf32>', expected tensor<f64>, tensor<i64> or "
            "tensor<i1>");
  EXPECT_EQ(verdict(with("\"upload\"", "\"state\"")), "");
  EXPECT_EQ(verdict(with("%lr: tensor<f64> {sojourn.kind = \"slot\"}", "%lr: tensor<f64> {sojourn.kind = \"state\"}")),
            "'func.func' op argument #2 is of kind state after one of kind upload, expected states, uploads, slots, "
            "seeds, tables");
  EXPECT_EQ(verdict(with("%seed: tensor<i64>", "%seed: tensor<1xi64>")),
            "'func.func' op argument #3 of kind seed has type 'tensor<1xi64>', expected tensor<i64>");
  EXPECT_EQ(verdict(with("!sojourn.table<5, \"a\" : f64>", "tensor<5xf64>")),
            "'func.func' op argument #4 of kind table has type 'tensor<5xf64>', expected !sojourn.table");
  EXPECT_EQ(
      verdict(with("%lr: tensor<f64>", "%lr: !sojourn.scalar<f64>")),
      "'func.func' op argument #2 of kind slot has type '!sojourn.scalar<f64>', expected tensor<f64>, tensor<i64> or "
      "tensor<i1>");
}

TEST(CoreForm, ResultsSayWhatBecomesOfThem) {
  EXPECT_EQ(verdict(with(" {sojourn.result = \"keep\"}", "")),
            "'func.func' op result #0 has no sojourn.result, expected commit, keep or publish");
  EXPECT_EQ(verdict(with("\"keep\"", "\"keep\", sojourn.target = 0 : i64")),
            "'func.func' op result #0 of kind keep has sojourn.target, expected it only on commits");
  EXPECT_EQ(verdict(with("\"keep\"", "\"publish\"")), "");
}

TEST(CoreForm, CommitsGoToDistinctStatesOfTheirType) {
  EXPECT_EQ(verdict(with(", sojourn.target = 0 : i64", "")),
            "'func.func' op result #1 is a commit without sojourn.target, expected the index of a state");
  for (const char *target : {"1", "5", "-1", "9223372036854775807"}) {
    EXPECT_EQ(verdict(with("sojourn.target = 0", std::string("sojourn.target = ") + target)),
              std::string("'func.func' op result #1 commits to argument ") + target + ", expected a state");
  }
  EXPECT_EQ(verdict(with("\"keep\"", "\"commit\", sojourn.target = 0 : i64")),
            "'func.func' op argument 0 is committed twice, again by result #1");
  EXPECT_EQ(verdict(R"(module attributes {sojourn.promotion = "torch"} {
    func.func @step(%w: tensor<2xf32> {sojourn.kind = "state"}, %x: tensor<3xf32> {sojourn.kind = "upload"})
        -> (tensor<3xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}) {
      return %x : tensor<3xf32>
    }
  })"),
            "'func.func' op result #0 has type 'tensor<3xf32>' and commits to argument 0 of type 'tensor<2xf32>', "
            "expected equal types");
}

TEST(CoreForm, BodyHoldsCoreOpsOnly) {
  EXPECT_EQ(verdict(with("%0 = sojourn.add %w, %x : tensor<2xf32>, tensor<2xf32>",
                         "%0 = sojourn.aten \"aten.relu\"(%w) {args = [#sojourn.operand<0>], names = [\"self\"]} : "
                         "(tensor<2xf32>) -> tensor<2xf32>")),
            "'sojourn.aten' op is not an op of core form");
  EXPECT_EQ(verdict(with("%0 = sojourn.add", "%r = sojourn.alloc %w : tensor<2xf32> -> !sojourn.ref<2xf32>\n"
                                             "%0 = sojourn.add")),
            "'sojourn.alloc' op is not an op of core form");
}

} // namespace
