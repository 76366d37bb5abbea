// SPDX-License-Identifier: Apache-2.0
// The public C++ surface over sessions.
#include "frontend/Sojourn.h"

#include "frontend/Checks.h"
#include "frontend/wire/Identity.h"
#include "frontend/wire/Trust.h"
#include "frontend/recording/Record.h"
#include "frontend/tables/JoinedRows.h"
#include "frontend/tables/Rows.h"
#include "frontend/flight/Flights.h"
#include "frontend/flight/Named.h"
#include "runtime/privacy/Plan.h"
#include "runtime/signing/SigningKey.h"

#include <algorithm>
#include <set>

namespace sojourn {

using namespace frontend;

c10::Device Owner::device() const { return session_->device(); }

std::string Owner::account() const { return session_->account(); }
std::string Owner::key() const { return session_->ownerKey(); }

std::vector<Table> Owner::datasets() const { return search(""); }

std::vector<Table> Owner::search(const std::string &text, const std::string &tag,
                                 const std::vector<std::string> &columns) const {
  std::vector<Table> found;
  for (const DatasetInfo &info : session_->datasets({text, tag, columns})) {
    found.push_back(remoteTable(session_, info));
  }
  return found;
}

Table Owner::dataset(const std::string &name) const { return remoteTable(session_, name); }

Table Owner::registerDataset(const std::string &name, const Source &source, const RegisterOptions &options) const {
  if (!registrar_) {
    raise(ErrorKind::Error, session_->address() + " is not an embedded owner; register the table at the owner: " +
                                "sojourn-owner import FILE --name NAME");
  }
  registrar_->add(name, source, options);
  return dataset(name);
}

void Owner::share(const std::string &name, const std::vector<Owner> &with, const std::string &level) const {
  if (!registrar_) {
    raise(ErrorKind::Error, session_->address() +
                                " is not an embedded owner; share the table at the owner: sojourn-owner share " + name +
                                " --with OWNER --as clear");
  }
  std::vector<std::string> keys;
  for (const Owner &other : with) {
    keys.push_back(signing::keyText(other.session()->connection().memberKey()));
  }
  registrar_->share(name, keys, level);
}

std::vector<ValueInfo> Owner::values(const std::string &tag) const {
  std::vector<ValueInfo> all;
  for (NamedValueInfo &info : frontend::namedValues(session_, tag)) {
    all.push_back({std::move(info.name), std::move(info.tags), scalarTypeOf(info.element),
                   std::move(info.shape.empty() ? info.dims : info.shape), info.bytes, info.namedMs, info.usedMs,
                   info.leaseMs});
  }
  return all;
}

std::vector<at::Tensor> Owner::takeValues(const std::vector<std::string> &names) const {
  return frontend::takeValues(session_, names);
}
void Owner::releaseNames(const std::vector<std::string> &names) const { frontend::releaseNames(session_, names); }

void nameValues(const std::vector<std::pair<std::string, at::Tensor>> &values, const std::vector<std::string> &tags) {
  frontend::nameValues(values, tags);
}

void Owner::flush() const { frontend::flush(session_); }
void Owner::close() const { session_->close(); }

static std::map<std::string, uint64_t> named(const Counters &c) {
  return {{"round_trips", c.round_trips},
          {"upload_parts", c.upload_parts},
          {"looks", c.looks},
          {"bytes_up", c.bytes_up},
          {"bytes_down", c.bytes_down},
          {"ops_recorded", c.ops_recorded},
          {"programs_compiled", c.programs_compiled},
          {"programs_resent", c.programs_resent},
          {"busy_retries", c.busy_retries},
          {"cache_hits", c.cache_hits},
          {"live_handles", c.live_handles},
          {"reads", c.reads},
          {"uploads", c.uploads},
          {"steps", c.steps},
          {"steps_dropped", c.steps_dropped}};
}

std::map<std::string, uint64_t> Owner::counters() const { return named(session_->counters()); }

void initialize() { registerDevice(); }

std::map<std::string, uint64_t> counters() {
  Counters total = Session::ended();
  for (const auto &session : Session::all()) {
    const Counters own = session->counters();
    for (uint64_t Counters::*count : kCounts) {
      total.*count += own.*count;
    }
  }
  return named(total);
}

/// A session as whoever the credentials say, over a transport that is made once they can be read.
template <class MakeTransport>
static Owner open(const std::string &address, const Credentials &credentials, MakeTransport makeTransport) {
  initialize();
  const bool isTls = address.starts_with("tls+"), hasIdentity = !credentials.identity.empty();
  if (!isTls && !hasIdentity && !credentials.ownerKey.empty()) {
    raise(ErrorKind::Error, "owner_key can only be checked with an identity; give identity=FILE too");
  }
  std::shared_ptr<Identity> identity;
  std::shared_ptr<KnownOwners> owners;
  translated([&] {
    owners = std::make_shared<KnownOwners>(
        hasIdentity ? Identity::ownersFile(credentials.identity) : defaultOwnersFile(), credentials.ownerKey, address);
    if (hasIdentity) {
      identity = std::make_shared<Identity>(credentials.identity, owners);
    }
  });
  auto session = Session::open(makeTransport(isTls ? std::make_shared<Trust>(owners) : nullptr), identity);
  if (isTls) {
    try {
      translated([&] { owners->remember(); });
    } catch (...) {
      session->close();
      throw;
    }
  }
  return Owner(std::move(session));
}

Owner connect(const std::string &url, int timeoutMs, const Credentials &credentials, bool plainTcp) {
  return open(url, credentials, [&](std::shared_ptr<Trust> trust) {
    return translated([&] { return dialTransport(url, timeoutMs, std::move(trust), plainTcp); });
  });
}

Owner connect(const std::string &name, std::function<wire::Message(std::string_view)> handle,
              const Credentials &credentials, int timeoutMs) {
  return open(name, credentials, [&](const std::shared_ptr<Trust> &) {
    return makeFunctionTransport(name, std::move(handle), timeoutMs);
  });
}

Parties parties(const std::vector<Owner> &owners, std::optional<bool> masked) {
  std::vector<std::shared_ptr<Session>> members;
  for (const Owner &owner : owners) {
    members.push_back(owner.session());
  }
  return Parties(Session::openGroup(members, masked));
}

c10::Device Parties::device() const { return session_->device(); }

Table Parties::rows(const std::string &name) const {
  std::vector<Table> tables;
  for (const auto &member : session_->members()) {
    tables.push_back(remoteTable(member, name));
  }
  return rows(tables);
}

Table Parties::rows(const std::vector<Table> &tables) const { return joinTables(session_, tables); }

void Parties::flush() const { frontend::flush(session_); }

void Parties::close() const { session_->close(); }

std::map<std::string, uint64_t> Parties::counters() const { return named(session_->counters()); }

Table pooled(const std::vector<Table> &tables) { return joinTables(nullptr, tables); }

Step::Step() { Steps::begin(); }

Step::~Step() {
  if (open_) {
    Steps::abort();
  }
}

void Step::end() {
  if (open_) {
    open_ = false;
    endStep();
  }
}

Published::Published(std::shared_ptr<PublishedState> state) : state_(std::move(state)), step_(Steps::current()) {}

bool Published::ready() const {
  return state_->settled && state_->value.defined() && (step_ == 0 || step_ != Steps::current());
}

at::Tensor Published::value() const {
  if (ready()) {
    return state_->value;
  }
  if (state_->settled && !state_->value.defined()) {
    raise(ErrorKind::Error,
          "this published value never arrived: " + state_->failure + "; publish it again in another step");
  }
  raise(ErrorKind::ValueNeeded,
        "a value published inside a step is filled by the step's reply; read it after the step has ended");
}

double Published::error() const { return state_->error; }
std::string Published::receipt() const { return state_->receipt; }
std::string Published::receiptText() const { return state_->receiptText; }

/// Numbers that are given; 0 stands for none.
static void requireGood(const PublishOptions &options) {
  if (options.epsilon != 0) {
    require("epsilon", options.epsilon, wire::kEpsilon);
  }
  if (options.delta != 0) {
    require("delta", options.delta, wire::kDelta);
  }
  if (options.bound != 0) {
    require("bound", options.bound, wire::kSaidBound);
  }
}

std::vector<Published> publishLater(const std::vector<at::Tensor> &tensors, const PublishOptions &options) {
  requireGood(options);
  // Copies, so that what is written to a tensor later in the step does not show; and all of them
  // first, so that a tensor without a value publishes none.
  std::vector<at::Tensor> copies;
  for (const at::Tensor &tensor : tensors) {
    copies.push_back(tensor.detach().clone(at::MemoryFormat::Contiguous));
  }
  std::vector<Published> all;
  std::set<Session *> begun; // of several values at an owner one price pays for all
  for (const at::Tensor &copy : copies) {
    if (isRemote(copy)) {
      Session &session = *Session::of(copy);
      bool continues = options.epsilon > 0 && !begun.insert(&session).second;
      all.emplace_back(session.publish(copy, {options.bound, options.epsilon, options.delta, continues}));
    } else {
      auto state = std::make_shared<PublishedState>();
      state->fill(copy);
      all.emplace_back(std::move(state));
    }
  }
  return all;
}

/// Of the budget that would pay: of several the greatest, at which the price holds whichever it is.
static double deltaOfBudgets(Session &session, double asked) {
  double most = 0;
  for (const DatasetInfo &table : session.datasets()) {
    if (table.policy == "private") {
      BudgetInfo budget = session.budget(table.name);
      most = budget.granted ? std::max(most, budget.delta) : most;
    }
  }
  if (most == 0 && asked == 0) {
    raise(ErrorKind::Error,
          "no budget is granted, so no delta gives the price; ask the data owner for a grant, or give delta");
  }
  if (most > 0 && asked > 0) {
    require("delta", asked, {0, most, /*openBelow=*/true}, ", the delta of the grant");
  }
  return most > 0 ? most : asked;
}

ReleaseQuote quote(const at::Tensor &tensor, const PublishOptions &options) {
  require("epsilon", options.epsilon, wire::kEpsilon);
  requireGood(options);
  if (Steps::active()) {
    raise(ErrorKind::Error, "quote was called inside a step; end the step first");
  }
  if (!isRemote(tensor)) {
    return {};
  }
  at::Tensor copy = tensor.detach().clone(at::MemoryFormat::Contiguous);
  const auto at = Session::of(copy);
  Session &session = *at;
  frontend::Judgement judged = frontend::quote(at, copy, {options.bound, options.epsilon, options.delta, false});
  ReleaseQuote result;
  result.notes = judged.notes;
  for (const auto &release : judged.releases) {
    result.isFree = false;
    result.error = release.error;
    result.numbers += release.numbers;
    result.isLaplace = release.isLaplace;
  }
  if (!result.isFree) {
    result.delta = deltaOfBudgets(session, options.delta);
    privacy::Grant grant{options.epsilon, result.delta};
    auto price = options.delta > 0 ? privacy::gaussianRhoFor(grant) : privacy::pureEpsilonFor(grant);
    if (!price) {
      raise(ErrorKind::Error, price.error());
    }
  }
  return result;
}

at::Tensor publish(const at::Tensor &tensor, const PublishOptions &options) {
  Published published = publishLater({tensor}, options).front();
  if (!Steps::active()) {
    flush();
  }
  return published.value();
}

void flush() {
  if (!Steps::active()) {
    flushAll();
  }
}

} // namespace sojourn
