// SPDX-License-Identifier: Apache-2.0
// Clients and datasets that come, go and get other names or keys. None of it returns budget: accounts stay in the
// books, and a name or key of before is nobody else's.
#include "owner/ledger/Transaction.h"

#include <algorithm>

namespace sojourn::owner::ledger {

static Problem noClient(const std::string &client) {
  return problem(Code::unknownClient, "no client is named '" + client + "'; 'sojourn-owner client list' lists them");
}

Status Books::enter(const Entry &, const KeyChanged &body) {
  if (!clients.contains(body.client)) {
    return noClient(body.client);
  }
  if (body.publicKey.size() != 32) {
    return problem(Code::badRequest, "the key of client '" + body.client + "' has " +
                                         std::to_string(body.publicKey.size()) + " bytes; an Ed25519 key has 32");
  }
  if (!holders.try_emplace(body.publicKey, body.client).second) {
    return problem(Code::badRequest, "the key of client '" + body.client + "' is not new");
  }
  clients[body.client] = body.publicKey;
  return {};
}

Status Books::enter(const Entry &, const ClientRemoved &body) {
  auto found = clients.find(body.client);
  if (found == clients.end()) {
    return noClient(body.client);
  }
  removedClients[body.client] = found->second;
  clients.erase(found);
  for (auto &[names, account] : accounts) {
    if (names.first == body.client) {
      account.grant = Grant(); // a run that goes on gets no further block
    }
  }
  return {};
}

Status Books::enter(const Entry &, const DatasetRenamed &body) {
  const std::string &from = body.dataset, &to = body.name;
  if (to.empty() || to.size() > kNameBytesMost) {
    return problem(Code::badRequest, "the dataset's name has " + std::to_string(to.size()) + " bytes; 1 to " +
                                         std::to_string(kNameBytesMost) + " are allowed");
  }
  auto found = datasets.find(from);
  if (found == datasets.end()) {
    return problem(Code::unknownDataset, "no private dataset is named '" + from + "'");
  }
  if (Status status = checkPresent(from)) {
    return status;
  }
  if (datasets.contains(to)) {
    return problem(Code::badRequest, "'" + to + "' is the name of " +
                                         (removedDatasets.contains(to) ? "a removed dataset" : "another dataset") +
                                         ", which has its own budgets; choose another name");
  }
  if (auto now = formerNames.find(to); now != formerNames.end() && now->second != from) {
    return problem(Code::badRequest, "'" + to + "' was the name of dataset '" + now->second +
                                         "', which has its budgets; choose another name");
  }
  std::string population = std::move(found->second);
  datasets.erase(found);
  formerNames.erase(to);
  for (auto &[former, now] : formerNames) {
    now = now == from ? to : now;
  }
  formerNames[from] = to;
  std::ranges::replace(populations.at(population).datasets, from, to);
  datasets[to] = std::move(population);
  for (auto at = accounts.begin(); at != accounts.end();) {
    auto next = std::next(at);
    if (at->first.second == from) {
      auto moved = accounts.extract(at);
      moved.key().second = to;
      accounts.insert(std::move(moved));
    }
    at = next;
  }
  moveOverruns(from, to);
  auto rename = [&](std::vector<Item> &items) {
    for (Item &item : items) {
      item.dataset = item.dataset == from ? to : item.dataset;
    }
  };
  for (const auto &[id, holder] : live) { // what they return, and charge further, is of the same accounts
    if (auto publish = publishes.find(id); publish != publishes.end()) {
      rename(publish->second.items);
    } else if (auto run = runs.find(id); run != runs.end()) {
      rename(run->second.items);
    }
  }
  return {};
}

Status Books::enter(const Entry &, const DatasetRemoved &body) {
  if (!datasets.contains(body.dataset)) {
    return problem(Code::unknownDataset, "no private dataset is named '" + body.dataset + "'");
  }
  if (Status status = checkPresent(body.dataset)) {
    return status;
  }
  removedDatasets.insert(body.dataset);
  return {};
}

/// Whether `client` may have a key: one that nobody has or had, or its own last one where it comes back.
static Status checkKey(const Books &books, const std::string &client, const std::string &key) {
  auto found = books.holders.find(key);
  if (key.empty() || found == books.holders.end()) {
    return {};
  }
  const std::string &holder = found->second;
  auto present = books.clients.find(holder);
  auto removed = books.removedClients.find(holder);
  if (present != books.clients.end() && present->second == key) {
    return problem(Code::badRequest,
                   "this key already belongs to client '" + holder + "'; each client needs its own key");
  }
  if (removed != books.removedClients.end() && removed->second == key) {
    return holder == client ? Status()
                            : problem(Code::badRequest, "this key was that of client '" + holder +
                                                            "', which was removed: under another name its holder would "
                                                            "get a second budget. Let it back in with its charges: "
                                                            "sojourn-owner client add " +
                                                            holder + " --key FILE.pub --continue-budget");
  }
  return problem(Code::badRequest, "client '" + holder +
                                       "' had this key before and got another one, so this one may be in other hands; "
                                       "ask for a new key: sojourn keygen FILE");
}

Status Ledger::addClient(const std::string &client, const std::string &publicKey, bool again) {
  Transaction transaction(*this);
  if (Status status = transaction.begin()) {
    return status;
  }
  const bool wasRemoved = books.removedClients.contains(client);
  if (wasRemoved && !again) {
    return problem(Code::badRequest, "client '" + client +
                                         "' was removed, and its charges still count. Let it back in with them: "
                                         "sojourn-owner client add " +
                                         client + " --key FILE.pub --continue-budget; or choose another name");
  }
  if (again && !wasRemoved && !books.clients.contains(client)) {
    return problem(Code::badRequest, "no removed client is named '" + client + "'; leave out --continue-budget");
  }
  if (Status status = books.clients.contains(client) ? Status() : checkKey(books, client, publicKey)) {
    return status;
  }
  if (Status status = transaction.append(ClientAdded{client, publicKey})) {
    return status;
  }
  return transaction.commit();
}

Status Ledger::changeKey(const std::string &client, const std::string &publicKey) {
  Transaction transaction(*this);
  if (Status status = transaction.begin()) {
    return status;
  }
  if (Status status = books.clients.contains(client) ? checkKey(books, client, publicKey) : noClient(client)) {
    return status;
  }
  if (Status status = transaction.append(KeyChanged{client, publicKey})) {
    return status;
  }
  return transaction.commit();
}

Status Ledger::removeClient(const std::string &client) { return change(ClientRemoved{client}); }

Status Ledger::linkDataset(const std::string &dataset, const std::string &population, Relation relation, bool again) {
  Transaction transaction(*this);
  if (Status status = transaction.begin()) {
    return status;
  }
  std::string people = population;
  // A new version of a dataset comes with its name again.
  if (auto found = books.datasets.find(dataset); found != books.datasets.end()) {
    const bool isRemoved = books.removedDatasets.contains(dataset);
    people = people.empty() ? found->second : people;
    bool same = people == found->second && books.populations.at(found->second).relation == relation;
    if (same && !isRemoved) {
      return {};
    }
    if (isRemoved && !again) {
      return problem(Code::badRequest, "dataset '" + dataset + "' was removed; its budgets stay as they are");
    }
  }
  if (Status status = transaction.append(DatasetLinked{dataset, people.empty() ? dataset : people, relation})) {
    return status;
  }
  return transaction.commit();
}

Status Ledger::renameDataset(const std::string &dataset, const std::string &name) {
  return change(DatasetRenamed{dataset, name});
}

Status Ledger::removeDataset(const std::string &dataset) { return change(DatasetRemoved{dataset}); }

} // namespace sojourn::owner::ledger
