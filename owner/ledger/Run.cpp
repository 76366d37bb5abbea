// SPDX-License-Identifier: Apache-2.0
// Runs: a counter in memory, backed by blocks of steps that are durable before their first coin.
#include "owner/ledger/Transaction.h"

#include <algorithm>

namespace sojourn::owner::ledger {

Result<std::shared_ptr<Run>> Ledger::openRun(const RunRequest &request) {
  if (Status status = checkCharge(options, request.what, request.items, request.sites)) {
    return *status;
  }
  Transaction transaction(*this);
  if (Status status = transaction.begin()) {
    return *status;
  }
  auto id = transaction.open(RunOpened{request.client, request.what, request.moduleHash, request.relation,
                                       request.items, request.sites, request.steps, request.whole, holder});
  if (!id) {
    return id.problem();
  }
  return std::shared_ptr<Run>(new Run(*this, *id, request));
}

Run::Run(Ledger &ledger, uint64_t number, const RunRequest &request)
    : ledger(ledger), number(number), plan(request.steps), blockSteps(std::max<uint64_t>(request.blockSteps, 1)) {
  for (const Item &item : request.items) {
    usual.push_back(item.charge);
  }
}

uint64_t Run::taken() const {
  std::lock_guard guard(mutex);
  return before + used;
}

uint64_t Run::ahead() const {
  std::lock_guard guard(mutex);
  return open ? steps - used : 0;
}

Result<uint64_t> Run::takeStep(const std::vector<privacy::Charge> &charges) {
  if (Status status = ledger.elsewhere()) {
    return *status;
  }
  std::lock_guard guard(mutex);
  const std::vector<privacy::Charge> &wanted = charges.empty() ? usual : charges;
  if (!open) {
    return problem(Code::badRequest, "run " + std::to_string(number) + " is closed; open a new one");
  }
  if (used == steps || wanted != price) {
    if (plan != 0 && before + used == plan) {
      return problem(Code::planExceeded, "the run's plan has " + std::to_string(plan) +
                                             " steps and all are taken; open a new run for more");
    }
    if (Status status = ledger.nextBlock(*this, wanted)) {
      return *status;
    }
  }
  ++used;
  return before + used;
}

void Run::putBack() {
  std::lock_guard guard(mutex);
  used -= open && used > 0 ? 1 : 0;
}

Status Run::close() {
  if (Status status = ledger.elsewhere()) {
    return status;
  }
  std::lock_guard guard(mutex);
  return open ? ledger.closeRun(*this) : Status();
}

/// The caller holds the run's mutex.
Status Ledger::nextBlock(Run &run, const std::vector<privacy::Charge> &charges) {
  Transaction transaction(*this);
  if (Status status = transaction.begin()) {
    return status;
  }
  uint64_t taken = run.before + run.used;
  if (run.block != 0) {
    if (Status status = transaction.append(BlockEnded{run.block, run.used, /*burnt=*/false})) {
      return status;
    }
  }
  uint64_t steps = run.plan == 0 ? run.blockSteps : std::min(run.blockSteps, run.plan - taken);
  Status refused = transaction.append(BlockStarted{run.number, steps, charges});
  // The last of a budget is worth a smaller block.
  while (refused && refused->code == Code::budgetExhausted && steps > 1) {
    steps /= 2;
    refused = transaction.append(BlockStarted{run.number, steps, charges});
  }
  uint64_t block = books.seq;
  if (refused && refused->code != Code::budgetExhausted) {
    return refused; // the open block stays as it was
  }
  if (Status status = transaction.commit()) {
    return status;
  }
  run.before = taken;
  run.block = refused ? 0 : block;
  run.steps = refused ? 0 : steps;
  run.used = 0;
  run.price = charges;
  if (refused) {
    refused->text += "; the run took " + std::to_string(taken) + " steps";
  }
  return refused;
}

Status Ledger::closeRun(Run &run) {
  Transaction transaction(*this);
  if (Status status = transaction.begin()) {
    return status;
  }
  if (run.block != 0) {
    if (Status status = transaction.append(BlockEnded{run.block, run.used, /*burnt=*/false})) {
      return status;
    }
  }
  if (Status status = transaction.append(RunClosed{run.number, run.before + run.used})) {
    return status;
  }
  if (Status status = transaction.commit()) {
    return status;
  }
  run.open = false;
  return {};
}

} // namespace sojourn::owner::ledger
