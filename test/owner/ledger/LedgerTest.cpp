// SPDX-License-Identifier: Apache-2.0
// The ledger's rules one by one: states, retries, budgets, runs, and the texts of refusals.
#include "test/owner/ledger/Support.h"

namespace sojourn::owner::ledger::test {

namespace {

struct Rules : AdasLedger {
  Ticket reserve(const ReserveRequest &request) {
    ReserveAnswer answer = ledger->reserve(request);
    EXPECT_EQ(textOf(answer), "");
    auto *ticket = std::get_if<Ticket>(&answer);
    return ticket ? *ticket : Ticket();
  }
  void expectProblem(const ReserveAnswer &answer, Code code, const std::string &part) {
    auto *problem = std::get_if<Problem>(&answer);
    ASSERT_NE(problem, nullptr);
    EXPECT_EQ(problem->code, code) << problem->text;
    EXPECT_NE(problem->text.find(part), std::string::npos) << problem->text;
  }
  static void expectProblem(const Status &status, Code code, const std::string &part) {
    ASSERT_TRUE(status);
    EXPECT_EQ(status->code, code) << status->text;
    EXPECT_NE(status->text.find(part), std::string::npos) << status->text;
  }
  void publish(const std::string &key, uint64_t units, const std::string &bytes) {
    Ticket ticket = reserve(requestOf(key, units));
    ASSERT_EQ(textOf(ledger->start(ticket)), "");
    ASSERT_TRUE(ledger->seal(ticket, bytes));
    ASSERT_EQ(textOf(ledger->deliver(ticket)), "");
  }
  void reopen() {
    ledger.reset();
    ledger = world.open();
  }
};

RunRequest runOf(uint64_t units, uint64_t steps, bool whole = false) {
  RunRequest request;
  request.client = "ada";
  request.items = {{"people", "v1", "", chargeOf(units)}};
  request.steps = steps;
  request.whole = whole;
  request.blockSteps = 8;
  return request;
}

} // namespace

TEST_F(Rules, APublishGoesThroughAllStates) {
  Ticket ticket = reserve(requestOf("k", 1000));
  EXPECT_EQ(spentOn(*ledger), chargeOf(1000)) << "reservations count as spent";
  expectProblem(ledger->deliver(ticket), Code::badRequest, "is reserved and cannot become delivered");
  EXPECT_FALSE(ledger->seal(ticket, "x")) << "coins need a durable start";
  EXPECT_EQ(textOf(ledger->start(ticket)), "");
  expectProblem(ledger->cancel(ticket, ""), Code::badRequest, "is started and cannot become void");
  auto sealed = ledger->seal(ticket, "bytes");
  ASSERT_TRUE(sealed);
  EXPECT_EQ(sealed->digest, hashOf("bytes"));
  expectProblem(ledger->burn(ticket, ""), Code::badRequest, "is sealed");
  EXPECT_EQ(textOf(ledger->deliver(ticket)), "");
  EXPECT_EQ(textOf(ledger->deliver(ticket)), "") << "noted once";
  auto lines = ledger->entries(100);
  ASSERT_TRUE(lines);
  std::string kinds;
  for (const Listed &line : *lines) {
    kinds += std::string(kindName(line.entry.body)) + ", ";
  }
  EXPECT_EQ(kinds, "delivered, sealed, started, reserved, grant set, cap set, dataset linked, client added, ");
  EXPECT_EQ((*lines)[1].hash, sealed->hash);
  EXPECT_EQ((*lines)[1].entry.seq, sealed->seq);
  EXPECT_EQ((*lines)[0].client, "ada");
  EXPECT_EQ((*lines)[0].datasets, std::vector<std::string>{"people"});
  EXPECT_EQ(spentOn(*ledger), chargeOf(1000));
}

TEST_F(Rules, ARetryGetsTheVeryBytes) {
  std::string bytes("\0\xff noise", 8);
  publish("k", 1000, bytes);
  for (int round = 0; round < 2; ++round) {
    ReserveAnswer answer = ledger->reserve(requestOf("k", 1000));
    auto *sealed = std::get_if<SealedBytes>(&answer);
    ASSERT_NE(sealed, nullptr) << textOf(answer);
    EXPECT_EQ(sealed->bytes, bytes);
    EXPECT_TRUE(sealed->delivered);
    EXPECT_EQ(sealed->request.what, "mean of age");
    EXPECT_EQ(sealed->request.items[0].population, "people");
    EXPECT_EQ(sealed->request.sites, requestOf("k", 1).sites);
    EXPECT_EQ(spentOn(*ledger), chargeOf(1000)) << "no new charge";
    auto early = ledger->retry("ada", "k", hashOf("k"));
    ASSERT_TRUE(early && *early);
    EXPECT_EQ((*early)->bytes, bytes);
    EXPECT_EQ((*early)->hash, sealed->hash) << "so that the receipt is the same";
    reopen();
  }
  ASSERT_TRUE(ledger->retry("ada", "other", hashOf("k")));
  EXPECT_FALSE(*ledger->retry("ada", "other", hashOf("k")));
}

TEST_F(Rules, KeysBelongToOneRequest) {
  publish("k", 1000, "x");
  ReserveRequest other = requestOf("k", 1000);
  other.moduleHash = hashOf("another program");
  expectProblem(ledger->reserve(other), Code::keyReused, "idempotency key 'k' belongs to publish 5");
  Ticket ticket = reserve(requestOf("void", 1000));
  expectProblem(ledger->reserve(requestOf("void", 1000)), Code::inFlight, "is running");
  EXPECT_EQ(textOf(ledger->cancel(ticket, "the client left")), "");
  EXPECT_EQ(spentOn(*ledger), chargeOf(1000));
  ReserveRequest changed = requestOf("void", 1000);
  changed.moduleHash = hashOf("another program");
  expectProblem(ledger->reserve(changed), Code::keyReused, "'void'");
  EXPECT_NE(reserve(requestOf("void", 1000)).id, 0u) << "nothing was paid for, so the key is free";
  EXPECT_EQ(textOf(ledger->addClient("eve", "")), "");
  EXPECT_EQ(textOf(ledger->setGrant("eve", "people", {1, 0.5})), "");
  EXPECT_NE(reserve(requestOf("k", 1000, "eve")).id, 0u) << "a key is one client's own";
}

TEST_F(Rules, WhatStartedAndWasLostIsBurnt) {
  Ticket ticket = reserve(requestOf("k", 1000));
  EXPECT_EQ(textOf(ledger->start(ticket)), "");
  EXPECT_EQ(textOf(ledger->burn(ticket, "the deadline passed")), "");
  expectProblem(ledger->reserve(requestOf("k", 1000)), Code::burnt, "a new key pays again");
  EXPECT_EQ(spentOn(*ledger), chargeOf(1000));
  Ticket second = reserve(requestOf("k2", 1000));
  EXPECT_EQ(textOf(ledger->start(second)), "");
  Ticket third = reserve(requestOf("k3", 1000));
  EXPECT_NE(third.id, 0u);
  reopen();
  expectProblem(ledger->reserve(requestOf("k2", 1000)), Code::burnt, "burnt");
  EXPECT_EQ(spentOn(*ledger), 2 * chargeOf(1000)) << "the reservation that never started is void";
  EXPECT_NE(reserve(requestOf("k3", 1000)).id, 0u);
  auto checked = ledger->verify();
  ASSERT_TRUE(checked) << checked.problem().text;
}

TEST_F(Rules, BytesExpireAndAreNeverMadeAgain) {
  publish("k", 1000, "x");
  world.nowMs += kKeepSealedMs;
  ASSERT_TRUE(std::holds_alternative<SealedBytes>(ledger->reserve(requestOf("k", 1000)))) << "thirty days are kept";
  world.nowMs += 1;
  expectProblem(ledger->reserve(requestOf("k", 1000)), Code::expired, "30 days");
  reopen();
  expectProblem(ledger->reserve(requestOf("k", 1000)), Code::expired, "expired");
  ASSERT_TRUE(ledger->verify());
  EXPECT_EQ(ledger->verify()->sealedBytes, 0u) << "and the bytes are gone";
  world.nowMs -= kKeepSealedMs;
  expectProblem(ledger->reserve(requestOf("k", 1000)), Code::expired, "expired");
}

TEST_F(Rules, BudgetsAreAskedForTogether) {
  EXPECT_EQ(textOf(ledger->linkDataset("visits", "people", Relation::nullOne)), "");
  EXPECT_EQ(textOf(ledger->addClient("eve", "")), "");
  EXPECT_EQ(textOf(ledger->setGrant("ada", "visits", {0.5, 0.5})), "");
  EXPECT_EQ(textOf(ledger->setGrant("eve", "people", {0.75, 0.5})), "");
  EXPECT_NE(reserve(requestOf("a", 500'000, "ada", "visits")).id, 0u);
  ReserveAnswer own = ledger->reserve(requestOf("b", 1, "ada", "visits"));
  expectProblem(own, Code::budgetExhausted, "the budget of client 'ada' on dataset 'visits' is spent");
  EXPECT_NE(reserve(requestOf("c", 400'000, "eve")).id, 0u);
  ReserveAnswer all = ledger->reserve(requestOf("d", 200'000, "eve"));
  expectProblem(all, Code::budgetExhausted, "the cap over all clients on dataset 'people' is spent");
  const Exhausted &numbers = *std::get<Problem>(all).exhausted;
  EXPECT_EQ(numbers.client, "");
  EXPECT_EQ(numbers.budget, (Grant{1, 0.5}));
  EXPECT_EQ(numbers.spent, chargeOf(500'000) + chargeOf(400'000));
  EXPECT_EQ(numbers.asked, chargeOf(200'000));
  EXPECT_EQ(std::get<Problem>(own).exhausted->client, "ada");
  EXPECT_NE(reserve(requestOf("e", 100'000, "eve")).id, 0u) << "a refusal costs nothing";
}

TEST_F(Rules, OneReleaseFromTwoTables) {
  EXPECT_EQ(textOf(ledger->linkDataset("visits", "people", Relation::nullOne)), "");
  EXPECT_EQ(textOf(ledger->linkDataset("cars", "", Relation::nullOne)), "");
  EXPECT_EQ(textOf(ledger->setCap("cars", {0.5, 0.5})), "");
  EXPECT_EQ(textOf(ledger->setGrant("ada", "cars", {0.5, 0.5})), "");
  ReserveRequest request = requestOf("k", 100'000);
  request.items.push_back({"visits", "v1", "", chargeOf(1)});
  expectProblem(ledger->reserve(request), Code::sharedPeople, "'people' and 'visits' hold the same people");
  request.items[1].dataset = "people";
  expectProblem(ledger->reserve(request), Code::sharedPeople, "reads dataset 'people' as two tables");
  request.items[1] = {"cars", "v9", "", chargeOf(600'000)};
  expectProblem(ledger->reserve(request), Code::budgetExhausted, "'cars'");
  EXPECT_EQ(spentOn(*ledger), chargeOf(0)) << "all or nothing";
  request.items[1].charge = chargeOf(300'000);
  EXPECT_NE(reserve(request).id, 0u);
  EXPECT_EQ(spentOn(*ledger), chargeOf(100'000));
  EXPECT_EQ(spentOn(*ledger, "cars"), chargeOf(300'000));
}

TEST_F(Rules, NamesAndGrantsThatAreNotThere) {
  expectProblem(ledger->setGrant("bob", "people", {1, 0}), Code::unknownClient, "sojourn-owner client add bob");
  expectProblem(ledger->setGrant("ada", "pets", {1, 0}), Code::unknownDataset, "'pets'");
  EXPECT_EQ(textOf(ledger->linkDataset("pets", "", Relation::replaceOne)), "");
  expectProblem(ledger->setGrant("ada", "pets", {1, 0}), Code::noCap,
                "sojourn-owner budget cap pets --epsilon E --delta D");
  expectProblem(ledger->reserve(requestOf("k", 1, "ada", "pets")), Code::otherRelation, "replace_one");
  ReserveRequest request = requestOf("k", 1, "ada", "pets");
  request.relation = Relation::replaceOne;
  expectProblem(ledger->reserve(request), Code::noCap, "sojourn-owner budget grant ada pets");
  EXPECT_EQ(textOf(ledger->setCap("pets", {1, 0.1})), "");
  expectProblem(ledger->reserve(request), Code::noGrant, "sojourn-owner budget grant ada pets");
  expectProblem(ledger->reserve(requestOf("k", 1, "bob")), Code::unknownClient, "no client is named 'bob'");
  expectProblem(ledger->reserve(requestOf("k", 1, "ada", "sky")), Code::unknownDataset, "'sky'");
  expectProblem(ledger->reserve(requestOf("", 1)), Code::badRequest, "idempotency key has 0 bytes");
  expectProblem(ledger->setCap("sky", {1, 0}), Code::unknownDataset, "'sky'");
  expectProblem(ledger->addClient("ada", ""), Code::badRequest, "'ada' already exists");
  expectProblem(ledger->addClient("bob", "short"), Code::badRequest, "has 5 bytes");
  expectProblem(ledger->linkDataset("pets", "people", Relation::replaceOne), Code::badRequest, "stays there");
  expectProblem(ledger->linkDataset("visits", "people", Relation::replaceOne), Code::otherRelation, "null_one");
  EXPECT_EQ(textOf(ledger->linkDataset("pets", "", Relation::replaceOne)), "") << "a new version";
  for (Grant bad : {Grant{-1, 0}, Grant{NAN, 0}, Grant{INFINITY, 0}, Grant{1, -1e-9}, Grant{1, 1}, Grant{1, NAN}}) {
    expectProblem(ledger->setCap("people", bad), Code::badRequest, "epsilon must be finite");
    expectProblem(ledger->setGrant("ada", "people", bad), Code::badRequest, "delta at least 0 and below 1");
  }
  ASSERT_TRUE(ledger->verify());
}

TEST_F(Rules, LoweringAGrantNeverTakesBackWhatWasSpent) {
  publish("k", 600'000, "x");
  EXPECT_EQ(textOf(ledger->setGrant("ada", "people", {0.5, 0.5})), "");
  EXPECT_EQ(spentOn(*ledger), chargeOf(600'000));
  expectProblem(ledger->reserve(requestOf("l", 1)), Code::budgetExhausted, "is spent");
  EXPECT_EQ(textOf(ledger->setGrant("ada", "people", {0, 0})), "") << "taken away";
  expectProblem(ledger->reserve(requestOf("l", 0)), Code::budgetExhausted, "is spent");
  EXPECT_EQ(textOf(ledger->setGrant("ada", "people", {0.7, 0.5})), "");
  EXPECT_NE(reserve(requestOf("l", 100'000)).id, 0u);
  expectProblem(ledger->reserve(requestOf("m", 1)), Code::budgetExhausted, "is spent");
  auto lines = ledger->accounts("ada", "people");
  ASSERT_TRUE(lines);
  ASSERT_EQ(lines->size(), 1u);
  EXPECT_EQ((*lines)[0].grant, (Grant{0.7, 0.5}));
  EXPECT_EQ((*lines)[0].spent, chargeOf(600'000) + chargeOf(100'000));
}

TEST_F(Rules, AnOrderThatIsLostStaysLostAndTheOthersCount) {
  auto lossy = [](const std::string &key, uint64_t units) {
    ReserveRequest request = requestOf(key, units);
    request.items[0].charge.rdp[3] = privacy::kLost / 2 + 10;
    return request;
  };
  Ticket first = reserve(lossy("a", 1000)), second = reserve(lossy("b", 1000));
  privacy::Charge expected = 2 * chargeOf(1000);
  expected.rdp[3] = privacy::kLost;
  EXPECT_EQ(spentOn(*ledger), expected) << "the filter has another order to go by";
  EXPECT_EQ((*ledger->accounts())[0].spent, expected);
  EXPECT_EQ(textOf(ledger->cancel(second, "")), "");
  EXPECT_EQ(textOf(ledger->cancel(first, "")), "");
  expected = {};
  expected.rdp[3] = privacy::kLost;
  EXPECT_EQ(spentOn(*ledger), expected) << "what was not counted cannot be taken away";
  auto run = ledger->openRun(runOf(1000, 100, /*whole=*/true));
  ASSERT_TRUE(run);
  ASSERT_TRUE((*run)->takeStep());
  EXPECT_EQ(textOf((*run)->close()), "");
  expected = chargeOf(1000);
  expected.rdp[3] = privacy::kLost;
  EXPECT_EQ(spentOn(*ledger), expected);
  ASSERT_TRUE(ledger->verify());
  reopen();
  EXPECT_EQ(spentOn(*ledger), expected);
  ASSERT_TRUE(ledger->verify());
  expectProblem(ledger->reserve(requestOf("c", 999'001)), Code::budgetExhausted, "is spent");
  EXPECT_NE(reserve(requestOf("d", 999'000)).id, 0u);
}

TEST_F(Rules, WhereEveryOrderIsLostNothingIsAdmitted) {
  auto everything = world.options();
  everything.path = ":memory:";
  everything.admits = [](const Grant &, const privacy::Charge &) { return true; };
  auto open = Ledger::open(everything);
  ASSERT_TRUE(open);
  admitAda(**open, 1);
  ReserveRequest request = requestOf("k", 1);
  request.items[0].charge.rdp.fill(privacy::kLost);
  expectProblem((*open)->reserve(request), Code::budgetExhausted, "is spent");
  request.items[0].charge.rdp[5] = privacy::kLost / 2 + 10;
  EXPECT_EQ(textOf((*open)->reserve(request)), "");
  request.key = "l";
  expectProblem((*open)->reserve(request), Code::budgetExhausted, "is spent");
  request.items[0].charge = chargeOf(1);
  request.items[0].charge.delta = privacy::kLost;
  expectProblem((*open)->reserve(request), Code::budgetExhausted, "is spent");
  EXPECT_FALSE((*open)->openRun(runOf(1'000'000, uint64_t{1} << 40))) << "its delta comes to one";
  EXPECT_TRUE((*open)->openRun(runOf(1'000'000, uint64_t{1} << 40 >> 24)));
}

TEST_F(Rules, StepsOfARunAreCountedInBlocks) {
  auto run = ledger->openRun(runOf(1000, 20));
  ASSERT_TRUE(run) << run.problem().text;
  EXPECT_EQ(spentOn(*ledger), chargeOf(0)) << "checked, not held";
  for (uint64_t step = 1; step <= 20; ++step) {
    auto taken = (*run)->takeStep();
    ASSERT_TRUE(taken) << taken.problem().text;
    EXPECT_EQ(*taken, step);
    EXPECT_EQ(spentOn(*ledger), std::min<uint64_t>((step + 7) / 8 * 8, 20) * chargeOf(1000));
  }
  auto beyond = (*run)->takeStep();
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.problem().code, Code::planExceeded);
  EXPECT_NE(beyond.problem().text.find("plan has 20 steps"), std::string::npos);
  EXPECT_EQ(textOf((*run)->close()), "");
  EXPECT_EQ(textOf((*run)->close()), "");
  EXPECT_FALSE((*run)->takeStep());
  EXPECT_EQ(spentOn(*ledger), 20 * chargeOf(1000));
}

TEST_F(Rules, StepsThatWereNotTakenAreReturned) {
  for (bool whole : {false, true}) {
    privacy::Charge before = spentOn(*ledger);
    auto run = ledger->openRun(runOf(1000, 100, whole));
    ASSERT_TRUE(run);
    for (int step = 0; step < 11; ++step) {
      ASSERT_TRUE((*run)->takeStep());
    }
    EXPECT_EQ(spentOn(*ledger), before + (whole ? 100 : 16) * chargeOf(1000));
    EXPECT_EQ(textOf((*run)->close()), "");
    EXPECT_EQ(spentOn(*ledger), before + 11 * chargeOf(1000));
  }
}

TEST_F(Rules, ARestartBurnsTheOpenBlock) {
  for (bool whole : {false, true}) {
    privacy::Charge before = spentOn(*ledger);
    {
      auto run = ledger->openRun(runOf(1000, 100, whole));
      ASSERT_TRUE(run);
      for (int step = 0; step < 11; ++step) {
        ASSERT_TRUE((*run)->takeStep());
      }
    }
    reopen();
    EXPECT_EQ(spentOn(*ledger), before + 16 * chargeOf(1000));
    auto lines = ledger->entries(2);
    ASSERT_TRUE(lines);
    EXPECT_EQ(std::get<RunClosed>((*lines)[0].entry.body).used, 16u);
    EXPECT_TRUE(std::get<BlockEnded>((*lines)[1].entry.body).burnt);
    EXPECT_EQ((*lines)[1].client, "ada");
  }
}

TEST_F(Rules, APlanThatDoesNotFitIsRefusedBeforeItsFirstStep) {
  for (bool whole : {false, true}) {
    auto run = ledger->openRun(runOf(1000, 1001, whole));
    ASSERT_FALSE(run);
    EXPECT_EQ(run.problem().code, Code::budgetExhausted);
    EXPECT_EQ(run.problem().exhausted->asked, 1001 * chargeOf(1000));
  }
  EXPECT_FALSE(ledger->openRun(runOf(1000, 0, /*whole=*/true)));
  EXPECT_EQ(spentOn(*ledger), chargeOf(0));
  auto run = ledger->openRun(runOf(1000, 1000, /*whole=*/true));
  ASSERT_TRUE(run);
  expectProblem(ledger->reserve(requestOf("k", 1)), Code::budgetExhausted, "is spent");
  auto other = (*run)->takeStep({chargeOf(1)});
  ASSERT_FALSE(other) << "a whole run has one price";
  EXPECT_EQ(other.problem().code, Code::badRequest);
  for (int step = 0; step < 1000; ++step) {
    ASSERT_TRUE((*run)->takeStep());
  }
  EXPECT_EQ(textOf((*run)->close()), "");
}

/// Else refused steps fill the books: each opened a run.
TEST_F(Rules, ARunWithoutAPlanHasRoomForAStep) {
  const size_t entries = ledger->entries(1000)->size();
  EXPECT_FALSE(ledger->openRun(runOf(2'000'000, 0)));
  EXPECT_EQ(ledger->entries(1000)->size(), entries);
  EXPECT_TRUE(ledger->openRun(runOf(1000, 0)));
}

TEST_F(Rules, TheLastOfABudgetIsSpentToTheLastStep) {
  auto run = ledger->openRun(runOf(1000, 0));
  ASSERT_TRUE(run);
  EXPECT_NE(reserve(requestOf("k", 987'000)).id, 0u);
  for (int step = 0; step < 13; ++step) {
    ASSERT_TRUE((*run)->takeStep()) << step;
  }
  for (int again = 0; again < 2; ++again) {
    auto refused = (*run)->takeStep();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.problem().code, Code::budgetExhausted);
    EXPECT_NE(refused.problem().text.find("the run took 13 steps"), std::string::npos) << refused.problem().text;
  }
  EXPECT_EQ((*run)->taken(), 13u);
  EXPECT_EQ(textOf((*run)->close()), "");
  EXPECT_EQ(spentOn(*ledger), 13 * chargeOf(1000) + chargeOf(987'000));
}

TEST_F(Rules, AStepMayHaveAPriceOfItsOwn) {
  auto run = ledger->openRun(runOf(1000, 100));
  ASSERT_TRUE(run);
  for (uint64_t units : {1000, 1000, 5000, 1000}) {
    ASSERT_TRUE((*run)->takeStep({chargeOf(units)}));
  }
  EXPECT_FALSE((*run)->takeStep({chargeOf(1), chargeOf(1)})) << "one for each dataset";
  EXPECT_EQ(textOf((*run)->close()), "");
  EXPECT_EQ(spentOn(*ledger), 3 * chargeOf(1000) + chargeOf(5000));
  ASSERT_TRUE(ledger->verify());
}

TEST_F(Rules, OnlyAServerCharges) {
  auto options = world.options();
  options.serves = false;
  options.admits = nullptr;
  Ticket ticket = reserve(requestOf("k", 1000));
  auto tool = Ledger::open(options);
  ASSERT_TRUE(tool) << tool.problem().text;
  expectProblem((*tool)->reserve(requestOf("l", 1)), Code::badRequest, "opened for administration");
  EXPECT_FALSE((*tool)->openRun(runOf(1, 1)));
  EXPECT_EQ(textOf((*tool)->addClient("eve", std::string(32, 'k'))), "");
  EXPECT_EQ(textOf((*tool)->setGrant("eve", "people", {1, 0.5})), "");
  expectProblem((*tool)->cancel(ticket, ""), Code::badRequest, "belongs to another process");
  EXPECT_EQ(textOf(ledger->start(ticket)), "") << "a tool ends nothing of a server that lives";
  EXPECT_NE(reserve(requestOf("l", 1, "eve")).id, 0u) << "and what it grants is seen at once";
  EXPECT_EQ((*ledger->clients())["eve"], std::string(32, 'k'));
  EXPECT_EQ(spentOn(**tool), spentOn(*ledger));
}

TEST_F(Rules, TheEmbeddedOwnerKeepsEverythingInMemory) {
  auto embedded = world.open(/*inMemory=*/true);
  ASSERT_NE(embedded, nullptr);
  admitAda(*embedded, 1);
  ReserveAnswer answer = embedded->reserve(requestOf("k", 1000));
  Ticket ticket = std::get<Ticket>(answer);
  EXPECT_EQ(textOf(embedded->start(ticket)), "");
  ASSERT_TRUE(embedded->seal(ticket, "x"));
  EXPECT_TRUE(std::holds_alternative<SealedBytes>(embedded->reserve(requestOf("k", 1000))));
  EXPECT_EQ(spentOn(*embedded), chargeOf(1000));
  EXPECT_EQ(spentOn(*ledger), chargeOf(0));
  ASSERT_TRUE(embedded->verify());
}

} // namespace sojourn::owner::ledger::test
