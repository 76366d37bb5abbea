// SPDX-License-Identifier: Apache-2.0
// Steps on a private table from several sessions at once: one budget, plans with noise that are made and found
// meanwhile, receipts. The oracle is an owner that is asked in order.
#include "owner/Accounts.h"
#include "owner/PlanCache.h"
#include "owner/ledger/Ledger.h"
#include "test/owner/Support.h"

#include "mlir/IR/MLIRContext.h"

#include <atomic>
#include <cstdlib>
#include <thread>

namespace sojourn::owner::test {

namespace {

constexpr int kThreads = 4, kRounds = 12;
constexpr double kGrant = 4, kPrice = 0.25;

/// An owner with one private table and a budget that some of the steps exceed.
struct PrivateOwner {
  World world;
  TemporaryFolder folder;
  std::unique_ptr<Owner> owner;
  PrivateOwner() {
    world.store = folder.file("store");
    owner = std::make_unique<Owner>(world.environment());
    EXPECT_EQ(owner->status(), "");
    registerNumbers(*owner, "numbers", Policy::privateOnly);
    EXPECT_EQ(errorText(owner->grant(kLocalClient, "numbers", kGrant, 1e-5)), "");
  }
  double left() {
    auto budget = owner->accounts().budget(kLocalClient, "numbers");
    EXPECT_TRUE(bool(budget));
    return budget ? budget->epsilonLeft : -1;
  }
};

/// A release of the sum, at one price; the clip, which a sum does without, decides the plan that it needs.
StepRequest priced(double clip) {
  StepRequest step;
  step.tables = {"numbers"};
  step.spending.clip = clip;
  step.spending.releases = {{1, kPrice, 0, false}};
  return step;
}

/// Whether it was paid; anything but a spent budget fails the test.
bool isPaid(const Reply &reply) {
  if (reply.error().empty()) {
    return true;
  }
  EXPECT_EQ(reply.asError().code(), wire::ErrorCode_Budget) << reply.error();
  return false;
}

uint64_t testSeed() {
  const char *given = std::getenv("SOJOURN_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

} // namespace

TEST(PrivateParallel, SessionsSpendOneBudgetAsIfInOrder) {
  uint64_t seed = testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  const runtime::EncodedProgram sum = sumProgram();

  PrivateOwner ordered;
  uint64_t expected = 0;
  {
    Client client(*ordered.owner);
    for (int round = 0; round < kThreads * kRounds; ++round) {
      expected += isPaid(client.run(sum, priced(1)));
    }
  }
  ASSERT_GT(expected, 0u);
  ASSERT_LT(expected, static_cast<uint64_t>(kThreads * kRounds)) << "nothing was refused";

  PrivateOwner parallel;
  std::atomic<uint64_t> paid = 0;
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(seed + static_cast<uint64_t>(thread));
      Client client(*parallel.owner);
      for (int round = 0; round < kRounds; ++round) {
        paid += isPaid(client.run(sum, priced(static_cast<double>(1 << random() % 8))));
      }
    });
  }
  // The data owner looks on.
  std::thread watcher([&] {
    double before = parallel.left();
    while (!done) {
      double now = parallel.left();
      EXPECT_LE(now, before) << "a budget grew";
      before = now;
      auto programs = parallel.owner->programs(true);
      EXPECT_TRUE(bool(programs)) << llvm::toString(programs.takeError());
    }
  });
  for (std::thread &thread : threads) {
    thread.join();
  }
  done = true;
  watcher.join();
  EXPECT_EQ(paid, expected);
  EXPECT_EQ(parallel.owner->stepsHandled(), expected);
  EXPECT_EQ(parallel.left(), ordered.left()) << "charges are whole numbers: their order does not matter";
  auto report = parallel.owner->accounts().ledger().verify();
  EXPECT_TRUE(report) << report.problem().text;
}

TEST(PrivateParallel, PlansAreFoundWhileOthersArePut) {
  uint64_t seed = testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  PrivatePlans plans;
  std::vector<std::shared_ptr<const PrivatePlan>> made;
  for (int number = 0; number < 40; ++number) { // more than are kept
    made.push_back(std::make_shared<PrivatePlan>());
  }
  std::atomic<int> wrong = 0, found = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(seed + static_cast<uint64_t>(thread));
      for (int round = 0; round < 500; ++round) {
        size_t number = random() % made.size();
        std::string terms = "terms " + std::to_string(number);
        if (auto known = llvm::cantFail(plans.find(terms))) {
          wrong += known != made[number];
          ++found;
        } else {
          plans.insert(terms, made[number], "ada");
        }
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(found, 0);
}

/// All plans share 1 GiB: half of it is the most that one account takes.
TEST(PrivateParallel, OneAccountLeavesRoomForPlansOfOthers) {
  auto large = std::make_shared<PrivatePlan>();
  large->report = std::string(size_t{200} << 20, ' ');
  PrivatePlans plans;
  auto known = [&](const std::string &account) {
    int count = 0;
    for (int number = 0; number < 5; ++number) {
      const std::string terms = account + std::to_string(number);
      plans.insert(terms, large, account);
      count += llvm::cantFail(plans.find(terms)) != nullptr;
    }
    return count;
  };
  EXPECT_EQ(known("eve"), 2);
  EXPECT_EQ(known("eve"), 2) << "the same ones";
  EXPECT_EQ(known("ada"), 2);
}

/// A program that was refused is refused again from memory, for the same terms alone.
TEST(PrivateParallel, RefusalsAreRemembered) {
  PrivatePlans plans;
  const RequestError refusal(wire::ErrorCode_Refused, "no proof", "sojourn.sum", "script.py:3");
  for (int number = 0; number < 200; ++number) { // more than are kept
    plans.refuse("terms " + std::to_string(number), refusal);
    auto found = plans.find("terms " + std::to_string(number));
    ASSERT_FALSE(bool(found));
    const RequestError told = takeRequestError(found.takeError());
    EXPECT_EQ(told.code, refusal.code);
    EXPECT_EQ(told.message + told.op + told.location, "no proofsojourn.sumscript.py:3");
    EXPECT_EQ(llvm::cantFail(plans.find("terms " + std::to_string(number + 1))), nullptr);
  }
}

/// One that costs too much only once it is private is rewritten once, too.
TEST(PrivateParallel, AnExcessivePriceIsRemembered) {
  const runtime::EncodedProgram sum = sumProgram();
  auto plan = makePlan(testWorker(), sum.program, sum.debug, PriceLimits());
  ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
  Limits limits;
  limits.price.operations = (*plan)->facts.operations; // just enough for the program itself
  int proved = 0;
  World world;
  Environment environment = world.environment();
  environment.entering = [&](Phase phase) { proved += phase == Phase::proving; };
  Owner owner(environment, limits);
  registerNumbers(owner, "numbers", Policy::privateOnly);
  EXPECT_EQ(errorText(owner.grant(kLocalClient, "numbers", kGrant, 1e-5)), "");
  Client client(owner);
  const std::string first = client.run(sum, priced(1)).error();
  EXPECT_EQ(first.find("Limit: made private, "), 0u) << first;
  EXPECT_EQ(client.run(sum, priced(1)).error(), first);
  EXPECT_EQ(proved, 1);
  client.run(sum, priced(2)); // other terms
  EXPECT_EQ(proved, 2);
}

} // namespace sojourn::owner::test
