// SPDX-License-Identifier: Apache-2.0
// The ledger with the filter of mixed orders, and its refusals in words (see Accounts.h).
#include "owner/Accounts.h"

#include "owner/Peer.h"
#include "owner/RequestError.h"
#include "runtime/Limits.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <filesystem>

namespace sojourn::owner {

using llvm::Twine;

namespace {

std::string shortly(double number) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.4g", number);
  return text;
}

bool admits(const ledger::Grant &budget, const privacy::Charge &total) {
  auto filter = privacy::Filter::of({budget.epsilon, budget.delta});
  return filter && filter->admits(total);
}

} // namespace

static llvm::Error plain(const ledger::Problem &problem) { return Accounts::problemError(problem); }

static llvm::Error statusOf(const ledger::Status &status) { return status ? plain(*status) : llvm::Error::success(); }

llvm::Error Accounts::problemError(const ledger::Problem &problem) {
  auto code = problem.code == ledger::Code::disk || problem.code == ledger::Code::damaged ||
                      problem.code == ledger::Code::busy || problem.code == ledger::Code::olderFile
                  ? wire::ErrorCode_Internal
                  : wire::ErrorCode_Refused;
  return requestError(code, problem.text);
}

llvm::Expected<signing::SigningKey> Accounts::openKey(const Environment &environment) {
  if (environment.storeDirectory.empty()) {
    return signing::SigningKey::generate();
  }
  auto key = signing::SigningKey::open((std::filesystem::path(environment.storeDirectory) / "owner.key").string());
  if (!key) {
    return plain(key.problem());
  }
  return *key;
}

llvm::Expected<std::unique_ptr<Accounts>> Accounts::open(const Environment &environment,
                                                         const signing::SigningKey &key) {
  std::unique_ptr<Accounts> accounts(new Accounts(key));
  ledger::LedgerOptions options;
  options.clockMs = environment.clockMs;
  options.admits = admits;
  if (!environment.storeDirectory.empty()) {
    std::filesystem::path folder(environment.storeDirectory);
    options.path = (folder / "ledger.sqlite").string();
    options.headPath = (folder / "head" / "ledger.head").string();
  }
  options.key = &accounts->signingKey;
  auto books = ledger::Ledger::open(std::move(options));
  if (!books) {
    return plain(books.problem());
  }
  accounts->books = std::move(*books);
  environment.randomBytes(&accounts->opened, sizeof(accounts->opened));
  return accounts;
}

llvm::Error Accounts::ensureLinked(const Charged &on) {
  std::string wanted = on.population.empty() ? on.dataset : on.population;
  auto populations = books->populations();
  if (!populations) {
    return plain(populations.problem());
  }
  for (const ledger::PopulationLine &line : *populations) {
    if (llvm::is_contained(line.datasets, on.dataset)) {
      return line.population == wanted
                 ? llvm::Error::success()
                 : requestError(wire::ErrorCode_Refused,
                                "the ledger has dataset '" + on.dataset + "' under population '" + line.population +
                                    "', the catalogue has it under '" + wanted + "'; restore matching copies of both");
    }
  }
  return statusOf(books->linkDataset(on.dataset, wanted, ledger::Relation::nullOne));
}

static llvm::Error checkGrant(const privacy::Grant &grant) {
  std::string problem = privacy::grantError(grant);
  return problem.empty() ? llvm::Error::success() : requestError(wire::ErrorCode_Refused, problem);
}

llvm::Error Accounts::setCap(const Charged &on, const privacy::Grant &cap) {
  llvm::Error error = checkGrant(cap);
  error = error ? std::move(error) : ensureLinked(on);
  return error ? std::move(error) : statusOf(books->setCap(on.dataset, {cap.epsilon, cap.delta}));
}

llvm::Error Accounts::setGrant(const std::string &client, const Charged &on, const privacy::Grant &grant) {
  llvm::Error error = checkGrant(grant);
  error = error ? std::move(error) : ensureLinked(on);
  if (error) {
    return error;
  }
  bool isLocal = client == kLocalClient;
  if (isLocal) {
    auto known = books->clients();
    if (known && !known->count(client)) {
      if (llvm::Error error = statusOf(books->addClient(client, /*publicKey=*/""))) {
        return error;
      }
    }
  }
  auto populations = books->populations();
  if (!populations) {
    return plain(populations.problem());
  }
  for (const ledger::PopulationLine &line : *populations) {
    ledger::Grant cap = line.cap.value_or(ledger::Grant());
    bool isWithin = cap.epsilon >= grant.epsilon && cap.delta >= grant.delta;
    if (!llvm::is_contained(line.datasets, on.dataset) || isWithin) {
      continue;
    }
    privacy::Grant enough{std::max(cap.epsilon, grant.epsilon), std::max(cap.delta, grant.delta)};
    if (isLocal) {
      if (llvm::Error error = setCap(on, enough)) {
        return error;
      }
    } else if (line.cap) { // without one the ledger refuses
      return requestError(wire::ErrorCode_Refused,
                          "the grant, epsilon " + shortly(grant.epsilon) + " at delta " + shortly(grant.delta) +
                              ", is above the cap on the people of '" + line.population +
                              "' over all clients, epsilon " + shortly(cap.epsilon) + " at delta " +
                              shortly(cap.delta) + "; grant less, or raise the cap first: sojourn-owner budget cap " +
                              on.dataset + " --epsilon " + shortly(enough.epsilon) + " --delta " +
                              shortly(enough.delta));
    }
  }
  return statusOf(books->setGrant(client, on.dataset, {grant.epsilon, grant.delta}));
}

llvm::Error Accounts::revoke(const std::string &client, const std::string &dataset) {
  auto lines = books->accounts(client, dataset);
  if (!lines) {
    return plain(lines.problem());
  }
  return lines->empty()
             ? requestError(wire::ErrorCode_Refused, "client '" + client + "' has no grant on dataset '" + dataset +
                                                         "'; 'sojourn-owner budget show' lists all grants")
             : statusOf(books->setGrant(client, dataset, {0, 0}));
}

llvm::Expected<BudgetInfo> Accounts::budget(const std::string &client, const std::string &dataset) {
  BudgetInfo info;
  info.dataset = dataset;
  if (client.empty() || dataset.empty()) {
    return info; // to the ledger an empty name means all of them
  }
  auto lines = books->accounts(client, dataset);
  if (!lines) {
    return plain(lines.problem());
  }
  for (const ledger::AccountLine &line : *lines) {
    info.granted = line.grant.epsilon > 0; // zeros: taken away
    info.epsilon = line.grant.epsilon;
    info.delta = line.grant.delta;
    double spent = privacy::smallestEpsilon(line.spent, line.grant.delta);
    info.epsilonLeft = std::max(0.0, line.grant.epsilon - spent);
  }
  if (!info.granted) {
    return info;
  }
  auto populations = books->populations();
  if (!populations) {
    return plain(populations.problem());
  }
  for (const ledger::PopulationLine &line : *populations) {
    if (line.cap && llvm::is_contained(line.datasets, dataset)) {
      double left = std::max(0.0, line.cap->epsilon - privacy::smallestEpsilon(line.spent, line.cap->delta));
      info.commonLeft = left < info.epsilonLeft ? left : -1;
    }
  }
  return info;
}

static llvm::Error noBudget(const std::string &client, const std::string &dataset) {
  std::string text =
      "client '" + client + "' has no budget on private dataset '" + dataset + "'; the data owner grants one: ";
  if (client.empty()) {
    text = "private dataset '" + dataset +
           "' needs a budget, and this connection has no identity: connect with sojourn.connect(address, "
           "identity=FILE), using an identity that the data owner has added and granted a budget";
  } else if (client == kLocalClient) {
    text += "owner.grant(\"" + dataset + "\", epsilon=..., delta=...)";
  } else {
    text += "sojourn-owner budget grant " + client + " " + dataset + " --epsilon E --delta D";
  }
  return requestError(wire::ErrorCode_Budget, text);
}

llvm::Expected<double> Accounts::deltaOf(const std::string &client, const std::string &dataset) {
  auto info = budget(client, dataset);
  if (!info) {
    return info.takeError();
  }
  if (!info->granted) {
    return noBudget(client, dataset);
  }
  return info->delta;
}

/// Of a run whose budget is spent; `delta`: of that budget.
static std::string runText(const RunAccount *account, double delta) {
  if (!account || !account->run) {
    return "";
  }
  privacy::Charge total = account->total.empty() ? privacy::Charge{} : account->total.front();
  return ". The run took " + std::to_string(account->run->taken()) + " steps, which cost epsilon " +
         shortly(privacy::smallestEpsilon(total, delta)) + "; the state is that after the last of them";
}

/// Whether more is left of a budget than the rounding of charges keeps of a spent one, about 1e-7 of it.
static bool hasRest(const ledger::Grant &budget, const privacy::Charge &spent) {
  return admits({budget.epsilon * (1 - 1e-4), budget.delta}, spent);
}

llvm::Error Accounts::checkLeft(const std::string &client, const std::string &dataset, const RunAccount *run) {
  if (client.empty()) {
    return noBudget(client, dataset); // to the ledger an empty name means all of them
  }
  auto lines = books->accounts(client, dataset);
  if (!lines) {
    return plain(lines.problem());
  }
  if (lines->empty() || lines->front().grant.epsilon <= 0) {
    return noBudget(client, dataset);
  }
  if (run && run->run && run->run->ahead() > 0) {
    return llvm::Error::success();
  }
  const ledger::AccountLine &mine = lines->front();
  std::string text;
  if (!hasRest(mine.grant, mine.spent)) {
    text = "the budget of client '" + client + "' on dataset '" + dataset + "', epsilon " +
           shortly(mine.grant.epsilon) + " at delta " + shortly(mine.grant.delta) + ", is spent";
  }
  auto populations = books->populations();
  if (!populations) {
    return plain(populations.problem());
  }
  for (const ledger::PopulationLine &line : *populations) {
    if (text.empty() && line.population == mine.population && line.cap && !hasRest(*line.cap, line.spent)) {
      text = "the cap on the people of '" + line.population + "' over all clients, epsilon " +
             shortly(line.cap->epsilon) + " at delta " + shortly(line.cap->delta) + ", is spent";
    }
  }
  return text.empty() ? llvm::Error::success()
                      : requestError(wire::ErrorCode_Budget, text + runText(run, mine.grant.delta));
}

bool Accounts::isUncounted(const std::string &client, const std::string &dataset) {
  std::lock_guard lock(uncountedMutex);
  return uncounted.contains({client, dataset});
}

llvm::Error Accounts::addOverruns(const std::string &client, const std::string &dataset, uint64_t bits) {
  std::lock_guard lock(uncountedMutex);
  const std::pair key(client, dataset);
  const uint64_t all = uncounted[key] += bits;
  if (llvm::Error error = statusOf(books->addOverruns(client, dataset, all))) {
    return error;
  }
  uncounted.erase(key);
  return llvm::Error::success();
}

llvm::Error Accounts::checkOverruns(const std::string &client, const std::string &dataset, uint64_t most) {
  if (most == 0) {
    return llvm::Error::success();
  }
  auto bits = books->overruns(client, dataset);
  if (!bits) {
    return plain(bits.problem());
  }
  if (isUncounted(client, dataset)) { // perhaps the ledger can be written now
    llvm::consumeError(addOverruns(client, dataset, 0));
    bits = books->overruns(client, dataset);
    if (!bits) {
      return plain(bits.problem());
    }
  }
  {
    std::lock_guard lock(uncountedMutex);
    if (auto found = uncounted.find({client, dataset}); found != uncounted.end()) {
      *bits += found->second;
    }
  }
  return *bits < most
             ? llvm::Error::success()
             : requestError(wire::ErrorCode_Refused,
                            "private dataset '" + dataset + "' is closed to client '" + client +
                                "': steps that took longer than their time may have told it " + std::to_string(*bits) +
                                " bits about rows, and the limit is " + std::to_string(most) +
                                "; the data owner opens it again with: sojourn-owner forgive-overruns " + dataset +
                                " --client " + client);
}

llvm::Error Accounts::forgiveOverruns(const std::string &client, const std::string &dataset) {
  if (isUncounted(client, dataset)) {
    if (llvm::Error error = addOverruns(client, dataset, 0)) {
      return error;
    }
  }
  return statusOf(books->forgiveOverruns(client, dataset));
}

llvm::Error Accounts::refused(const ledger::Problem &problem, const std::string &client, const ledger::Item &first,
                              const RunAccount *account) const {
  using ledger::Code;
  if (llvm::is_contained({Code::noGrant, Code::noCap, Code::unknownClient, Code::unknownDataset}, problem.code)) {
    return noBudget(client, first.dataset);
  }
  if (problem.code != ledger::Code::budgetExhausted || !problem.exhausted) {
    return problem.code == Code::planExceeded ? requestError(wire::ErrorCode_Budget, problem.text) : plain(problem);
  }
  const ledger::Exhausted &what = *problem.exhausted;
  double delta = what.budget.delta, spent = privacy::smallestEpsilon(what.spent, delta);
  double after = privacy::smallestEpsilon(what.spent + what.asked, delta);
  std::string text = what.client.empty()
                         ? "the cap on the people of '" + what.population + "' over all clients"
                         : "the budget of client '" + what.client + "' on dataset '" + what.dataset + "'";
  text += ", epsilon " + shortly(what.budget.epsilon) + " at delta " + shortly(delta) + ", is spent up to " +
          shortly(spent) + "; with this request it would come to " + shortly(after);
  return requestError(wire::ErrorCode_Budget, text + runText(account, delta));
}

llvm::Error Accounts::payStep(const std::string &client, std::shared_ptr<RunAccount> &account, uint64_t planSteps,
                              const runtime::ProgramHash &program, const std::vector<ledger::Item> &items) {
  if (!account) {
    ledger::RunRequest request;
    request.client = client;
    std::copy(program.begin(), program.end(), request.moduleHash.begin());
    request.what = "training run";
    request.items = items;
    request.steps = planSteps;
    auto run = books->openRun(request);
    if (!run) {
      return refused(run.problem(), client, items.front(), nullptr);
    }
    account = std::make_shared<RunAccount>();
    account->run = *run;
    account->total.resize(items.size());
  }
  std::vector<privacy::Charge> charges;
  for (const ledger::Item &item : items) {
    charges.push_back(item.charge);
  }
  auto taken = account->run->takeStep(charges);
  if (!taken) {
    return refused(taken.problem(), client, items.front(), account.get());
  }
  for (size_t k = 0; k < charges.size(); ++k) {
    account->total[k] = account->total[k] + charges[k];
  }
  return llvm::Error::success();
}

void Accounts::putBackStep(RunAccount &account, const std::vector<ledger::Item> &items) noexcept {
  account.run->putBack();
  for (size_t k = 0; k < items.size(); ++k) {
    account.total[k] = account.total[k] - items[k].charge;
  }
}

RunAccount::~RunAccount() {
  if (run) {
    run->close();
  }
}

std::string Accounts::nextKey() { return std::to_string(opened) + ":" + std::to_string(++keys); }

llvm::Expected<ledger::Ticket> Accounts::payReleases(const ledger::ReserveRequest &request) {
  ledger::ReserveAnswer answer = books->reserve(request);
  if (auto *problem = std::get_if<ledger::Problem>(&answer)) {
    return refused(*problem, request.client, request.items.front(), nullptr);
  }
  if (std::holds_alternative<ledger::SealedBytes>(answer)) {
    return requestError(wire::ErrorCode_Malformed, "this step was already released");
  }
  ledger::Ticket ticket = std::get<ledger::Ticket>(answer);
  if (ledger::Status status = books->start(ticket)) {
    return plain(*status);
  }
  return ticket;
}

llvm::Expected<ledger::SealedBytes> Accounts::seal(ledger::Ticket ticket, std::string_view bytes) {
  auto sealed = books->seal(ticket, std::string(bytes));
  if (!sealed) {
    return plain(sealed.problem());
  }
  return std::move(*sealed);
}

void Accounts::deliver(ledger::Ticket ticket) { books->deliver(ticket); }
void Accounts::burn(ledger::Ticket ticket, const std::string &why) { books->burn(ticket, why); }

} // namespace sojourn::owner
