// SPDX-License-Identifier: Apache-2.0
// What a run may still take, as an owner asks its ledger: a million steps, with orders that are lost on the way.
#include "owner/Accounts.h"
#include "runtime/privacy/Plan.h"
#include "test/owner/Support.h"

#include <algorithm>

namespace sojourn::owner::test {

TEST(Accounts, AMillionStepsFitTheGrantThatTheyWereQuotedFor) {
  constexpr uint64_t kSteps = 1'000'000;
  constexpr double kDelta = 1e-6;
  privacy::TrainingPlan plan{1e-5, kSteps, 0x1p-60, 0x1p-70};
  double quoted = *privacy::epsilonOf(plan, 0.5, kDelta);
  EXPECT_LT(quoted, 8);
  World world;
  auto key = signing::SigningKey::generate();
  auto accounts = Accounts::open(world.environment(), key);
  ASSERT_TRUE(static_cast<bool>(accounts)) << llvm::toString(accounts.takeError());
  auto textOf = [](llvm::Error error) { return llvm::toString(std::move(error)); };
  ASSERT_EQ(textOf((*accounts)->setGrant(kLocalClient, {"people", ""}, {8, kDelta})), "");
  std::vector<ledger::Item> items{{"people", "v1", "", *privacy::stepCharge(plan, 0.5), key.publicKey()}};
  auto run = std::shared_ptr<RunAccount>();
  for (uint64_t step = 0; step < kSteps; ++step) {
    llvm::Error error = (*accounts)->payStep(kLocalClient, run, kSteps, {}, items);
    ASSERT_FALSE(static_cast<bool>(error)) << step << ": " << llvm::toString(std::move(error));
  }
  privacy::Charge total = *privacy::planCharge(plan, 0.5);
  EXPECT_EQ(run->total[0], total);
  EXPECT_GT(std::count(total.rdp.begin(), total.rdp.end(), privacy::kLost), 3);
  run.reset();
  auto budget = (*accounts)->budget(kLocalClient, "people");
  ASSERT_TRUE(static_cast<bool>(budget));
  EXPECT_DOUBLE_EQ(budget->epsilonLeft, 8 - quoted);
  // One more plan of as much noise as is left for, and not of less.
  double noise = *privacy::noiseMultiplierFor({budget->epsilonLeft / 2, kDelta}, {1, 1, 0, 0});
  ledger::ReserveRequest request;
  request.client = kLocalClient;
  request.items = items;
  request.items[0].charge = *privacy::stepCharge({1, 1, 0, 0}, noise);
  request.key = (*accounts)->nextKey();
  auto ticket = (*accounts)->payReleases(request);
  EXPECT_TRUE(static_cast<bool>(ticket)) << llvm::toString(ticket.takeError());
  request.items[0].charge = *privacy::stepCharge({1, 1, 0, 0}, 0.1);
  request.key = (*accounts)->nextKey();
  auto refused = (*accounts)->payReleases(request);
  ASSERT_FALSE(static_cast<bool>(refused));
  EXPECT_NE(llvm::toString(refused.takeError()).find("epsilon 8 at delta 1e-06, is spent up to"), std::string::npos);
}

TEST(Accounts, StepsThatARunHasPaidForAreARest) {
  constexpr uint64_t kSteps = 20;
  constexpr double kDelta = 1e-6;
  privacy::TrainingPlan plan{1, kSteps, 0, 0};
  double quoted = *privacy::epsilonOf(plan, 40, kDelta);
  World world;
  auto key = signing::SigningKey::generate();
  auto accounts = Accounts::open(world.environment(), key);
  ASSERT_TRUE(static_cast<bool>(accounts)) << llvm::toString(accounts.takeError());
  auto textOf = [](llvm::Error error) { return error ? llvm::toString(std::move(error)) : ""; };
  ASSERT_EQ(textOf((*accounts)->addClient("ada", signing::SigningKey::generate().publicKey())), "");
  ASSERT_EQ(textOf((*accounts)->setCap({"people", ""}, {2 * quoted, kDelta})), "");
  EXPECT_NE(textOf((*accounts)->checkLeft("ada", "people", nullptr)).find("client 'ada' has no budget"),
            std::string::npos);
  ASSERT_EQ(textOf((*accounts)->setGrant("ada", {"people", ""}, {quoted, kDelta})), "");
  EXPECT_EQ(textOf((*accounts)->checkLeft("ada", "people", nullptr)), "");
  std::vector<ledger::Item> items{{"people", "v1", "", *privacy::stepCharge(plan, 40), key.publicKey()}};
  auto run = std::shared_ptr<RunAccount>();
  for (uint64_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(textOf((*accounts)->checkLeft("ada", "people", run.get())), "") << step;
    ASSERT_EQ(textOf((*accounts)->payStep("ada", run, kSteps, {}, items)), "") << step;
    // The whole plan was paid for with its first step: nothing is left for others.
    EXPECT_NE(textOf((*accounts)->checkLeft("ada", "people", nullptr)).find("is spent"), std::string::npos);
  }
  EXPECT_EQ(run->run->ahead(), 0u);
  EXPECT_NE(textOf((*accounts)->checkLeft("ada", "people", run.get())).find("is spent. The run took 20 steps"),
            std::string::npos);
  EXPECT_NE(textOf((*accounts)->checkLeft("", "people", nullptr)).find("has no identity"), std::string::npos);
}

TEST(Accounts, AreOfOneOwnersTables) {
  World world;
  auto key = signing::SigningKey::generate(), other = signing::SigningKey::generate();
  auto accounts = Accounts::open(world.environment(), key);
  ASSERT_TRUE(static_cast<bool>(accounts)) << llvm::toString(accounts.takeError());
  ASSERT_EQ(llvm::toString((*accounts)->setGrant(kLocalClient, {"people", ""}, {8, 1e-6})), "");
  std::vector<ledger::Item> items{{"people", "v1", "", privacy::Charge{}, other.publicKey()}};
  std::string says = "each owner charges only its own tables";
  auto run = std::shared_ptr<RunAccount>();
  EXPECT_NE(llvm::toString((*accounts)->payStep(kLocalClient, run, 1, {}, items)).find(says), std::string::npos);
  EXPECT_EQ(run, nullptr);
  ledger::ReserveRequest request;
  request.client = kLocalClient;
  request.items = items;
  request.key = (*accounts)->nextKey();
  auto ticket = (*accounts)->payReleases(request);
  ASSERT_FALSE(static_cast<bool>(ticket));
  EXPECT_NE(llvm::toString(ticket.takeError()).find(says), std::string::npos);
}

} // namespace sojourn::owner::test
