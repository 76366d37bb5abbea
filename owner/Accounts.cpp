// SPDX-License-Identifier: Apache-2.0
// The ledger with the portfolio filter, and its refusals in words (see Accounts.h).
#include "owner/Accounts.h"

#include "owner/RequestError.h"

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

llvm::Error plain(const ledger::Problem &problem) {
  auto code = problem.code == ledger::Code::disk || problem.code == ledger::Code::damaged ||
                      problem.code == ledger::Code::busy || problem.code == ledger::Code::olderFile
                  ? wire::ErrorCode_Internal
                  : wire::ErrorCode_Refused;
  return requestError(code, problem.text);
}

llvm::Error statusOf(const ledger::Status &status) { return status ? plain(*status) : llvm::Error::success(); }

} // namespace

llvm::Expected<std::unique_ptr<Accounts>> Accounts::open(const Environment &environment) {
  std::unique_ptr<Accounts> accounts(new Accounts());
  ledger::LedgerOptions options;
  options.clockMs = environment.clockMs;
  options.admits = admits;
  if (environment.storeDirectory.empty()) {
    accounts->signingKey = std::make_unique<ledger::SigningKey>(ledger::SigningKey::generate());
  } else {
    std::filesystem::path folder(environment.storeDirectory);
    auto key = ledger::SigningKey::open((folder / "owner.key").string());
    if (!key) {
      return plain(key.problem());
    }
    accounts->signingKey = std::make_unique<ledger::SigningKey>(*key);
    std::filesystem::create_directories(folder / "head");
    options.path = (folder / "ledger.sqlite").string();
    options.headPath = (folder / "head" / "ledger.head").string();
  }
  options.key = accounts->signingKey.get();
  auto books = ledger::Ledger::open(std::move(options));
  if (!books) {
    return plain(books.problem());
  }
  accounts->books = std::move(*books);
  environment.randomBytes(&accounts->opened, sizeof(accounts->opened));
  return accounts;
}

llvm::Error Accounts::ensureLinked(const std::string &dataset) {
  auto populations = books->populations();
  if (!populations) {
    return plain(populations.problem());
  }
  bool isLinked = llvm::any_of(
      *populations, [&](const ledger::PopulationLine &line) { return llvm::is_contained(line.datasets, dataset); });
  return isLinked ? llvm::Error::success()
                  : statusOf(books->linkDataset(dataset, /*population=*/"", ledger::Relation::nullOne));
}

llvm::Error Accounts::setCap(const std::string &dataset, const privacy::Grant &cap) {
  if (std::string problem = privacy::grantError(cap); !problem.empty()) {
    return requestError(wire::ErrorCode_Refused, problem);
  }
  if (llvm::Error error = ensureLinked(dataset)) {
    return error;
  }
  return statusOf(books->setCap(dataset, {cap.epsilon, cap.delta}));
}

llvm::Error Accounts::setGrant(const std::string &client, const std::string &dataset, const privacy::Grant &grant) {
  if (std::string problem = privacy::grantError(grant); !problem.empty()) {
    return requestError(wire::ErrorCode_Refused, problem);
  }
  if (client == kLocalClient) {
    auto known = books->clients();
    if (known && !known->count(client)) {
      if (llvm::Error error = statusOf(books->addClient(client, /*publicKey=*/""))) {
        return error;
      }
    }
    auto populations = books->populations();
    bool isCapped = populations && llvm::any_of(*populations, [&](const ledger::PopulationLine &line) {
                      return llvm::is_contained(line.datasets, dataset) && line.cap &&
                             line.cap->epsilon >= grant.epsilon && line.cap->delta >= grant.delta;
                    });
    if (!isCapped) {
      if (llvm::Error error = setCap(dataset, grant)) {
        return error;
      }
    }
  }
  return statusOf(books->setGrant(client, dataset, {grant.epsilon, grant.delta}));
}

llvm::Expected<BudgetInfo> Accounts::budget(const std::string &client, const std::string &dataset) {
  BudgetInfo info;
  info.dataset = dataset;
  auto lines = books->accounts(client, dataset);
  if (!lines) {
    return plain(lines.problem());
  }
  for (const ledger::AccountLine &line : *lines) {
    info.granted = true;
    info.epsilon = line.grant.epsilon;
    info.delta = line.grant.delta;
    double spent = privacy::smallestEpsilon(line.spent, line.grant.delta);
    info.epsilonLeft = std::max(0.0, line.grant.epsilon - spent);
  }
  return info;
}

static llvm::Error noBudget(const std::string &client, const std::string &dataset) {
  return requestError(wire::ErrorCode_Budget,
                      client.empty() ? "private dataset '" + dataset +
                                           "' needs a budget, and clients of a served owner cannot have one yet: they "
                                           "have no identity; use an embedded owner beside the data"
                                     : "client '" + client + "' has no budget on private dataset '" + dataset +
                                           "'; the data owner grants one: owner.grant(\"" + dataset +
                                           "\", epsilon=..., delta=...)");
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
          shortly(spent) + "; with what is asked it would come to " + shortly(after);
  if (account && account->run) {
    privacy::Charge total = account->total.empty() ? privacy::Charge{} : account->total.front();
    text += ". The run took " + std::to_string(account->run->taken()) + " steps, which cost epsilon " +
            shortly(privacy::smallestEpsilon(total, delta)) + "; the state is that of the last of them";
  }
  return requestError(wire::ErrorCode_Budget, text);
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
    return requestError(wire::ErrorCode_Malformed, "this step was released before");
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
