// SPDX-License-Identifier: Apache-2.0
// Clients, budgets and the ledger in a terminal.
#include "owner/Administration.h"

#include "owner/Accounts.h"
#include "owner/Error.h"
#include "owner/Text.h"
#include "owner/TextTable.h"
#include "runtime/privacy/Filter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace sojourn::owner {

namespace {

llvm::Error plain(const ledger::Problem &problem) { return failure(problem.text); }

/// Epsilon of the smallest grant at this delta that admits what was spent.
double spentOf(const privacy::Charge &spent, double delta) { return privacy::smallestEpsilon(spent, delta); }

std::vector<std::string> budgetCells(const ledger::Grant &budget, const privacy::Charge &spent) {
  if (budget.epsilon <= 0) {
    return {"none", "-", "-", "-"};
  }
  double used = spentOf(spent, budget.delta);
  return {shortText(budget.epsilon), shortText(budget.delta), shortText(used),
          shortText(std::max(0.0, budget.epsilon - used))};
}

std::string grantText(const ledger::Grant &grant) {
  return "epsilon " + shortText(grant.epsilon) + ", delta " + shortText(grant.delta);
}

/// What an entry says besides its client and datasets.
std::string detailOf(const ledger::Body &body) {
  return std::visit(
      [](const auto &entry) -> std::string {
        using Kind = std::decay_t<decltype(entry)>;
        auto of = [](uint64_t id) { return "of entry " + std::to_string(id); };
        if constexpr (std::is_same_v<Kind, ledger::ClientAdded>) {
          return entry.publicKey.empty() ? "the data owner's own process" : "key " + signing::hex(entry.publicKey);
        } else if constexpr (std::is_same_v<Kind, ledger::KeyChanged>) {
          return "key " + signing::hex(entry.publicKey);
        } else if constexpr (std::is_same_v<Kind, ledger::ClientRemoved> ||
                             std::is_same_v<Kind, ledger::DatasetRemoved>) {
          return "charges remain";
        } else if constexpr (std::is_same_v<Kind, ledger::Overruns>) {
          return std::to_string(entry.bits) + (entry.bits == 1 ? " bit" : " bits");
        } else if constexpr (std::is_same_v<Kind, ledger::OverrunsForgiven>) {
          return "counted from zero again";
        } else if constexpr (std::is_same_v<Kind, ledger::DatasetRenamed>) {
          return "now '" + entry.name + "'";
        } else if constexpr (std::is_same_v<Kind, ledger::DatasetLinked>) {
          return "population '" + entry.population + "', " + relationName(entry.relation);
        } else if constexpr (requires { entry.grant; }) {
          return grantText(entry.grant);
        } else if constexpr (std::is_same_v<Kind, ledger::Reserved>) {
          return entry.what;
        } else if constexpr (std::is_same_v<Kind, ledger::RunOpened>) {
          return entry.what + (entry.steps ? ", " + std::to_string(entry.steps) + " steps planned" : "");
        } else if constexpr (std::is_same_v<Kind, ledger::BlockStarted>) {
          return of(entry.run) + ", paid for " + std::to_string(entry.steps) + " steps";
        } else if constexpr (std::is_same_v<Kind, ledger::BlockEnded>) {
          return of(entry.block) +
                 (entry.burnt ? ", counted whole after a crash" : ", " + std::to_string(entry.used) + " steps used");
        } else if constexpr (std::is_same_v<Kind, ledger::RunClosed>) {
          return of(entry.run) + ", " + std::to_string(entry.used) + " steps in all";
        } else if constexpr (requires { entry.why; }) {
          return of(entry.id) + ": " + entry.why;
        } else {
          return of(entry.id);
        }
      },
      body);
}

} // namespace

llvm::Error printClients(Owner &owner, llvm::raw_ostream &out) {
  auto clients = owner.accounts().ledger().clients();
  if (!clients) {
    return plain(clients.problem());
  }
  std::vector<std::vector<std::string>> rows{{"client", "key"}};
  for (const auto &[name, key] : *clients) {
    rows.push_back({name, key.empty() ? "the data owner's own process" : signing::hex(key)});
  }
  auto removed = owner.accounts().ledger().removedClients();
  if (!removed) {
    return plain(removed.problem());
  }
  for (const auto &[name, key] : *removed) {
    rows.push_back({name, "removed; had " + signing::hex(key)});
  }
  if (rows.size() == 1) {
    out << "no clients yet; 'sojourn-owner client add NAME --key FILE.pub' adds one\n";
    return llvm::Error::success();
  }
  printTable(rows, out);
  return llvm::Error::success();
}

llvm::Error printBudgets(Owner &owner, const std::string &dataset, llvm::raw_ostream &out) {
  auto records = owner.datasets();
  if (!records) {
    return records.takeError();
  }
  auto isNamed = [&](const DatasetRecord &record) { return record.name == dataset; };
  auto isRemoved = [&](const std::string &name) {
    auto known = owner.accounts().ledger().datasetName(name);
    return known && known->isRemoved;
  };
  if (!dataset.empty() && llvm::none_of(*records, isNamed) && !isRemoved(dataset)) {
    return failure("no dataset is named '" + dataset + "'; 'sojourn-owner datasets' lists all datasets");
  }
  auto populations = owner.accounts().ledger().populations();
  if (!populations) {
    return plain(populations.problem());
  }
  auto accounts = owner.accounts().ledger().accounts();
  if (!accounts) {
    return plain(accounts.problem());
  }
  auto removedClients = owner.accounts().ledger().removedClients();
  if (!removedClients) {
    return plain(removedClients.problem());
  }
  auto counted = owner.accounts().ledger().overrunsLines();
  if (!counted) {
    return plain(counted.problem());
  }
  auto shown = [](const std::string &name, bool isRemoved) { return name + (isRemoved ? " (removed)" : ""); };
  std::vector<std::vector<std::string>> caps{{"people", "datasets", "cap", "delta", "spent", "left"}},
      grants{{"client", "dataset", "granted", "delta", "spent", "left"}}, overruns{{"client", "dataset", "bits"}};
  auto add = [](auto &rows, std::string first, std::string second, std::vector<std::string> rest) {
    rest.insert(rest.begin(), {std::move(first), std::move(second)});
    rows.push_back(std::move(rest));
  };
  for (const ledger::PopulationLine &line : *populations) {
    if (dataset.empty() || llvm::is_contained(line.datasets, dataset)) {
      std::string names;
      for (const std::string &name : line.datasets) {
        names += (names.empty() ? "" : ", ") + shown(name, isRemoved(name));
      }
      add(caps, line.population, names, budgetCells(line.cap.value_or(ledger::Grant()), line.spent));
    }
  }
  for (const DatasetRecord &record : *records) {
    bool isKnown = llvm::any_of(*populations, [&](const ledger::PopulationLine &line) {
      return llvm::is_contained(line.datasets, record.name);
    });
    if (record.policy == Policy::privateOnly && !isKnown && (dataset.empty() || record.name == dataset)) {
      add(caps, record.population.empty() ? record.name : record.population, record.name, budgetCells({}, {}));
    }
  }
  for (const ledger::AccountLine &line : *accounts) {
    if (dataset.empty() || line.dataset == dataset) {
      add(grants, shown(line.client, removedClients->count(line.client)), shown(line.dataset, isRemoved(line.dataset)),
          budgetCells(line.grant, line.spent));
    }
  }
  for (const ledger::OverrunsLine &line : *counted) {
    if (dataset.empty() || line.dataset == dataset) {
      add(overruns, shown(line.client, removedClients->count(line.client)),
          shown(line.dataset, isRemoved(line.dataset)), {std::to_string(line.bits)});
    }
  }
  if (caps.size() == 1) {
    out << "no private datasets yet; 'sojourn-owner import FILE --name NAME --policy private' adds one\n";
    return llvm::Error::success();
  }
  out << "caps over all clients, in epsilon\n";
  printTable(caps, out);
  if (grants.size() == 1) {
    out << "\nno grants yet; 'sojourn-owner budget grant CLIENT DATASET --epsilon E --delta D' gives one\n";
  } else {
    out << "\ngrants, in epsilon\n";
    printTable(grants, out);
  }
  if (overruns.size() > 1) {
    out << "\noverruns, in bits that late steps may have told\n";
    printTable(overruns, out);
    out << "'sojourn-owner forgive-overruns DATASET --client CLIENT' counts from zero again\n";
  }
  return llvm::Error::success();
}

llvm::Error printLedger(Owner &owner, size_t limit, const std::string &client, llvm::raw_ostream &out) {
  auto entries = owner.accounts().ledger().entries(limit, 0, client);
  if (!entries) {
    return plain(entries.problem());
  }
  if (entries->empty()) {
    out << (client.empty() ? "the ledger is empty\n" : "the ledger has no entry of client '" + client + "'\n");
    return llvm::Error::success();
  }
  std::vector<std::vector<std::string>> rows{{"entry", "time", "what", "client", "datasets", ""}};
  for (const ledger::Listed &line : llvm::reverse(*entries)) {
    rows.push_back({std::to_string(line.entry.seq), timeText(line.entry.timeMs), kindName(line.entry.body),
                    line.client.empty() ? "-" : printableName(line.client),
                    line.datasets.empty() ? "-" : llvm::join(line.datasets, ", "),
                    printableName(detailOf(line.entry.body))});
  }
  printTable(rows, out);
  if (rows[1][0] != "1" && client.empty()) {
    out << "\nthe newest " << entries->size() << "; --last N shows more\n";
  }
  return llvm::Error::success();
}

llvm::Error verifyLedger(Owner &owner, llvm::raw_ostream &out) {
  auto report = owner.accounts().ledger().verify();
  if (!report) {
    return plain(report.problem());
  }
  out << "the ledger is intact: " << report->entries << " entries in one chain, " << report->publishes
      << " releases and " << report->runs << " runs within their budgets, " << report->sealedBytes
      << " sealed bytes unchanged\nhead " << signing::hex(report->head.hash) << '\n';
  return llvm::Error::success();
}

} // namespace sojourn::owner
