// SPDX-License-Identifier: Apache-2.0
// Runs that are stopped from another thread, at any moment: the whole result, or an error.
#include "test/runtime/Programs.h"

#include <chrono>
#include <ctime>
#include <thread>

using namespace sojourn;
using namespace sojourn::runtime;
using namespace sojourn::test;

namespace {

/// A plan with fresh inputs, and what a run of it gives that nothing stops.
class StoppedRun : public ::testing::Test {
protected:
  void SetUp() override {
    plan = compileText(context, stepText());
    ASSERT_TRUE(plan);
    std::normal_distribution<double> normal;
    inputs = bindWith(*plan, [&](Element) { return normal(random); });
    expected = bytesOf(llvm::cantFail(plan->run(inputs)));
  }

  const unsigned seed = testSeed();
  ::testing::ScopedTrace trace{__FILE__, __LINE__, "SOJOURN_TEST_SEED=" + std::to_string(seed)};
  std::mt19937 random{seed};
  Context context;
  std::unique_ptr<Executable> plan;
  std::vector<Binding> inputs;
  std::vector<std::string> expected;
};

TEST_F(StoppedRun, IsAnErrorAndChangesNothing) {
  for (unsigned threads = 1; threads <= 3; ++threads) {
    StopFlag stop{true};
    auto stopped = plan->run(inputs, {.threads = threads, .stop = &stop});
    ASSERT_FALSE(bool(stopped));
    llvm::handleAllErrors(stopped.takeError(), [](const ProgramError &error) {
      EXPECT_EQ(error.code(), ErrorCode::Stopped);
      EXPECT_EQ(error.text(), "the run was stopped");
    });
    stop = false;
    EXPECT_EQ(bytesOf(llvm::cantFail(plan->run(inputs, {.threads = threads, .stop = &stop}))), expected);
  }
}

TEST_F(StoppedRun, IsAllOrNothing) {
  const auto begin = std::chrono::steady_clock::now();
  llvm::cantFail(plan->run(inputs, {.threads = 2}));
  const auto most = (std::chrono::steady_clock::now() - begin).count();
  for (int round = 0; round < 200; ++round) {
    StopFlag stop{false};
    std::atomic<bool> runs = false;
    std::thread ends([&, wait = std::chrono::nanoseconds(random() % static_cast<uint64_t>(most))] {
      while (!runs) {
      }
      for (const auto end = std::chrono::steady_clock::now() + wait; std::chrono::steady_clock::now() < end;) {
      }
      stop = true;
    });
    runs = true;
    auto values = plan->run(inputs, {.threads = 2, .stop = &stop});
    ends.join();
    if (values) {
      EXPECT_EQ(bytesOf(*values), expected);
    } else {
      llvm::handleAllErrors(values.takeError(), [](const ProgramError &error) {
        EXPECT_EQ(error.code(), ErrorCode::Stopped) << error.text();
      });
    }
  }
}

double threadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A line of numbers is one row of its instruction, however long.
TEST(StoppedLine, EndsWhileItIsSorted) {
  const unsigned seed = testSeed();
  const ::testing::ScopedTrace trace{__FILE__, __LINE__, "SOJOURN_TEST_SEED=" + std::to_string(seed)};
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Context context;
  for (const char *op : {"sort %x, dim = 0, descending = true", "topk %x, dim = 0, k = 4194303, largest = true"}) {
    const std::string made = op[0] == 's' ? "4194304" : "4194303";
    const auto plan = compileText(context, R"(
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%x: tensor<4194304xf64> {sojourn.kind = "upload"}) -> (tensor<)" +
                                               made +
                                               R"(xf64> {sojourn.result = "publish"}) {
    %v, %i = sojourn.)" + op + R"( : tensor<4194304xf64>
    return %v : tensor<)" + made + R"(xf64>
  }
}
)");
    ASSERT_TRUE(plan);
    const std::vector<Binding> inputs = bindWith(*plan, [&](Element) { return normal(random); });
    double begin = threadSeconds();
    llvm::cantFail(plan->run(inputs, {.threads = 1}));
    const double whole = threadSeconds() - begin;

    StopFlag stop{false};
    std::thread ends([&] {
      std::this_thread::sleep_for(std::chrono::duration<double>(whole / 10));
      stop = true;
    });
    begin = threadSeconds();
    auto values = plan->run(inputs, {.threads = 1, .stop = &stop});
    const double spent = threadSeconds() - begin;
    ends.join();
    ASSERT_FALSE(bool(values));
    llvm::consumeError(values.takeError());
    EXPECT_LT(spent, whole / 2) << op;
  }
}

} // namespace
