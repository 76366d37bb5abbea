// SPDX-License-Identifier: Apache-2.0
// Clients and datasets that go, or get another name or key: no sequence of it returns budget.
#include "test/owner/ledger/Support.h"

#include <array>
#include <set>

namespace sojourn::owner::ledger::test {

namespace {

std::string keyOf(char letter) { return std::string(32, letter); }

struct Names : AdasLedger {
  static void expectProblem(const Status &status, const std::string &part) {
    ASSERT_TRUE(status) << "expected: " << part;
    EXPECT_NE(status->text.find(part), std::string::npos) << status->text;
  }
  Ticket reserve(const ReserveRequest &request) {
    ReserveAnswer answer = ledger->reserve(request);
    EXPECT_EQ(textOf(answer), "");
    auto *ticket = std::get_if<Ticket>(&answer);
    return ticket ? *ticket : Ticket();
  }
  void spend(const std::string &key, uint64_t units, const std::string &client = "ada",
             const std::string &dataset = "people") {
    EXPECT_EQ(textOf(ledger->start(reserve(requestOf(key, units, client, dataset)))), "");
  }
  AccountLine account(const std::string &client, const std::string &dataset) {
    auto lines = ledger->accounts(client, dataset);
    EXPECT_TRUE(lines && lines->size() == 1);
    return lines && lines->size() == 1 ? lines->front() : AccountLine();
  }
  /// The same, by the file alone.
  void reopen() {
    ledger.reset();
    ledger = world.open();
    ASSERT_NE(ledger, nullptr);
    auto report = ledger->verify();
    ASSERT_TRUE(report) << report.problem().text;
  }
  void refuse(const std::string &dataset, const std::string &part, const std::string &client = "ada") {
    ReserveAnswer answer = ledger->reserve(requestOf("refused", 1, client, dataset));
    EXPECT_NE(textOf(answer).find(part), std::string::npos) << textOf(answer);
  }
};

} // namespace

TEST_F(Names, AccountsGoAlongWithANewName) {
  spend("k", 100'000);
  Ticket before = reserve(requestOf("void", 50'000));
  RunRequest asked;
  asked.client = "ada";
  asked.items = {{"people", "v1", "", chargeOf(1000)}};
  asked.blockSteps = 8;
  auto run = ledger->openRun(asked);
  ASSERT_TRUE(run);
  ASSERT_TRUE((*run)->takeStep());
  EXPECT_EQ(spentOn(*ledger), chargeOf(100'000) + chargeOf(50'000) + 8 * chargeOf(1000));
  ASSERT_EQ(textOf(ledger->renameDataset("people", "patients")), "");
  // What was under way returns its rest to the account that paid.
  EXPECT_EQ(textOf(ledger->cancel(before, "")), "");
  for (int step = 1; step < 9; ++step) {
    ASSERT_TRUE((*run)->takeStep()) << "the second block is charged to the new name";
  }
  EXPECT_EQ(textOf((*run)->close()), "");
  const privacy::Charge spent = chargeOf(100'000) + 9 * chargeOf(1000);
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(spentOn(*ledger), spent) << "the people are the same";
    EXPECT_EQ(account("ada", "patients").spent, spent);
    EXPECT_EQ(account("ada", "patients").grant.epsilon, 1);
    EXPECT_EQ(account("ada", "patients").population, "people");
    EXPECT_TRUE(ledger->accounts("ada", "people")->empty());
    refuse("people", "dataset 'people' was renamed and is now 'patients'");
    EXPECT_EQ(ledger->datasetName("people")->now, "patients");
    expectProblem(ledger->linkDataset("people", "", Relation::nullOne),
                  "'people' was the name of dataset 'patients', which has its budgets");
    reopen();
  }
  spend("l", 1000, "ada", "patients");
  refuse("patients", "");
  expectProblem(ledger->renameDataset("people", "x"), "no private dataset is named 'people'");
}

TEST_F(Names, ANameOfBeforeIsNobodyElses) {
  ASSERT_EQ(textOf(ledger->linkDataset("other", "", Relation::nullOne)), "");
  expectProblem(ledger->renameDataset("people", "other"), "'other' is the name of another dataset");
  ASSERT_EQ(textOf(ledger->renameDataset("people", "b")), "");
  ASSERT_EQ(textOf(ledger->renameDataset("b", "c")), "");
  expectProblem(ledger->renameDataset("other", "people"), "'people' was the name of dataset 'c'");
  expectProblem(ledger->renameDataset("other", "b"), "'b' was the name of dataset 'c'");
  EXPECT_EQ(ledger->datasetName("people")->now, "c");
  ASSERT_EQ(textOf(ledger->renameDataset("c", "people")), "") << "but its own";
  EXPECT_TRUE(ledger->datasetName("people")->isKnown);
  EXPECT_EQ(ledger->datasetName("b")->now, "people");
  EXPECT_EQ(ledger->datasetName("c")->now, "people");
  ASSERT_EQ(textOf(ledger->removeDataset("other")), "");
  expectProblem(ledger->renameDataset("people", "other"), "'other' is the name of a removed dataset");
  for (const std::string &name : {std::string(), std::string(257, 'n')}) {
    expectProblem(ledger->renameDataset("people", name), "1 to 256 are allowed");
  }
  reopen();
}

TEST_F(Names, WhatWasSpentOnARemovedDatasetStaysSpent) {
  spend("k", 600'000);
  RunRequest asked;
  asked.client = "ada";
  asked.items = {{"people", "v1", "", chargeOf(1000)}};
  asked.blockSteps = 1;
  auto run = ledger->openRun(asked);
  ASSERT_TRUE(run && (*run)->takeStep());
  ASSERT_EQ(textOf(ledger->removeDataset("people")), "");
  const privacy::Charge spent = chargeOf(600'000) + chargeOf(1000);
  auto refused = (*run)->takeStep();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.problem().text.find("dataset 'people' was removed"), std::string::npos);
  EXPECT_EQ(textOf((*run)->close()), "");
  for (int life = 0; life < 2; ++life) {
    refuse("people", "dataset 'people' was removed by the data owner");
    expectProblem(ledger->setGrant("ada", "people", {2, 0.5}), "was removed");
    expectProblem(ledger->removeDataset("people"), "was removed");
    expectProblem(ledger->renameDataset("people", "x"), "was removed");
    expectProblem(ledger->linkDataset("people", "", Relation::nullOne), "was removed; its budgets stay");
    expectProblem(ledger->linkDataset("people", "others", Relation::nullOne, /*again=*/true),
                  "already belongs to population 'people'");
    EXPECT_EQ(account("ada", "people").spent, spent);
    EXPECT_EQ(spentOn(*ledger), spent);
    reopen();
  }
  ASSERT_EQ(textOf(ledger->linkDataset("people", "people", Relation::nullOne, /*again=*/true)), "");
  EXPECT_EQ(account("ada", "people").spent, spent);
  refuse("people", "");
  ReserveAnswer answer = ledger->reserve(requestOf("more", 500'000));
  EXPECT_NE(textOf(answer).find("is spent"), std::string::npos) << textOf(answer);
  spend("rest", 300'000);
  EXPECT_EQ(textOf(ledger->setGrant("ada", "people", {0, 0})), "") << "may be taken at any time";
  reopen();
}

TEST_F(Names, ARemovedClientIsServedNoMoreAndItsSpendingCounts) {
  ASSERT_EQ(textOf(ledger->addClient("bob", keyOf('b'))), "");
  ASSERT_EQ(textOf(ledger->setGrant("bob", "people", {1, 0.5})), "");
  spend("k", 600'000, "bob");
  RunRequest asked;
  asked.client = "bob";
  asked.items = {{"people", "v1", "", chargeOf(1000)}};
  asked.blockSteps = 1;
  auto run = ledger->openRun(asked);
  ASSERT_TRUE(run && (*run)->takeStep());
  ASSERT_EQ(textOf(ledger->removeClient("bob")), "");
  EXPECT_FALSE((*run)->takeStep());
  EXPECT_EQ(textOf((*run)->close()), "");
  const privacy::Charge spent = chargeOf(600'000) + chargeOf(1000);
  for (int life = 0; life < 2; ++life) {
    EXPECT_FALSE(ledger->clients()->contains("bob"));
    EXPECT_EQ(ledger->removedClients()->at("bob"), keyOf('b'));
    EXPECT_FALSE(*ledger->keyOf("bob"));
    refuse("people", "no client is named 'bob'", "bob");
    EXPECT_EQ(account("bob", "people").spent, spent);
    EXPECT_EQ(account("bob", "people").grant.epsilon, 0);
    expectProblem(ledger->setGrant("bob", "people", {1, 0.5}), "no client is named 'bob'");
    expectProblem(ledger->removeClient("bob"), "no client is named 'bob'");
    expectProblem(ledger->changeKey("bob", keyOf('x')), "no client is named 'bob'");
    ReserveAnswer answer = ledger->reserve(requestOf("ada's", 500'000));
    EXPECT_NE(textOf(answer).find("the cap over all clients on dataset 'people' is spent"), std::string::npos);
    reopen();
  }
  expectProblem(ledger->addClient("bob", keyOf('c')), "client 'bob' was removed, and its charges still count");
  expectProblem(ledger->addClient("eve", keyOf('b')), "this key was that of client 'bob', which was removed");
  expectProblem(ledger->addClient("eve", keyOf('e'), /*again=*/true), "no removed client is named 'eve'");
  ASSERT_EQ(textOf(ledger->addClient("bob", keyOf('b'), /*again=*/true)), "");
  EXPECT_EQ(account("bob", "people").spent, spent);
  refuse("people", "the budget of client 'bob' on dataset 'people' is spent", "bob"); // a grant of zero
  ASSERT_EQ(textOf(ledger->setGrant("bob", "people", {1, 0.5})), "");
  ReserveAnswer answer = ledger->reserve(requestOf("more", 500'000, "bob"));
  EXPECT_NE(textOf(answer).find("the budget of client 'bob' on dataset 'people' is spent"), std::string::npos);
  reopen();
}

TEST_F(Names, AKeyIsOneClientsForEver) {
  ASSERT_EQ(textOf(ledger->addClient("bob", keyOf('b'))), "");
  ASSERT_EQ(textOf(ledger->setGrant("bob", "people", {1, 0.5})), "");
  spend("k", 400'000, "bob");
  expectProblem(ledger->addClient("eve", keyOf('b')), "this key already belongs to client 'bob'");
  expectProblem(ledger->changeKey("bob", keyOf('b')), "this key already belongs to client 'bob'");
  expectProblem(ledger->changeKey("bob", "short"), "has 5 bytes");
  ASSERT_EQ(textOf(ledger->changeKey("bob", keyOf('c'))), "");
  EXPECT_EQ(*ledger->keyOf("bob"), keyOf('c'));
  EXPECT_EQ(account("bob", "people").spent, chargeOf(400'000));
  EXPECT_EQ(account("bob", "people").grant.epsilon, 1);
  for (int life = 0; life < 2; ++life) {
    for (const char *name : {"eve", "bob"}) {
      Status status =
          name == std::string("bob") ? ledger->changeKey(name, keyOf('b')) : ledger->addClient(name, keyOf('b'));
      expectProblem(status, "client 'bob' had this key before");
    }
    expectProblem(ledger->addClient("eve", keyOf('c')), "this key already belongs to client 'bob'");
    reopen();
  }
  ASSERT_EQ(textOf(ledger->removeClient("bob")), "");
  expectProblem(ledger->addClient("bob", keyOf('b'), /*again=*/true), "client 'bob' had this key before");
  ASSERT_EQ(textOf(ledger->addClient("bob", keyOf('d'), /*again=*/true)), "");
  EXPECT_EQ(account("bob", "people").spent, chargeOf(400'000));
}

TEST_F(Names, SuchEntriesAreTheOwners) {
  for (const Body &body : {Body(KeyChanged{"ada", keyOf('k')}), Body(ClientRemoved{"ada"}),
                           Body(DatasetRenamed{"people", "b"}), Body(DatasetRemoved{"people"})}) {
    EXPECT_TRUE(isOwners(body)) << kindName(body) << " needs a signature";
    Entry entry{7, 7, hashNumber(6), world.nowMs, body};
    auto again = decode(encode(entry));
    ASSERT_TRUE(again);
    EXPECT_EQ(encode(*again), encode(entry));
    EXPECT_EQ(again->body.index(), body.index());
  }
}

/// Owners and clients do what they like; a model that knows datasets by a number, and not by their names, tells what
/// was spent by whom on whom.
TEST_F(Names, NoSequenceReturnsBudget) {
  const uint64_t seed = freshSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  auto below = [&](size_t count) { return static_cast<size_t>(random() % count); };
  const std::array<std::string, 4> clients = {"ada", "bob", "cleo", "dan"};
  std::map<std::string, int> dataset = {{"people", 0}}; // by present name
  std::vector<std::string> populations = {"people"};
  std::map<std::pair<std::string, int>, uint64_t> spent;
  std::map<std::string, uint64_t> onPeople;
  std::map<std::string, int> former;
  std::map<std::pair<std::string, int>, uint64_t> overruns;
  size_t counted = 0, forgiven = 0;
  size_t charges = 0, done = 0, renamed = 0;
  for (int step = 0; step < 3000 || ((charges <= 50 || counted <= 20 || forgiven == 0) && step < 30'000); ++step) {
    const std::string client = clients[below(4)], other = "n" + std::to_string(below(40));
    const std::string name = below(5) == 0
                                 ? "n" + std::to_string(below(40))
                                 : std::next(dataset.begin(), static_cast<ptrdiff_t>(below(dataset.size())))->first;
    Status status;
    auto key = [&] { return keyOf(static_cast<char>(below(120))); };
    const size_t what = below(40);
    if (what < 2) {
      status = ledger->renameDataset(name, other);
      if (!status) {
        ASSERT_TRUE(dataset.contains(name));
        ++renamed;
        former[name] = dataset[name];
        auto moved = dataset.extract(name);
        moved.key() = other;
        EXPECT_TRUE(dataset.insert(std::move(moved)).inserted) << "a name of two";
      }
    } else if (what < 4) {
      status = ledger->removeDataset(name);
    } else if (what < 8 && (what == 4 || ledger->datasetName(name)->isRemoved)) {
      status = ledger->linkDataset(name, below(3) ? "" : other, Relation::nullOne, /*again=*/below(2) == 0);
      if (!status && !dataset.contains(name)) {
        dataset[name] = static_cast<int>(populations.size());
        populations.push_back(ledger->datasetName(name)->population);
      }
    } else if (what < 12) {
      status = ledger->addClient(client, key(), /*again=*/below(2) == 0);
    } else if (what < 13) {
      status = ledger->removeClient(client);
    } else if (what < 15) {
      status = ledger->changeKey(client, key());
    } else if (what < 18) {
      status = ledger->setCap(name, {100, 0.5});
    } else if (what < 26) {
      status = ledger->setGrant(client, name, {100, 0.5});
    } else if (what < 28) {
      const uint64_t bits = 1 + below(4);
      status = ledger->addOverruns(client, name, bits);
      if (!status) {
        ASSERT_TRUE(dataset.contains(name) || former.contains(name)) << "overruns on nobody's dataset";
        overruns[{client, dataset.contains(name) ? dataset[name] : former[name]}] += bits;
        ++counted;
      }
    } else if (what < 29) {
      status = ledger->forgiveOverruns(client, name);
      if (!status) {
        ASSERT_TRUE(dataset.contains(name));
        EXPECT_GT((overruns[{client, dataset[name]}]), 0u);
        overruns[{client, dataset[name]}] = 0;
        ++forgiven;
      }
    } else {
      const uint64_t units = 1 + below(1000);
      ReserveAnswer answer = ledger->reserve(requestOf("k" + std::to_string(step), units, client, name));
      if (auto *ticket = std::get_if<Ticket>(&answer)) {
        ++charges;
        EXPECT_EQ(textOf(ledger->start(*ticket)), "");
        ASSERT_TRUE(dataset.contains(name)) << "a charge to nobody's dataset";
        spent[{client, dataset[name]}] += units;
        onPeople[populations[static_cast<size_t>(dataset[name])]] += units;
      }
    }
    done += status ? 0 : 1;
    if (step % 1000 == 999) {
      reopen();
    }
  }
  EXPECT_GT(charges, 50u);
  EXPECT_GT(renamed, 5u);
  EXPECT_GT(counted, 20u);
  EXPECT_GT(forgiven, 0u);
  EXPECT_GT(done, 500u);
  for (const auto &[who, units] : spent) {
    for (const auto &[name, number] : dataset) {
      if (number == who.second) {
        EXPECT_EQ(account(who.first, name).spent.delta, units) << who.first << " on " << name;
      }
    }
  }
  for (const auto &[name, number] : dataset) {
    for (const std::string &client : clients) {
      EXPECT_EQ(*ledger->overruns(client, name), (overruns[{client, number}])) << client << " on " << name;
    }
  }
  for (const auto &[population, units] : onPeople) {
    EXPECT_EQ(spentOn(*ledger, population).delta, units) << population;
  }
  // Each key is one client's.
  std::set<std::string> keys;
  auto known = ledger->clients();
  ASSERT_TRUE(known);
  for (const auto &[name, key] : *known) {
    EXPECT_TRUE(key.empty() || keys.insert(key).second) << name;
  }
}

} // namespace sojourn::owner::ledger::test
