// SPDX-License-Identifier: Apache-2.0
// A run of a million steps under the filter that owners use: orders are lost on its way, and the run ends as quoted.
#include "runtime/privacy/Plan.h"
#include "test/owner/ledger/Support.h"

#include <algorithm>

namespace sojourn::owner::ledger::test {

namespace {

constexpr uint64_t kSteps = 1'000'000;
constexpr double kDelta = 1e-6;

bool admits(const Grant &budget, const privacy::Charge &total) {
  auto filter = privacy::Filter::of({budget.epsilon, budget.delta});
  return filter && filter->admits(total);
}

size_t lostOrders(const privacy::Charge &charge) {
  return static_cast<size_t>(std::count(charge.rdp.begin(), charge.rdp.end(), privacy::kLost));
}

struct LongRuns : testing::Test {
  World world;
  std::unique_ptr<Ledger> ledger;
  privacy::TrainingPlan plan{1e-5, kSteps, 0x1p-60, 0x1p-70};
  RunRequest request;

  void open(double epsilon, double noise) {
    auto options = world.options(/*inMemory=*/true);
    options.admits = admits;
    auto opened = Ledger::open(options);
    ASSERT_TRUE(opened);
    ledger = std::move(*opened);
    ASSERT_EQ(textOf(ledger->addClient("ada", "")), "");
    ASSERT_EQ(textOf(ledger->linkDataset("people", "", Relation::nullOne)), "");
    ASSERT_EQ(textOf(ledger->setCap("people", {epsilon, kDelta})), "");
    ASSERT_EQ(textOf(ledger->setGrant("ada", "people", {epsilon, kDelta})), "");
    request.client = "ada";
    request.items = {{"people", "v1", "", *privacy::stepCharge(plan, noise)}};
  }
  Status reserve(const std::string &key, const privacy::Charge &charge) {
    ReserveRequest wanted = requestOf(key, 1);
    wanted.items[0].charge = charge;
    ReserveAnswer answer = ledger->reserve(wanted);
    auto *problem = std::get_if<Problem>(&answer);
    return problem ? Status(*problem) : Status();
  }
};

} // namespace

TEST_F(LongRuns, AMillionStepsFitTheGrantThatTheyWereQuotedFor) {
  double quoted = *privacy::epsilonOf(plan, 0.5, kDelta);
  EXPECT_LT(quoted, 8);
  open(8, 0.5);
  request.steps = kSteps;
  auto run = ledger->openRun(request);
  ASSERT_TRUE(run) << run.problem().text;
  size_t lost = 0;
  for (uint64_t step = 1; step <= kSteps; ++step) {
    auto taken = (*run)->takeStep();
    ASSERT_TRUE(taken) << taken.problem().text;
    if (step % 100'000 == 0) {
      size_t now = lostOrders(spentOn(*ledger));
      EXPECT_GE(now, lost) << "what is lost stays lost";
      lost = now;
    }
  }
  EXPECT_GT(lost, 3u);
  EXPECT_EQ(textOf((*run)->close()), "");
  EXPECT_EQ(spentOn(*ledger), *privacy::planCharge(plan, 0.5)) << "what was quoted";
  EXPECT_EQ((*ledger->accounts())[0].spent, spentOn(*ledger));
  EXPECT_EQ(privacy::smallestEpsilon(spentOn(*ledger), kDelta), quoted);
  // Account and population go on with what is left, and not beyond it.
  EXPECT_EQ(textOf(reserve("small", *privacy::stepCharge(plan, 2))), "");
  ASSERT_TRUE(reserve("large", *privacy::planCharge({1, 1, 0, 0}, 0.2)));
}

TEST_F(LongRuns, StepsOneByOneEndWhereTheGrantEnds) {
  // Of a plan for the whole of a grant a few steps more do not fit, whichever orders are lost by then.
  double epsilon = *privacy::epsilonOf(plan, 0.6, kDelta);
  open(epsilon, 0.6);
  request.blockSteps = 4096;
  auto run = ledger->openRun(request);
  ASSERT_TRUE(run);
  uint64_t taken = 0;
  for (auto step = (*run)->takeStep(); step; step = (*run)->takeStep()) {
    taken = *step;
    ASSERT_LT(taken, 2 * kSteps);
  }
  EXPECT_GE(taken, kSteps);
  EXPECT_LT(taken, kSteps + kSteps / 100);
  EXPECT_GT(lostOrders(spentOn(*ledger)), 0u);
}

TEST_F(LongRuns, LostOrdersAdmitNothingByThemselves) {
  open(0x1p20, 1);
  privacy::Charge charge;
  charge.rdp.fill(privacy::kLost);
  for (size_t order = 0; order < charge.rdp.size(); ++order) {
    privacy::Charge total = charge;
    total.rdp[order] = (uint64_t{1} << 60) - (uint64_t{1} << 45);
    EXPECT_TRUE(admits({0x1p20, kDelta}, total)) << order;
    total.rdp[order] = uint64_t{1} << 62;
    EXPECT_FALSE(admits({0x1p20, kDelta}, total)) << order;
  }
  ASSERT_TRUE(reserve("k", charge));
  charge.rdp[0] = 1;
  EXPECT_EQ(textOf(reserve("l", charge)), "");
  ASSERT_TRUE(reserve("m", *privacy::planCharge({1, 1, 0, 0}, 0x1p-12)));
}

} // namespace sojourn::owner::ledger::test
