// SPDX-License-Identifier: Apache-2.0
// Goal: a price is never below what a plan takes, no op is without one, and hostile shapes are refused before anything
// is built. Method: random programs planned by the executor; literal programs at the limits.
#include "passes/Price.h"
#include "dialect/ContractionOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/WindowOps.h"

#include "test/dialect/Context.h"
#include "test/passes/RandomProgram.h"
#include "runtime/Execute.h"

#include "llvm/Support/MemoryBuffer.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

using namespace sojourn;
using namespace sojourn::test;

namespace {

TEST(Price, EveryCoreOpHasOne) {
  Context context;
  size_t ops = 0;
  for (mlir::RegisteredOperationName name : context.context.getRegisteredOperations()) {
    if (name.hasTrait<CoreOp>()) {
      EXPECT_TRUE(name.hasInterface<PricedOp>()) << name.getStringRef().str();
      ++ops;
    }
  }
  EXPECT_GT(ops, 60u);
}

TEST(Price, IsNoLessThanThePlanOfRandomPrograms) {
  uint64_t seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 dice(seed);
  for (int round = 0; round < 40; ++round) {
    RandomProgram program = randomProgram(dice, 1 + dice() % 6, dice() % 150, 1 + dice() % 5);
    Context context;
    auto module = context.parse(program.text);
    ASSERT_TRUE(module);
    auto executable = runtime::Executable::create(*module);
    ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
    Price price = priceOf(*module);
    EXPECT_LE((*executable)->runMemory().arena, price.arenaBytes) << "seed " << seed << "\n" << program.text;
    EXPECT_LE((*executable)->planBytes(), price.planBytes) << "seed " << seed << "\n" << program.text;
    EXPECT_FALSE(findExcess(*module, PriceLimits()));
  }
}

/// Whole training steps: test/python/test_price.py records them and names the folder.
TEST(Price, IsNoLessThanThePlanOfRecordedPrograms) {
  const char *folder = std::getenv("SOJOURN_PRICE_MODULES");
  if (folder == nullptr) {
    GTEST_SKIP() << "SOJOURN_PRICE_MODULES names no folder of core modules";
  }
  size_t seen = 0;
  for (const auto &entry : std::filesystem::directory_iterator(folder)) {
    Context context;
    auto buffer = llvm::MemoryBuffer::getFile(entry.path().string());
    ASSERT_TRUE(static_cast<bool>(buffer));
    auto module = context.parse((*buffer)->getBuffer().str());
    ASSERT_TRUE(module) << entry.path();
    auto executable = runtime::Executable::create(*module);
    ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
    Price price = priceOf(*module);
    EXPECT_LE((*executable)->runMemory().arena, price.arenaBytes) << entry.path();
    EXPECT_LE((*executable)->planBytes(), price.planBytes) << entry.path();
    // A bound that says nothing is no bound.
    EXPECT_LE(price.arenaBytes, (*executable)->sumOfValueBytes() * 4 + 65536) << entry.path();
    EXPECT_GT(price.operations, 0u);
    EXPECT_FALSE(findExcess(*module, PriceLimits()));
    ++seen;
  }
  EXPECT_GT(seen, 0u);
}

/// A program of one op on broadcast constants: few bytes, any price.
std::string fromConstant(const std::string &type, const std::string &body, const std::string &result) {
  return "module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\n  func.func @step() -> (" +
         result +
         " {sojourn.result = \"keep\"}) {\n    %c = sojourn.constant 1.0 : f32\n    %x = sojourn.broadcast %c, " +
         "dims = [] : tensor<f32> -> " + type + "\n    " + body + "\n    return %y : " + result + "\n  }\n}\n";
}

TEST(Price, NamesTheOpThatCrossesALimit) {
  Context context;
  auto module = context.parse(
      fromConstant("tensor<65536x65536xf32>",
                   "%y = sojourn.dot %x, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]"
                   " : tensor<65536x65536xf32>, tensor<65536x65536xf32> -> tensor<65536x65536xf32>",
                   "tensor<65536x65536xf32>"));
  ASSERT_TRUE(module);
  PriceLimits limits;
  limits.arenaBytes = limits.scratchBytes = UINT64_MAX;
  auto excess = findExcess(*module, limits);
  ASSERT_TRUE(excess);
  EXPECT_TRUE(llvm::isa<DotOp>(excess->op));
  EXPECT_NE(excess->message.find("562962838323201 operations, expected at most 10000000000000"), std::string::npos)
      << excess->message;
  // With the arena limited as well, the broadcast before it is the first to cross: 16 GiB.
  limits.arenaBytes = uint64_t{1} << 33;
  excess = findExcess(*module, limits);
  ASSERT_TRUE(excess);
  EXPECT_TRUE(llvm::isa<BroadcastOp>(excess->op));
  EXPECT_NE(excess->message.find("bytes of arena"), std::string::npos) << excess->message;
}

TEST(Price, CountsWhatOwnersExchange) {
  Context context;
  auto module = context.parse(
      fromConstant("tensor<1000x3xf32>",
                   "%a, %n = sojourn.across_sum %x, %x from = [3, 3] : tensor<1000x3xf32>, tensor<1000x3xf32>\n"
                   "%y = sojourn.across_sum %a from = [3] : tensor<1000x3xf32>",
                   "tensor<1000x3xf32>"));
  ASSERT_TRUE(module);
  EXPECT_EQ(priceOf(*module).exchangedBytes, 3u * 2 * 12'000);
  PriceLimits limits;
  limits.exchangedBytes = 72'000;
  EXPECT_FALSE(findExcess(*module, limits));
  limits.exchangedBytes = 71'999;
  auto excess = findExcess(*module, limits);
  ASSERT_TRUE(excess);
  EXPECT_NE(excess->message.find("72000 bytes exchanged with other owners, expected at most 71999"), std::string::npos)
      << excess->message;
}

TEST(Price, BoundsWindowsByWhatTheyLieOn) {
  Context context;
  // Most of the window is padding: 2^20 + 1 outputs of at most 4 elements each.
  auto module = context.parse(fromConstant("tensor<1x1x4xf32>",
                                           "%y = sojourn.pool_sum %x, window = [1048576], stride = [1], "
                                           "padding = [1048574], dilation = [1] : tensor<1x1x4xf32>",
                                           "tensor<1x1x1048577xf32>"));
  ASSERT_TRUE(module);
  auto step = module->lookupSymbol<mlir::func::FuncOp>("step");
  for (auto pool : step.getOps<PoolSumOp>()) {
    EXPECT_EQ(pool.getOperations(), 5u * 1048577u);
  }
}

TEST(Price, SaturatesAndStaysThere) {
  EXPECT_EQ(cost::times({UINT64_MAX, 2}), UINT64_MAX);
  EXPECT_EQ(cost::times({0, UINT64_MAX}), 0u);
  EXPECT_EQ(cost::sum({UINT64_MAX, 1, 5}), UINT64_MAX);
  EXPECT_EQ(cost::passes(0), 1u);
  EXPECT_EQ(cost::passes(1), 1u);
  EXPECT_EQ(cost::passes(2), 2u);
  EXPECT_EQ(cost::passes(1025), 12u);
}

} // namespace
