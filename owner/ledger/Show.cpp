// SPDX-License-Identifier: Apache-2.0
// What people read, and the check of the whole file.
#include "owner/ledger/Transaction.h"

namespace sojourn::owner::ledger {

Result<std::vector<AccountLine>> Ledger::accounts(const std::string &client, const std::string &dataset) {
  if (Status status = elsewhere()) {
    return *status;
  }
  std::lock_guard guard(mutex);
  if (Status status = broken ? broken : catchUp()) {
    return *status;
  }
  std::vector<AccountLine> lines;
  // Steps ask for one of many.
  const bool isOne = !client.empty() && !dataset.empty();
  auto at = isOne ? books.accounts.find({client, dataset}) : books.accounts.begin();
  for (; at != books.accounts.end(); ++at) {
    const auto &[names, account] = *at;
    if ((client.empty() || client == names.first) && (dataset.empty() || dataset == names.second)) {
      lines.push_back(
          {names.first, names.second, books.datasets.at(names.second), account.grant.value_or(Grant()), account.spent});
    }
    if (isOne) {
      break;
    }
  }
  return lines;
}

Result<std::vector<PopulationLine>> Ledger::populations() {
  if (Status status = elsewhere()) {
    return *status;
  }
  std::lock_guard guard(mutex);
  if (Status status = broken ? broken : catchUp()) {
    return *status;
  }
  std::vector<PopulationLine> lines;
  for (const auto &[name, population] : books.populations) {
    lines.push_back({name, population.cap, population.spent, population.relation, population.datasets});
  }
  return lines;
}

Result<std::map<std::string, std::string>> Ledger::clients() {
  if (Status status = elsewhere()) {
    return *status;
  }
  std::lock_guard guard(mutex);
  if (Status status = broken ? broken : catchUp()) {
    return *status;
  }
  return books.clients;
}

Result<std::map<std::string, std::string>> Ledger::removedClients() {
  if (Status status = elsewhere()) {
    return *status;
  }
  std::lock_guard guard(mutex);
  if (Status status = broken ? broken : catchUp()) {
    return *status;
  }
  return books.removedClients;
}

Result<std::optional<std::string>> Ledger::keyOf(const std::string &client) {
  if (Status status = elsewhere()) {
    return *status;
  }
  std::lock_guard guard(mutex);
  if (Status status = broken ? broken : catchUp()) {
    return *status;
  }
  auto found = books.clients.find(client);
  return found == books.clients.end() ? std::optional<std::string>() : std::optional(found->second);
}

Result<DatasetName> Ledger::datasetName(const std::string &name) {
  if (Status status = elsewhere()) {
    return *status;
  }
  std::lock_guard guard(mutex);
  if (Status status = broken ? broken : catchUp()) {
    return *status;
  }
  DatasetName answer;
  if (auto found = books.datasets.find(name); found != books.datasets.end()) {
    answer = {true, books.removedDatasets.contains(name), found->second, ""};
  } else if (auto now = books.formerNames.find(name); now != books.formerNames.end()) {
    answer.now = now->second;
  }
  return answer;
}

/// Fills in whom and what an entry is about.
static void describe(const Books &books, Listed &line) {
  uint64_t id = line.entry.seq;
  std::visit(
      [&](const auto &body) {
        if constexpr (requires { body.client; }) {
          line.client = body.client;
        }
        if constexpr (requires { body.dataset; }) {
          line.datasets = {body.dataset};
        } else if constexpr (requires { body.population; }) {
          line.datasets = books.populations.at(body.population).datasets;
        } else if constexpr (requires { body.id; }) {
          id = body.id;
        } else if constexpr (requires { body.run; }) {
          id = body.run;
        } else if constexpr (requires { body.block; }) {
          id = books.blocks.at(body.block);
        }
      },
      line.entry.body);
  if (auto publish = books.publishes.find(id); publish != books.publishes.end()) {
    line.client = publish->second.client;
    line.datasets = publish->second.datasets;
  } else if (auto run = books.runs.find(id); run != books.runs.end()) {
    line.client = run->second.client;
    for (const Item &item : run->second.items) {
      line.datasets.push_back(item.dataset);
    }
  }
}

Result<std::vector<Listed>> Ledger::entries(size_t limit, uint64_t before, const std::string &client) {
  if (Status status = elsewhere()) {
    return *status;
  }
  std::lock_guard guard(mutex);
  if (Status status = broken ? broken : catchUp()) {
    return *status;
  }
  std::vector<Listed> lines;
  bool more = true;
  while (more && lines.size() < limit) {
    more = false;
    Status status = database->readBefore(before, 256, [&](const Row &row) -> Status {
      before = row.seq;
      more = row.seq > 1;
      std::optional<Entry> entry = decode(row.bytes);
      if (!entry) {
        return problem(Code::damaged, "entry " + std::to_string(row.seq) + " of the ledger is damaged");
      }
      Listed line{*entry, row.hash, "", {}};
      describe(books, line);
      if (lines.size() < limit && (client.empty() || client == line.client)) {
        lines.push_back(std::move(line));
      }
      return {};
    });
    if (status) {
      return *status;
    }
  }
  return lines;
}

Result<VerifyReport> Ledger::verify() {
  if (Status status = elsewhere()) {
    return *status;
  }
  std::lock_guard guard(mutex);
  if (Status status = broken ? broken : catchUp()) {
    return *status;
  }
  // One state for entries and bytes, without holding up other processes.
  if (Status status = database->beginReading()) {
    return *status;
  }
  struct Ended {
    Database &database;
    ~Ended() { database.rollback(); }
  } ended{*database};
  Books fresh(options.admits);
  if (Status status = replay(fresh, /*decided=*/false)) {
    return *status;
  }
  VerifyReport report{fresh.seq, fresh.publishes.size(), fresh.runs.size(), 0, {fresh.seq, fresh.hash}};
  int64_t now = options.clockMs();
  for (const auto &[id, publish] : fresh.publishes) {
    if (publish.state != State::sealed && publish.state != State::delivered) {
      continue;
    }
    auto bytes = database->readSealed(id);
    if (!bytes) {
      return bytes.problem();
    }
    if (*bytes ? hashOf(**bytes) != publish.digest : now - publish.sealedMs <= options.keepSealedMs) {
      return problem(Code::damaged,
                     "the sealed bytes of publish " + std::to_string(id) + " " +
                         (*bytes ? "do not match entry " + std::to_string(publish.seq) : "were deleted early"));
    }
    report.sealedBytes += *bytes ? (*bytes)->size() : 0;
  }
  // What decides about charges now must be what the file says.
  bool same = fresh.seq != books.seq ||
              (fresh.hash == books.hash && fresh.populations == books.populations && fresh.accounts == books.accounts &&
               fresh.overruns == books.overruns && fresh.clients == books.clients && fresh.datasets == books.datasets);
  return same ? Result<VerifyReport>(report)
              : Result<VerifyReport>(problem(Code::damaged, "the sums in memory do not match the entries"));
}

} // namespace sojourn::owner::ledger
