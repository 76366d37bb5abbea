// SPDX-License-Identifier: Apache-2.0
// Sums and states, entry by entry. Each `enter` checks everything before it changes anything.
#include "owner/ledger/Books.h"

#include <cmath>
#include <map>

namespace sojourn::owner::ledger {

static Problem illegal(const std::string &text) { return problem(Code::badRequest, text); }

static Status checkName(const std::string &name, const char *what) {
  if (name.empty() || name.size() > kNameBytesMost) {
    return illegal(std::string(what) + " has " + std::to_string(name.size()) + " bytes; 1 to " +
                   std::to_string(kNameBytesMost) + " are allowed");
  }
  return {};
}

static Status checkGrant(const Grant &grant) {
  // Zeros are fine: they take a grant away.
  if (!(std::isfinite(grant.epsilon) && grant.epsilon >= 0 && grant.delta >= 0 && grant.delta < 1)) {
    return illegal("epsilon is " + std::to_string(grant.epsilon) + " and delta " + std::to_string(grant.delta) +
                   "; epsilon must be finite and not negative, delta at least 0 and below 1");
  }
  return {};
}

Status Books::apply(const Entry &entry, const Hash &entryHash, bool wasDecided) {
  if (entry.seq != seq + 1 || entry.previous != hash) {
    return problem(Code::damaged, "it does not follow entry " + std::to_string(seq));
  }
  if (entry.batch != batch && entry.batch != entry.seq) {
    return problem(Code::damaged, "its batch " + std::to_string(entry.batch) + " is neither its own nor the last one");
  }
  decided = wasDecided;
  Status status = std::visit([&](const auto &body) { return enter(entry, body); }, entry.body);
  decided = false;
  if (status) {
    return status;
  }
  if (entry.batch != batch) {
    seqBeforeBatch = seq;
    hashBeforeBatch = hash;
    batch = entry.batch;
  }
  seq = entry.seq;
  hash = entryHash;
  return {};
}

Status Books::enter(const Entry &, const ClientAdded &body) {
  if (Status status = checkName(body.client, "the client's name")) {
    return status;
  }
  if (!body.publicKey.empty() && body.publicKey.size() != 32) {
    return illegal("the key of client '" + body.client + "' has " + std::to_string(body.publicKey.size()) +
                   " bytes; an Ed25519 key has 32");
  }
  if (clients.contains(body.client)) {
    return illegal("a client named '" + body.client + "' already exists; choose another name");
  }
  clients[body.client] = body.publicKey;
  removedClients.erase(body.client);
  if (!body.publicKey.empty()) {
    holders.try_emplace(body.publicKey, body.client); // of an earlier release two may have one
  }
  return {};
}

Status Books::enter(const Entry &, const DatasetLinked &body) {
  if (Status status = checkName(body.dataset, "the dataset's name")) {
    return status;
  }
  if (Status status = checkName(body.population, "the population's name")) {
    return status;
  }
  if (auto now = formerNames.find(body.dataset); now != formerNames.end()) {
    return illegal("'" + body.dataset + "' was the name of dataset '" + now->second + "', which has its budgets");
  }
  if (auto found = datasets.find(body.dataset); found != datasets.end()) {
    if (found->second == body.population && populations.at(body.population).relation == body.relation &&
        removedDatasets.erase(body.dataset) > 0) {
      return {};
    }
    return illegal("dataset '" + body.dataset + "' already belongs to population '" + found->second +
                   "' and stays there with its charges");
  }
  auto found = populations.find(body.population);
  if (found != populations.end() && found->second.relation != body.relation) {
    return problem(Code::otherRelation, "population '" + body.population + "' is accounted under " +
                                            relationName(found->second.relation) + ", not under " +
                                            relationName(body.relation));
  }
  datasets[body.dataset] = body.population;
  Population &population = populations[body.population];
  population.relation = body.relation;
  population.datasets.push_back(body.dataset);
  return {};
}

Status Books::enter(const Entry &, const CapSet &body) {
  if (Status status = checkGrant(body.grant)) {
    return status;
  }
  auto found = populations.find(body.population);
  if (found == populations.end()) {
    return problem(Code::unknownDataset, "no dataset has population '" + body.population + "'");
  }
  found->second.cap = body.grant;
  return {};
}

Status Books::enter(const Entry &, const GrantSet &body) {
  if (Status status = checkGrant(body.grant)) {
    return status;
  }
  if (!clients.contains(body.client)) {
    return problem(Code::unknownClient, "no client is named '" + body.client +
                                            "'; add it with: sojourn-owner client add " + body.client + " --key FILE");
  }
  auto dataset = datasets.find(body.dataset);
  if (dataset == datasets.end()) {
    return problem(Code::unknownDataset, "no private dataset is named '" + body.dataset + "'");
  }
  if (Status status = checkPresent(body.dataset); status && body.grant.epsilon > 0) {
    return status;
  }
  if (!populations[dataset->second].cap) {
    return problem(Code::noCap, "dataset '" + body.dataset + "' has no cap over all clients; set one first: " +
                                    "sojourn-owner budget cap " + body.dataset + " --epsilon E --delta D");
  }
  accounts[{body.client, body.dataset}].grant = body.grant;
  return {};
}

Status Books::checkPresent(const std::string &dataset) const {
  if (auto now = formerNames.find(dataset); now != formerNames.end()) {
    return illegal("dataset '" + dataset + "' was renamed and is now '" + now->second + "'");
  }
  return removedDatasets.contains(dataset) ? illegal("dataset '" + dataset + "' was removed by the data owner")
                                           : Status();
}

Status Books::complete(const std::string &client, Relation relation, std::vector<Item> &items) const {
  for (Item &item : items) {
    auto dataset = datasets.find(item.dataset);
    item.population = dataset == datasets.end() ? "" : dataset->second;
  }
  return checkItems(client, relation, items);
}

Status Books::checkItems(const std::string &client, Relation relation, const std::vector<Item> &items) const {
  if (!clients.contains(client)) {
    return problem(Code::unknownClient, "no client is named '" + client + "'; the data owner adds it with: " +
                                            "sojourn-owner client add " + client + " --key FILE");
  }
  if (items.empty()) {
    return illegal("a charge names no dataset");
  }
  std::map<std::string, std::string> seen;
  for (const Item &item : items) {
    if (Status status = checkPresent(item.dataset)) {
      return status;
    }
    auto dataset = datasets.find(item.dataset);
    if (dataset == datasets.end() || dataset->second != item.population) {
      return problem(Code::unknownDataset, "no private dataset is named '" + item.dataset + "'");
    }
    const Population &population = populations.at(item.population);
    if (population.relation != relation) {
      return problem(Code::otherRelation, "dataset '" + item.dataset + "' is accounted under " +
                                              relationName(population.relation) + ", not under " +
                                              relationName(relation));
    }
    auto [other, fresh] = seen.try_emplace(item.population, item.dataset);
    if (!fresh && other->second == item.dataset) {
      return problem(Code::sharedPeople, "this release reads dataset '" + item.dataset +
                                             "' as two tables with rows of the same people, which this version cannot "
                                             "price; read it as one table in the program");
    }
    if (!fresh) {
      return problem(Code::sharedPeople, "datasets '" + other->second + "' and '" + item.dataset +
                                             "' hold the same people (population '" + item.population +
                                             "'); this version cannot price one release from both");
    }
    auto account = accounts.find({client, item.dataset});
    if (!population.cap || account == accounts.end() || !account->second.grant) {
      return problem(population.cap ? Code::noGrant : Code::noCap,
                     "client '" + client + "' has no budget on dataset '" + item.dataset +
                         "'; the data owner grants one with: sojourn-owner budget grant " + client + " " +
                         item.dataset + " --epsilon E --delta D");
    }
  }
  return {};
}

Status Books::admit(const std::string &client, const std::vector<Item> &items, uint64_t count) const {
  for (const Item &item : items) {
    privacy::Charge asked = count * item.charge;
    const Population &population = populations.at(item.population);
    auto account = accounts.find({client, item.dataset});
    auto check = [&](const Grant &budget, const privacy::Charge &spent, const std::string &whose) -> Status {
      privacy::Charge total = spent + asked;
      // A lost order is infinite to the filter, which needs but one of the others. What no filter can admit is in no
      // history either.
      bool fits = !isLost(total) && (decided || !admits || (budget.epsilon > 0 && admits(budget, total)));
      if (fits) {
        return {};
      }
      Problem refused =
          problem(Code::budgetExhausted,
                  whose.empty() ? "the cap over all clients on dataset '" + item.dataset + "' is spent"
                                : "the budget of client '" + whose + "' on dataset '" + item.dataset + "' is spent");
      refused.exhausted = Exhausted{whose, item.dataset, item.population, budget, spent, asked};
      return refused;
    };
    if (Status status = check(*account->second.grant, account->second.spent, client)) {
      return status;
    }
    if (Status status = check(*population.cap, population.spent, "")) {
      return status;
    }
  }
  return {};
}

void Books::charge(const std::string &client, const std::vector<Item> &items, uint64_t count) {
  for (const Item &item : items) {
    privacy::Charge asked = count * item.charge;
    Account &account = accounts.at({client, item.dataset});
    account.spent = account.spent + asked;
    Population &population = populations.at(item.population);
    population.spent = population.spent + asked;
  }
}

void Books::giveBack(const std::string &client, const std::vector<Item> &items, uint64_t count) {
  for (const Item &item : items) {
    privacy::Charge rest = count * item.charge;
    Account &account = accounts.at({client, item.dataset});
    account.spent = account.spent - rest;
    Population &population = populations.at(item.population);
    population.spent = population.spent - rest;
  }
}

Result<Publish *> Books::find(uint64_t id, State expected, const char *next) {
  static constexpr const char *kStates[] = {"reserved", "started", "sealed", "delivered", "void", "burnt"};
  auto found = publishes.find(id);
  if (found == publishes.end()) {
    return illegal("no publish has number " + std::to_string(id));
  }
  if (found->second.state != expected) {
    return illegal("publish " + std::to_string(id) + " is " + kStates[static_cast<size_t>(found->second.state)] +
                   " and cannot become " + next);
  }
  return &found->second;
}

Status Books::enter(const Entry &entry, const Reserved &body) {
  if (Status status = checkName(body.key, "the idempotency key")) {
    return status;
  }
  if (Status status = checkItems(body.client, body.relation, body.items)) {
    return status;
  }
  auto key = keys.find({body.client, body.key});
  if (key != keys.end()) {
    const Publish &earlier = publishes.at(key->second);
    if (earlier.state != State::voided || earlier.moduleHash != body.moduleHash) {
      return problem(Code::keyReused, "the key was used by publish " + std::to_string(key->second));
    }
  }
  if (Status status = admit(body.client, body.items, 1)) {
    return status;
  }
  charge(body.client, body.items, 1);
  Publish publish;
  publish.client = body.client;
  publish.key = body.key;
  publish.moduleHash = body.moduleHash;
  publish.holder = body.holder;
  publish.items = body.items;
  for (const Item &item : body.items) {
    publish.datasets.push_back(item.dataset);
  }
  publish.seq = entry.seq;
  keys[{body.client, body.key}] = entry.seq;
  live[entry.seq] = body.holder;
  publishes.emplace(entry.seq, std::move(publish));
  return {};
}

Status Books::enter(const Entry &entry, const Started &body) {
  auto publish = find(body.id, State::reserved, "started");
  if (!publish) {
    return publish.problem();
  }
  (*publish)->state = State::started;
  (*publish)->seq = entry.seq;
  (*publish)->items.clear();
  return {};
}

Status Books::enter(const Entry &entry, const Sealed &body) {
  auto publish = find(body.id, State::started, "sealed");
  if (!publish) {
    return publish.problem();
  }
  (*publish)->state = State::sealed;
  (*publish)->seq = entry.seq;
  (*publish)->hash = hashOf(encode(entry));
  (*publish)->digest = body.digest;
  (*publish)->sealedMs = entry.timeMs;
  live.erase(body.id);
  return {};
}

Status Books::enter(const Entry &, const Delivered &body) {
  auto publish = find(body.id, State::sealed, "delivered");
  if (!publish) {
    return publish.problem();
  }
  (*publish)->state = State::delivered;
  return {};
}

Status Books::enter(const Entry &entry, const Voided &body) {
  auto publish = find(body.id, State::reserved, "void");
  if (!publish) {
    return publish.problem();
  }
  giveBack((*publish)->client, (*publish)->items, 1);
  (*publish)->state = State::voided;
  (*publish)->seq = entry.seq;
  (*publish)->items.clear();
  live.erase(body.id);
  return {};
}

Status Books::enter(const Entry &entry, const Burnt &body) {
  auto publish = find(body.id, State::started, "burnt");
  if (!publish) {
    return publish.problem();
  }
  (*publish)->state = State::burnt;
  (*publish)->seq = entry.seq;
  live.erase(body.id);
  return {};
}

Status Books::hasRoom(const RunOpened &body) const {
  if (Status status = checkItems(body.client, body.relation, body.items)) {
    return status;
  }
  return admit(body.client, body.items, std::max<uint64_t>(body.steps, 1));
}

Status Books::enter(const Entry &entry, const RunOpened &body) {
  if (Status status = checkItems(body.client, body.relation, body.items)) {
    return status;
  }
  if (body.whole && body.steps == 0) {
    return illegal("a run that is paid for as a whole must declare its steps");
  }
  // A plan that does not fit is refused before its first step, whenever it is paid for.
  if (Status status = admit(body.client, body.items, body.steps)) {
    return status;
  }
  if (body.whole) {
    charge(body.client, body.items, body.steps);
  }
  RunState run;
  run.client = body.client;
  run.items = body.items;
  run.holder = body.holder;
  run.steps = body.steps;
  run.whole = body.whole;
  live[entry.seq] = body.holder;
  runs.emplace(entry.seq, std::move(run));
  return {};
}

std::vector<Item> Books::priced(const RunState &run) {
  std::vector<Item> items = run.items;
  for (size_t index = 0; index < items.size(); ++index) {
    items[index].charge = run.charges[index];
  }
  return items;
}

Status Books::enter(const Entry &entry, const BlockStarted &body) {
  auto found = runs.find(body.run);
  if (found == runs.end() || !found->second.open || found->second.block != 0) {
    return illegal("run " + std::to_string(body.run) + " is not open, or has an open block");
  }
  RunState &run = found->second;
  if (body.steps == 0 || body.charges.size() != run.items.size()) {
    return illegal("a block needs steps, and one charge for each dataset of its run");
  }
  if (run.steps != 0 && (body.steps > run.steps || run.used > run.steps - body.steps)) {
    return problem(Code::planExceeded, "the run's plan has " + std::to_string(run.steps) + " steps and " +
                                           std::to_string(run.used) + " are taken; open a new run for more");
  }
  RunState next = run;
  next.block = entry.seq;
  next.blockSteps = body.steps;
  next.charges = body.charges;
  std::vector<Item> items = priced(next);
  for (const Item &item : items) {
    if (Status status = checkPresent(item.dataset)) {
      return status;
    }
  }
  if (run.whole && items != run.items) {
    return illegal("a step of run " + std::to_string(body.run) +
                   " has another price than its plan; a run that is paid for as a whole has one price");
  }
  if (!run.whole) {
    if (Status status = admit(run.client, items, body.steps)) {
      return status;
    }
    charge(run.client, items, body.steps);
  }
  run = std::move(next);
  blocks[entry.seq] = body.run;
  return {};
}

Status Books::enter(const Entry &, const BlockEnded &body) {
  auto found = blocks.find(body.block);
  if (found == blocks.end() || runs.at(found->second).block != body.block) {
    return illegal("no open block has number " + std::to_string(body.block));
  }
  RunState &run = runs.at(found->second);
  if (body.used > run.blockSteps || (body.burnt && body.used != run.blockSteps)) {
    return illegal("block " + std::to_string(body.block) + " has " + std::to_string(run.blockSteps) + " steps, not " +
                   std::to_string(body.used));
  }
  if (!run.whole) {
    giveBack(run.client, priced(run), run.blockSteps - body.used);
  }
  run.used += body.used;
  run.block = run.blockSteps = 0;
  run.charges.clear();
  return {};
}

Status Books::enter(const Entry &, const RunClosed &body) {
  auto found = runs.find(body.run);
  if (found == runs.end() || !found->second.open || found->second.block != 0 || body.used != found->second.used) {
    return illegal("run " + std::to_string(body.run) + " is not open, has an open block, or took other steps than " +
                   std::to_string(body.used));
  }
  RunState &run = found->second;
  if (run.whole) {
    giveBack(run.client, run.items, run.steps - run.used);
  }
  run.open = false;
  live.erase(body.run);
  return {};
}

} // namespace sojourn::owner::ledger
