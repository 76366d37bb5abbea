// SPDX-License-Identifier: Apache-2.0
// What a session knows of private tables before it sends: refusals and quotes, by the owner's passes (Judge.h).
#include "frontend/Flights.h"

#include <algorithm>

namespace sojourn::frontend {

/// What the owner said of a step's tables; asked `again`, what it says now. Nothing where it does not answer.
std::vector<DatasetInfo> Session::tablesOf(const wire::Step &step, bool again) {
  std::vector<DatasetInfo> tables;
  for (const wire::TableBinding &binding : step.tables) {
    auto known = [&](const DatasetInfo &info) { return info.name == binding.name && info.version == binding.version; };
    auto found = std::find_if(knownTables_.begin(), knownTables_.end(), known);
    if (again || found == knownTables_.end()) {
      try {
        knownTables_ = client_->datasets();
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

/// Why an owner would not run a new program on its private tables, or empty.
std::string Session::refusalOf(const TraceCall &call) {
  if (!client_ || call.step.tables.empty() || judged_.count(call.step.hash)) {
    return {};
  }
  auto isPrivate = [](const DatasetInfo &table) { return table.policy != "open"; };
  std::string refusal;
  for (bool again : {false, true}) { // a policy may have changed since
    std::vector<DatasetInfo> tables = tablesOf(call.step, again);
    bool any = std::any_of(tables.begin(), tables.end(), isPrivate);
    refusal = any ? judgePrivate(call.step, tables).refusal : std::string();
    if (refusal.empty()) {
      judged_.insert(call.step.hash);
      break;
    }
  }
  return refusal;
}

/// A prepared step as the owner would judge it, with the delta of the budgets that its prices are looked up with.
Judgement Session::judge(const wire::Step &step) {
  std::vector<DatasetInfo> tables = tablesOf(step, /*again=*/false);
  double delta = 0;
  bool any = false;
  for (const DatasetInfo &table : tables) {
    if (table.policy != "open") {
      any = true;
      BudgetInfo budget = client_->budget(table.name, 0);
      delta = budget.granted ? (delta > 0 ? std::min(delta, budget.delta) : budget.delta) : delta;
    }
  }
  return any ? judgePrivate(step, tables, delta) : Judgement();
}

Judgement Session::quote(const at::Tensor &copy, const wire::ReleaseTerms &terms) {
  SessionLock turn(turn_);
  requireOpen();
  publish(copy, terms);
  auto flight = take();
  if (!flight) {
    return {};
  }
  prepare(*flight);
  Judgement judgement;
  auto number = static_cast<unsigned>(flight->recording->publishes.size()) - 1;
  if (flight->refusal.empty() && !flight->failure) {
    try {
      judgement = judge(flight->call.step);
    } catch (...) {
      flight->failure = std::current_exception(); // what is pending is put back all the same
    }
  }
  {
    SessionLock lock(mutex_);
    flight->recording->trace.words.resize(flight->words);
    flight->recording->publishes.pop_back();
    putBack(*flight);
  }
  if (flight->failure) {
    translated([&] { std::rethrow_exception(flight->failure); });
  }
  if (!flight->refusal.empty()) {
    raise(flight->refusalKind, flight->refusal);
  }
  if (!judgement.refusal.empty()) {
    raise(ErrorKind::Refused, judgement.refusal);
  }
  std::erase_if(judgement.releases, [&](const Judgement::Release &release) { return release.published != number; });
  return judgement;
}

} // namespace sojourn::frontend
