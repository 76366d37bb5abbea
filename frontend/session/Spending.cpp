// SPDX-License-Identifier: Apache-2.0
// What a session knows of private tables before it sends (see Spending.h).
#include "frontend/session/Spending.h"

#include "frontend/Error.h"

#include <algorithm>

namespace sojourn::frontend {

void Spending::set(const wire::Spending &terms) {
  std::lock_guard lock(mutex_);
  terms_ = terms;
  isAwaited_ = false;
}

void Spending::await() {
  std::lock_guard lock(mutex_);
  terms_ = {};
  isAwaited_ = true;
}

wire::Spending Spending::terms() const {
  std::lock_guard lock(mutex_);
  return terms_;
}

std::vector<DatasetInfo> Spending::tables(Client &client) { return knownTables_ = client.datasets(); }

bool Spending::isFree(const wire::Step &step) {
  const std::vector<Judgement::Draw> *draws = judged_.find(judgedAs(step));
  return !draws || draws->empty();
}

/// What the owner said of a step's tables; asked `again`, what it says now. Nothing where it does not answer.
std::vector<DatasetInfo> Spending::tablesOf(const wire::Step &step, bool again, Client &client) {
  std::vector<DatasetInfo> tables;
  for (const wire::TableBinding &binding : step.tables) {
    auto known = [&](const DatasetInfo &info) { return info.name == binding.name && info.version == binding.version; };
    auto found = std::find_if(knownTables_.begin(), knownTables_.end(), known);
    if (again || found == knownTables_.end()) {
      try {
        knownTables_ = client.datasets();
      } catch (const Error &) {
        return {}; // the step will meet the same
      }
      again = false;
      found = std::find_if(knownTables_.begin(), knownTables_.end(), known);
    }
    if (found == knownTables_.end()) {
      return {};
    }
    tables.push_back(*found);
  }
  return tables;
}

Spending::Judged Spending::judgedAs(const wire::Step &step) {
  std::string tables;
  for (const wire::TableBinding &table : step.tables) {
    tables += table.name + '\n' + table.version + '\n';
  }
  std::vector<bool> releases;
  for (const wire::ReleaseTerms &terms : step.spending.releases) {
    releases.push_back(terms.epsilon > 0);
    releases.push_back(terms.continues);
    releases.push_back(terms.isRead);
  }
  return {step.hash, std::move(tables), step.spending.noiseMultiplier, step.spending.metricShare, std::move(releases)};
}

std::string Spending::refusalOf(const wire::Step &step, Client &client) {
  if (step.tables.empty()) {
    return {};
  }
  Judged key = judgedAs(step);
  const std::vector<Judgement::Draw> *draws = judged_.find(key);
  if (!draws) {
    if (std::string refusal = judgeAnew(step, client); !refusal.empty()) {
      return refusal;
    }
    draws = judged_.find(key);
  }
  std::lock_guard lock(mutex_);
  if (isAwaited_ && draws && !draws->empty()) {
    return "this step spends the budget of a private table inside a sojourn.privacy whose noise is not known yet, "
           "because the noise follows from the number of steps; give privacy(..., size=, epochs=), or take the batches "
           "first";
  }
  return {};
}

std::string Spending::judgeAnew(const wire::Step &step, Client &client) {
  auto isPrivate = [](const DatasetInfo &table) { return table.policy != "open"; };
  std::string refusal;
  for (bool again : {false, true}) { // a policy may have changed since
    std::vector<DatasetInfo> tables = tablesOf(step, again, client);
    if (tables.empty()) {
      return {};
    }
    bool any = std::any_of(tables.begin(), tables.end(), isPrivate);
    Judgement judgement = any ? judgePrivate(step, tables) : Judgement();
    refusal = judgement.refusal;
    for (const Judgement::Release &release : judgement.releases) {
      if (refusal.empty() && step.spending.releases[release.published].isRead) {
        refusal = "a value that depends on rows of private tables is read: reads are free, and this value has a price; "
                  "publish it with a price (sojourn.publish(value, epsilon=...)), or in the step that computes it";
      }
    }
    if (refusal.empty()) {
      judged_.insert(judgedAs(step), std::move(judgement.draws));
      break;
    }
  }
  return refusal;
}

void Spending::note(const wire::Step &step, Client &client) {
  // Here since refusalOf, in the same turn: the last one used is never forgotten.
  const std::vector<Judgement::Draw> *draws = judged_.find(judgedAs(step));
  if (!draws || draws->empty()) {
    return;
  }
  if (step.spending.run == 0) {
    noteDefaults(step, *draws, client);
    return;
  }
  std::lock_guard lock(mutex_);
  std::set<RunCount *> counted;
  for (const Judgement::Draw &draw : *draws) {
    for (unsigned number : draw.tables) {
      if (number < step.tables.size()) {
        RunCount &run = runs_[{step.spending.run, step.tables[number].name}];
        run.steps += counted.insert(&run).second;
        ++run.draws.try_emplace({draw.price(), step.spending.noiseMultiplier}, draw, 0).first->second.second;
      }
    }
  }
}

RunSpent Spending::spentBy(uint64_t run, const std::string &dataset, bool forget) {
  RunCount count;
  {
    std::lock_guard lock(mutex_);
    if (auto found = runs_.find({run, dataset}); found != runs_.end()) {
      count = found->second;
    }
    if (forget) { // and what its steps spent of other tables
      std::erase_if(runs_, [&](const auto &entry) { return entry.first.first == run; });
    }
  }
  RunSpent spent{count.steps, {}};
  for (const auto &[key, draw] : count.draws) {
    spent.charge = spent.charge + draw.second * chargeOf(draw.first, key.second);
  }
  return spent;
}

/// What the first step without terms of its own cost each private table, for who listens.
void Spending::noteDefaults(const wire::Step &step, const std::vector<Judgement::Draw> &draws, Client &client) {
  auto isTold = [&](const wire::TableBinding &table) { return defaultsTold_.count({table.name, table.version}) > 0; };
  if (std::all_of(step.tables.begin(), step.tables.end(), isTold)) {
    return;
  }
  std::vector<DatasetInfo> tables = tablesOf(step, /*again=*/false, client);
  terms::Defaults defaults = defaultsOf(tables);
  for (size_t number = 0; number < tables.size(); ++number) {
    DefaultStep spent{tables[number].name, defaults, 0, {}};
    for (const Judgement::Draw &draw : draws) {
      if (std::find(draw.tables.begin(), draw.tables.end(), number) != draw.tables.end()) {
        spent.rate = std::max(spent.rate, static_cast<double>(draw.expected) / static_cast<double>(draw.rows));
        spent.charge = spent.charge + chargeOf(draw, defaults.noiseMultiplier);
      }
    }
    if (spent.rate > 0 && defaultsTold_.insert({tables[number].name, tables[number].version}).second) {
      news_.add(std::move(spent));
    }
  }
}

Judgement Spending::judge(const wire::Step &step, Client &client) {
  std::vector<DatasetInfo> tables = tablesOf(step, /*again=*/false, client);
  double delta = 0;
  bool any = false;
  for (const DatasetInfo &table : tables) {
    if (table.policy != "open") {
      any = true;
      BudgetInfo budget = client.budget(table.name, 0);
      delta = budget.granted ? (delta > 0 ? std::min(delta, budget.delta) : budget.delta) : delta;
    }
  }
  return any ? judgePrivate(step, tables, delta) : Judgement();
}

} // namespace sojourn::frontend
