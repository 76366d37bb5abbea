// SPDX-License-Identifier: Apache-2.0
// Plans: the bytes they were made from, the bounds of their cache, prices, and the shares of runs.
#include "owner/Budget.h"
#include "owner/PlanCache.h"
#include "owner/RequestError.h"
#include "owner/worker/ProgramCode.h"
#include "owner/worker/Worker.h"
#include "runtime/Program.h"
#include "test/owner/Support.h"

#include "mlir/IR/MLIRContext.h"

#include <chrono>
#include <thread>

namespace sojourn::owner::test {

namespace {

std::shared_ptr<const Plan> plan(const runtime::EncodedProgram &program) {
  auto made = makePlan(testWorker(), program.program, program.debug);
  EXPECT_TRUE(bool(made)) << llvm::toString(made.takeError());
  return made ? *made : nullptr;
}

PlanKey key(uint8_t number) {
  PlanKey key;
  key.program[0] = number;
  return key;
}

/// Adds `ops` numbers to an upload, one by one.
runtime::EncodedProgram longProgram(int ops) {
  std::string body, last = "%x";
  for (int index = 0; index < ops; ++index) {
    std::string n = std::to_string(index);
    body += "    %c" + n + " = sojourn.constant " + n + ".5 : f32\n    %v" + n + " = sojourn.mul " + last + ", %c" + n +
            " : tensor<3xf32>, tensor<f32>\n";
    last = "%v" + n;
  }
  return encode(moduleText("(%x: tensor<3xf32> {sojourn.kind = \"upload\"}) -> (tensor<3xf32> {sojourn.result = "
                           "\"keep\"})",
                           body + "    return " + last + " : tensor<3xf32>"));
}

} // namespace

TEST(PlanCaches, TheVerifiedModuleCanBeHadAgain) {
  auto made = cpuWorker().describe(readProgram().program, readProgram().debug);
  ASSERT_TRUE(bool(made)) << llvm::toString(made.takeError());
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = runtime::decodeProgram(context, textOf(*made->code->program), textOf(*made->code->debug));
  ASSERT_TRUE(bool(module)) << llvm::toString(module.takeError());
  EXPECT_EQ(runtime::hashProgram(textOf(*made->code->program)), readProgram().hash);
}

TEST(PlanCaches, HoldAsManyAsTheirBytesAllow) {
  auto small = plan(keepProgram()), large = plan(longProgram(200));
  EXPECT_GT(large->bytes(), 2 * small->bytes());
  EXPECT_GT(large->bytes(), large->code->program->size() + large->code->debug->size() + large->text.size());
  PlanCache cache(100, 3 * small->bytes() + 10);
  for (uint8_t number = 0; number < 3; ++number) {
    auto entry = small;
    EXPECT_TRUE(cache.insert(key(number), entry).empty());
  }
  EXPECT_EQ(cache.bytes(), 3 * small->bytes());
  EXPECT_NE(cache.find(key(0)), nullptr); // used last
  auto entry = small;
  EXPECT_EQ(cache.insert(key(3), entry).size(), 1u);
  EXPECT_EQ(cache.find(key(1)), nullptr);
  EXPECT_NE(cache.find(key(0)), nullptr);
  // One that is too large for the cache stays while it is the last used.
  entry = large;
  EXPECT_EQ(cache.insert(key(4), entry).size(), 3u);
  EXPECT_EQ(cache.bytes(), large->bytes());
  EXPECT_EQ(cache.find(key(4)), large);
  entry = small;
  EXPECT_EQ(cache.insert(key(5), entry).size(), 1u);
  EXPECT_EQ(cache.bytes(), small->bytes());
  EXPECT_EQ(cache.count(), 1u);
}

TEST(PlanCaches, TheFirstOfTwoEqualPlansStays) {
  PlanCache cache(10, SIZE_MAX);
  auto first = plan(keepProgram()), second = plan(keepProgram());
  auto entry = first;
  EXPECT_TRUE(cache.insert(key(1), entry).empty());
  entry = second;
  auto gone = cache.insert(key(1), entry);
  EXPECT_EQ(entry, first);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0], second);
  EXPECT_EQ(cache.bytes(), first->bytes());
}

TEST(PlanCaches, AnOwnersCacheForgetsByBytes) {
  World world;
  Limits limits;
  limits.cachedPlanBytes = 1; // the last used one alone
  Owner owner(world.environment(), limits);
  Client client(owner);
  StepRequest step;
  step.uploads = {f32({3}, {1, 2, 3})};
  step.results = {1};
  EXPECT_EQ(client.run(keepProgram(), step).error(), "");
  auto program = keepProgram();
  step.session = client.session;
  step.hash.assign(program.hash.begin(), program.hash.end());
  step.results = {2};
  step.sequence = 2;
  EXPECT_EQ(client.send(stepBytes(step)).kind(), wire::ReplyBody_Done);
  ++client.steps;
  StepRequest fetch;
  fetch.states = {1};
  EXPECT_EQ(client.run(publishProgram(), fetch).error(), "");
  step.sequence = 4;
  step.results = {3};
  EXPECT_EQ(client.send(stepBytes(step)).kind(), wire::ReplyBody_NeedProgram);
}

TEST(Prices, AreHeldAgainstTheLimitsBeforeAnythingIsBuilt) {
  World world;
  Limits limits;
  limits.price.operations = 1002; // a constant and a product of three elements cost 4
  Owner owner(world.environment(), limits);
  Client client(owner);
  StepRequest step;
  step.uploads = {f32({3}, {1, 2, 3})};
  step.results = {1};
  EXPECT_EQ(client.run(longProgram(10), step).error(), "");
  step.results = {2};
  Reply reply = client.run(longProgram(2000), step);
  ASSERT_NE(reply.root->body_as_Error(), nullptr);
  EXPECT_EQ(reply.asError().code(), wire::ErrorCode_Limit) << reply.error();
  EXPECT_NE(reply.error().find("1002"), std::string::npos) << reply.error();
  EXPECT_EQ(reply.asError().op()->str(), "mul");
  EXPECT_NE(reply.asError().location()->str().find("train.py:"), std::string::npos);
}

TEST(Budgets, ThreadsAreSharedFairly) {
  ThreadBudget budget(8);
  ThreadBudget::Lease first(budget);
  EXPECT_EQ(first.threads, 8u);
  {
    ThreadBudget::Lease second(budget), third(budget);
    EXPECT_EQ(second.threads, 4u);
    EXPECT_EQ(third.threads, 2u);
  }
  ThreadBudget::Lease next(budget);
  EXPECT_EQ(next.threads, 4u);
  ThreadBudget one(1);
  ThreadBudget::Lease a(one), b(one), c(one);
  EXPECT_EQ(a.threads + b.threads + c.threads, 3u) << "never none";
  EXPECT_EQ(ThreadBudget(0).most(), 1u);
}

TEST(Budgets, MemoryIsWaitedFor) {
  MemoryBudget budget(100, 60'000);
  runtime::StopFlag going{false}, stopped{false};
  auto first = budget.lease(kLocalClient, 80, going);
  ASSERT_TRUE(bool(first));
  auto small = budget.lease(kLocalClient, 20, going);
  ASSERT_TRUE(bool(small));
  std::thread waiting([&] {
    auto second = budget.lease(kLocalClient, 90, going); // fits when both others have ended
    EXPECT_TRUE(bool(second)) << llvm::toString(second.takeError());
  });
  std::thread stopping([&] { stopped = true; });
  EXPECT_EQ(errorText(budget.lease(kLocalClient, 30, stopped).takeError()), "the step was stopped");
  const RequestError busy =
      takeRequestError(budget.lease(kLocalClient, 30, going, std::chrono::milliseconds(30)).takeError());
  EXPECT_EQ(busy.code, wire::ErrorCode_Busy);
  EXPECT_NE(busy.message.find("this owner had no 30 bytes of memory"), std::string::npos) << busy.message;
  stopping.join();
  { auto ended = std::move(*first); }
  { auto ended = std::move(*small); }
  waiting.join();
  EXPECT_NE(errorText(budget.lease(kLocalClient, 101, going).takeError()).find("limit for running programs is 100"),
            std::string::npos);
}

/// No account has all the memory, and small leases do not overtake a large one for ever.
TEST(Budgets, MemoryHasSharesAndAnOrder) {
  MemoryBudget budget(800, 60'000);
  runtime::StopFlag going{false};
  EXPECT_NE(errorText(budget.lease("", 101, going).takeError()).find("clients without an identity is 100"),
            std::string::npos);
  EXPECT_NE(errorText(budget.lease("ada", 401, going).takeError()).find("is 400"), std::string::npos);
  auto ada = budget.lease("ada", 300, going), bob = budget.lease("bob", 300, going);
  ASSERT_TRUE(ada && bob);
  std::atomic<bool> hasLarge = false, hasSmall = false;
  std::thread large([&] {
    auto lease = budget.lease("carol", 350, going);
    hasLarge = bool(lease);
    EXPECT_FALSE(hasSmall);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::thread small([&] {
    auto lease = budget.lease("dave", 200, going); // it would fit at once
    hasSmall = bool(lease);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(hasLarge || hasSmall);
  { auto ended = std::move(*ada); }
  large.join();
  small.join();
  EXPECT_TRUE(hasLarge && hasSmall);
}

/// Small runs wait for no large one, and clients with an identity for none without.
TEST(Budgets, SmallRunsAndClientsWithAnIdentityWaitForNobody) {
  MemoryBudget budget(size_t{1} << 20, 60'000); // with a reserve of 65,536 for runs of 4,096 at most
  runtime::StopFlag going{false}, stopped{false};
  auto ada = budget.lease("ada", 500'000, going), bob = budget.lease("bob", 500'000, going);
  ASSERT_TRUE(ada && bob);
  std::thread nobody([&] { // 48,576 bytes are left
    EXPECT_NE(errorText(budget.lease("", 100'000, stopped).takeError()).find("stopped"), std::string::npos);
  });
  while (budget.waiters() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  auto small = budget.lease("carol", 4'096, going), middle = budget.lease("carol", 40'000, going);
  EXPECT_TRUE(small && middle);
  std::vector<MemoryBudget::Lease> reserved;
  for (int count = 0; count < 2; ++count) { // an eighth of the reserve
    auto lease = budget.lease("", 4'096, going);
    ASSERT_TRUE(bool(lease));
    reserved.push_back(std::move(*lease));
  }
  stopped = true;
  nobody.join();
  EXPECT_NE(errorText(budget.lease("", 4'096, stopped).takeError()).find("stopped"), std::string::npos);
  // One that missed the reserve gets it when it is free again: 576 bytes are left beside it.
  auto rest = budget.lease("dave", 8'000, going);
  ASSERT_TRUE(bool(rest));
  std::thread third([&] {
    auto lease = budget.lease("", 4'096, going);
    EXPECT_TRUE(bool(lease));
  });
  while (budget.waiters() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  reserved.clear();
  third.join();
}

/// Plans of one account do not drive out those of others.
TEST(PlanCaches, AccountsMakeRoomForThemselves) {
  auto made = makePlan(testWorker(), keepProgram().program, keepProgram().debug);
  ASSERT_TRUE(bool(made)) << llvm::toString(made.takeError());
  auto key = [](unsigned number) {
    PlanKey result;
    result.program[0] = static_cast<uint8_t>(number);
    result.program[1] = static_cast<uint8_t>(number >> 8);
    return result;
  };
  PlanCache cache(80, SIZE_MAX);
  std::shared_ptr<const Plan> entry = *made;
  for (unsigned number = 0; number < 30; ++number) {
    EXPECT_TRUE(cache.insert(key(number), entry, "ada").empty());
  }
  for (unsigned number = 100; number < 400; ++number) { // an eighth of 80 at most
    cache.insert(key(number), entry, "");
  }
  EXPECT_EQ(cache.count(), 40u);
  for (unsigned number = 0; number < 30; ++number) {
    EXPECT_TRUE(cache.find(key(number))) << number;
  }
  for (unsigned number = 390; number < 400; ++number) {
    EXPECT_TRUE(cache.find(key(number))) << number;
  }
  for (unsigned number = 500; number < 600; ++number) {
    cache.insert(key(number), entry, "bob");
  }
  EXPECT_EQ(cache.count(), 80u);
  EXPECT_TRUE(cache.find(key(29))) << "half is bob's at most";
}

/// A program of one op whose call of the kernel library is long or not.
std::string refusalOf(const std::string &a, const std::string &b, const std::string &op, const std::string &result,
                      int results = 1) {
  PriceLimits limits;
  limits.operations = UINT64_MAX;
  limits.callSeconds = 1;
  const auto program =
      encode(moduleText("(%a: tensor<" + a + "> {sojourn.kind = \"upload\"}, %b: tensor<" + b +
                            "> {sojourn.kind = \"upload\"}) -> (tensor<" + result + "> {sojourn.result = \"keep\"})",
                        "    %r" + (results > 1 ? ":" + std::to_string(results) : "") + " = " + op + "\n    return %r" +
                            (results > 1 ? "#0" : "") + " : tensor<" + result + ">\n"));
  auto made = makePlan(testWorker(), program.program, program.debug, limits);
  return made ? "" : takeRequestError(made.takeError()).message;
}

std::string product(const std::string &a, const std::string &b, const std::string &result, int contracted = 1) {
  const std::string types = "tensor<" + a + ">, tensor<" + b + "> -> tensor<" + result + ">";
  return refusalOf(a, b,
                   "sojourn.dot %a, %b, lhs_batch = [], rhs_batch = [], lhs_contract = [" + std::to_string(contracted) +
                       "], rhs_contract = [0] : " + types,
                   result);
}

std::string convolution(const std::string &x, const std::string &w, const std::string &result, int padding,
                        int groups = 1) {
  const std::string pad = std::to_string(padding);
  return refusalOf(x, w,
                   "sojourn.conv %a, %b, stride = [1, 1], padding = [" + pad + ", " + pad +
                       "], dilation = [1, 1], groups = " + std::to_string(groups) + " : tensor<" + x + ">, tensor<" +
                       w + ">",
                   result);
}

/// Products and convolutions that people train with, and large ones, are cut until no call is long.
TEST(LibraryCalls, OfProductsAndConvolutionsAreShort) {
  EXPECT_EQ(product("60000x784xf32", "60000x784xf32", "784x784xf32", 0), "");
  EXPECT_EQ(product("60000x784xf32", "60000x1000xf32", "784x1000xf32", 0), "");
  EXPECT_EQ(product("1000000x1000xf32", "1000x1000xf32", "1000000x1000xf32"), "");
  EXPECT_EQ(product("1000000x100xf64", "1000000x100xf64", "100x100xf64", 0), "");
  EXPECT_EQ(product("5000000x20xf64", "5000000x20xf64", "20x20xf64", 0), "");
  for (const char *element : {"xf32", "xf64", "xi64", "xcomplex<f64>"}) {
    const std::string square = std::string("8192x8192") + element;
    EXPECT_EQ(product(square, square, square), "") << element;
  }
  EXPECT_EQ(convolution("10000x1x28x28xf32", "64x1x5x5xf32", "10000x64x28x28xf32", 2), "");
  EXPECT_EQ(convolution("10000x1x28x28xf64", "64x1x5x5xf64", "10000x64x28x28xf64", 2), "");
  for (int images : {1, 3, 4, 8, 64, 256}) {
    const std::string count = std::to_string(images);
    EXPECT_EQ(convolution(count + "x256x96x96xf32", "256x256x3x3xf32", count + "x256x96x96xf32", 1), "") << images;
    EXPECT_EQ(convolution(count + "x64x224x224xf32", "64x64x3x3xf32", count + "x64x224x224xf32", 1), "") << images;
    EXPECT_EQ(convolution(count + "x64x56x56xf64", "64x64x3x3xf64", count + "x64x56x56xf64", 1), "") << images;
    EXPECT_EQ(convolution(count + "x512x56x56xf32", "512x1x7x7xf32", count + "x512x56x56xf32", 3, 512), "") << images;
  }
}

TEST(LibraryCalls, ThatAreLongAreRefused) {
  const char *refusal = "of the kernel library would take about";
  // One pass over so long rows; one window as large as its image.
  for (const std::string &found : {product("268435456x8xf32", "268435456x8xf32", "8x8xf32", 0),
                                   convolution("1x1x1024x1024xf32", "1x1x512x512xf32", "1x1x513x513xf32", 0)}) {
    EXPECT_NE(found.find(refusal), std::string::npos) << found;
  }
  // Each factor of one matrix, and transforms of one line.
  const std::string square = "1x9000x9000xf64", value = "1x9000xf64", line = "268435456xcomplex<f64>";
  struct {
    const char *op;
    std::string a, types;
    int results;
    std::string first;
  } cases[] = {
      {"cholesky %a", square, "", 2, square},
      {"lu %a", square, "", 4, square},
      {"qr %a full = false", square, "", 2, square},
      {"svd %a full = false", square, "", 3, square},
      {"eigh %a", square, "", 2, value},
      {"ldl %a hermitian = false", square, "", 3, square},
      {"eig %a", square, "", 2, "1x9000xcomplex<f64>"},
      {"triangular_solve %a, %b, lower = true, unit = false", square, ", tensor<" + square + ">", 1, square},
      {"fft_c2c %a, dims = [0], inverse = false", line, "", 1, line},
      {"fft_r2c %a, dims = [0]", "536870912xf64", "", 1, "268435457xcomplex<f64>"},
      {"fft_c2r %a, dims = [0], size = 536870910", line, "", 1, "536870910xf64"},
  };
  for (const auto &each : cases) {
    const std::string found =
        refusalOf(each.a, square, std::string("sojourn.") + each.op + " : tensor<" + each.a + ">" + each.types,
                  each.first, each.results);
    EXPECT_NE(found.find(refusal), std::string::npos) << each.op << ": " << found;
  }
}

} // namespace sojourn::owner::test
