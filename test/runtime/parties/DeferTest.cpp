// SPDX-License-Identifier: Apache-2.0
// Factors that are moved behind sums (pass sojourn-defer-scales): the same values, and fewer exchanges.
#include "passes/Passes.h"
#include "passes/parties/Placement.h"
#include "test/runtime/Programs.h"
#include "test/runtime/parties/RandomStep.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

using namespace sojourn;
using namespace sojourn::runtime;
using namespace sojourn::test;

namespace {

unsigned exchangesOf(mlir::ModuleOp module) {
  return llvm::cantFail(llvm::Expected<unsigned>(
      (*parties::Placement::of(module.lookupSymbol<mlir::func::FuncOp>(kStepName)))->exchanges()));
}

mlir::OwningOpRef<mlir::ModuleOp> deferred(mlir::ModuleOp module) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = module.clone();
  mlir::PassManager manager(module.getContext());
  manager.addPass(createDeferScales());
  EXPECT_TRUE(mlir::succeeded(manager.run(*copy)) && mlir::succeeded(mlir::verify(*copy)));
  return copy;
}

std::vector<HostTensor> ran(mlir::ModuleOp module, const std::vector<Binding> &arguments) {
  return llvm::cantFail(llvm::cantFail(cpuEngine().prepare(module))->run(arguments, {.threads = 1}));
}

Binding tensorOf(const TensorType &type, llvm::function_ref<double()> number) {
  Binding binding{{type, BufferPool::global().allocate(type.bytes())}, nullptr};
  for (int64_t i = 0; i < type.numel(); ++i) {
    void *data = binding.tensor.buffer->data();
    if (type.element == Element::f64) {
      static_cast<double *>(data)[i] = number();
    } else {
      static_cast<int64_t *>(data)[i] = static_cast<int64_t>(number());
    }
  }
  return binding;
}

/// Numbers and factors are such that no operation rounds.
TEST(DeferScales, RandomStepsKeepTheirValues) {
  std::mt19937_64 dice = freshRandom();
  const char *wanted = std::getenv("SOJOURN_DEFERRED_PROGRAMS");
  const size_t programs = wanted ? std::strtoul(wanted, nullptr, 10) : 1'500;
  size_t fewer = 0;
  for (size_t i = 0; i < programs; ++i) {
    Context context;
    RandomStep made = randomStep(context.context, dice, 2 + dice() % 3, 4 + dice() % 16, /*isScaled=*/true);
    auto moved = deferred(*made.module);
    const unsigned before = exchangesOf(*made.module), after = exchangesOf(*moved);
    ASSERT_LE(after, before);
    std::string text, was;
    llvm::raw_string_ostream(text) << *moved;
    llvm::raw_string_ostream(was) << *made.module;
    if (after == before) {
      ASSERT_EQ(text, was) << "changed without a gain";
      continue;
    }
    ++fewer;
    SCOPED_TRACE("program " + std::to_string(i) + "\n" + was + text);
    std::vector<Binding> arguments;
    const auto code = llvm::cantFail(cpuEngine().prepare(*made.module));
    for (const ArgSpec &spec : code->args()) {
      arguments.push_back(tensorOf(
          spec.type, [&] { return static_cast<double>(std::uniform_int_distribution<int64_t>(-3, 4)(dice)); }));
    }
    const auto expected = ran(*made.module, arguments), found = ran(*moved, arguments);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t result = 0; result < found.size(); ++result) {
      ASSERT_EQ(numbersOf(found[result]), numbersOf(expected[result])) << "result #" << result;
    }
  }
  std::printf("%zu programs, %zu with fewer exchanges\n", programs, fewer);
  EXPECT_GT(fewer, programs / 20);
}

enum class Mask { Labels, Other, Both, None };

/// The gradient of a mean over rows that have labels, or, as no compiler would write it, with another mask than the one
/// that is counted.
std::string meanOfLabels(Mask mask) {
  const std::string scaled = mask == Mask::Other ? "%scaled = sojourn.div %z, %count : tensor<4xf64>, tensor<f64>"
                                                 : "%scaled = sojourn.div %ones, %count : tensor<4xf64>, tensor<f64>";
  const std::string masked =
      mask == Mask::None    ? "%m = sojourn.mul %scaled, %quarter : tensor<4xf64>, tensor<f64>"
      : mask == Mask::Both  ? "%l = sojourn.select %has, %scaled, %zero : tensor<4xi1>, tensor<4xf64>, tensor<f64>\n"
                              "  %m = sojourn.select %other, %l, %zero : tensor<4xi1>, tensor<4xf64>, tensor<f64>"
      : mask == Mask::Other ? "%m = sojourn.select %other, %scaled, %zero : tensor<4xi1>, tensor<4xf64>, tensor<f64>"
                            : "%m = sojourn.select %has, %scaled, %zero : tensor<4xi1>, tensor<4xf64>, tensor<f64>";
  return R"(
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<4x2xf64> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [1, 3], stride = 2>},
    %y: tensor<4xf64> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [1, 3], stride = 1>},
    %z: tensor<4xf64> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [1, 3], stride = 1>})
    -> (tensor<2xf64> {sojourn.result = "keep"}) {
  %zero = sojourn.constant 0.0 : f64
  %quarter = sojourn.constant 0.25 : f64
  %has = sojourn.compare "ne" %y, %zero : tensor<4xf64>, tensor<f64>
  %other = sojourn.compare "gt" %z, %zero : tensor<4xf64>, tensor<f64>
  %ones = sojourn.convert %has : tensor<4xi1> -> tensor<4xf64>
  %count = sojourn.reduce_sum %ones, dims = [0] : tensor<4xf64>
  )" + scaled +
         "\n  " + masked + R"(
  %g = sojourn.dot %m, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : tensor<4xf64>, tensor<4x2xf64> -> tensor<2xf64>
  return %g : tensor<2xf64>
}
})";
}

/// A batch without labels divides by zero: rows that are masked then give zeros, others no number, as without the pass.
TEST(DeferScales, FactorsThatAreNotFinite) {
  std::mt19937_64 dice = freshRandom();
  std::normal_distribution<double> normal;
  for (Mask mask : {Mask::Labels, Mask::Other, Mask::Both, Mask::None}) {
    Context context;
    auto module = context.parse(meanOfLabels(mask));
    ASSERT_TRUE(module);
    auto moved = deferred(*module);
    EXPECT_EQ(exchangesOf(*module), 2u);
    EXPECT_EQ(exchangesOf(*moved), mask == Mask::Other ? 2u : 1u) << "another mask would hide rows";
    const auto code = llvm::cantFail(cpuEngine().prepare(*module));
    for (bool hasLabels : {true, false}) {
      for (double z : {1, -1}) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(mask) << " " << hasLabels << " " << z);
        const std::vector<Binding> arguments = {tensorOf(code->args()[0].type, [&] { return normal(dice); }),
                                                tensorOf(code->args()[1].type, [&] { return double(hasLabels); }),
                                                tensorOf(code->args()[2].type, [&] { return z; })};
        const auto expected = numbersOf(ran(*module, arguments)[0]), found = numbersOf(ran(*moved, arguments)[0]);
        for (size_t i = 0; i < 2; ++i) {
          if (std::isfinite(expected[i])) {
            EXPECT_NEAR(found[i], expected[i], 1e-15 * std::abs(expected[i]) + 1e-16);
          } else {
            EXPECT_FALSE(std::isfinite(found[i])) << expected[i];
          }
        }
      }
    }
  }
}

/// Sums of rows that were converted on the way; the number has the type from before.
TEST(DeferScales, RowsOfAnotherWidth) {
  std::mt19937_64 dice = freshRandom();
  std::normal_distribution<double> normal;
  Context context;
  auto module = context.parse(R"(
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<5x2xf64> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 3], stride = 2>})
    -> (tensor<2xf32> {sojourn.result = "keep"}, tensor<5x2xf32> {sojourn.result = "keep"}) {
  %zero = sojourn.constant 0.0 : f64
  %is = sojourn.compare "ne" %x, %zero : tensor<5x2xf64>, tensor<f64>
  %ones = sojourn.convert %is : tensor<5x2xi1> -> tensor<5x2xf64>
  %count = sojourn.reduce_sum %ones, dims = [0, 1] : tensor<5x2xf64>
  %scaled = sojourn.div %x, %count : tensor<5x2xf64>, tensor<f64>
  %narrow = sojourn.convert %scaled : tensor<5x2xf64> -> tensor<5x2xf32>
  %sum = sojourn.reduce_sum %narrow, dims = [0] : tensor<5x2xf32>
  return %sum, %narrow : tensor<2xf32>, tensor<5x2xf32>
}
})");
  ASSERT_TRUE(module);
  auto moved = deferred(*module);
  EXPECT_EQ(exchangesOf(*moved), 1u);
  const auto code = llvm::cantFail(cpuEngine().prepare(*module));
  const std::vector<Binding> arguments = {tensorOf(code->args()[0].type, [&] { return normal(dice); })};
  const auto expected = ran(*module, arguments), found = ran(*moved, arguments);
  for (size_t result = 0; result < 2; ++result) {
    const auto wanted = numbersOf(expected[result]), numbers = numbersOf(found[result]);
    double largest = 0;
    for (double each : numbersOf(expected[1])) {
      largest = std::max(largest, std::abs(each));
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(numbers[i], wanted[i], 1e-6 * largest);
    }
  }
}

} // namespace
