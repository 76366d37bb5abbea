// SPDX-License-Identifier: Apache-2.0
// Steps on private tables (see PrivateStep.h).
#include "owner/PrivateStep.h"

#include "dialect/Signature.h"
#include "owner/Error.h"
#include "owner/Limits.h"
#include "runtime/signing/Receipt.h"

#include <cmath>
#include <set>

namespace sojourn::owner {

using llvm::Twine;

/// Programs of at most this many ops are proved in milliseconds.
static constexpr uint64_t kSmallProofOps = 2'000;

llvm::Expected<std::optional<PrivateStep>> PrivateStep::make(OwnerBooks &books, StepMachine &machine,
                                                             const wire::Step &request, const StepPart &part,
                                                             Session &session, const std::shared_ptr<const Plan> &plan,
                                                             const StepBindings &bound, bool follows) {
  // Steps without tables, and on open ones, are nearly all: they pay nothing but this.
  if (plan->facts.tables == 0) {
    return std::nullopt;
  }
  PrivateStep step(books, machine, request, session, plan);
  if (llvm::Error error = step.setSources(bound)) {
    return error;
  }
  if (llvm::none_of(step.sources, [](const auto &source) { return source.has_value(); })) {
    return std::nullopt;
  }
  if (!follows) {
    if (auto able = session.worker.inspect(*plan->code, {}, {}, 1, &session.running->flag()); !able) {
      return able.takeError();
    }
  }
  step.setTerms(part, bound);
  if (llvm::Error error = step.setReleases()) {
    return error;
  }
  if (llvm::Error error = follows ? step.setKnownPlan() : step.setPlan(bound)) {
    return error;
  }
  step.terms.tables = {}; // a copy of each column, and no longer needed
  return std::optional<PrivateStep>(std::move(step));
}

PrivateStep::~PrivateStep() {
  if (ticket && !isSealed) {
    books->accounts->burn(*ticket, "the step did not run to its end");
  }
}

std::string PrivateStep::datasets() const {
  std::set<Source> known;
  for (const auto &source : sources) {
    if (source) {
      known.insert(*source);
    }
  }
  return privateDatasets(known, books->store->owner());
}

llvm::Error PrivateStep::findPlan() {
  std::string key = terms.key();
  // As with programs, a proof that others have asked for takes as long as a new one.
  const bool isFirst = session->account != kLocalClient && !session->proofs.has(plan->code->id, key);
  if (!isFirst) {
    auto known = plan->privatePlans->find(key);
    if (!known) {
      return known.takeError();
    }
    noised = std::move(*known);
    if (noised) {
      return llvm::Error::success();
    }
  }
  auto place = machine->queue.enter(session->account,
                                    plan->facts.ops <= kSmallProofOps ? StepQueue::Lane::small : StepQueue::Lane::large,
                                    machine->running, *session->running);
  if (!place) {
    return place.takeError();
  }
  machine->entering(Phase::proving);
  if (isFirst) {
    session->proofs.add(plan->code->id, key);
  }
  bool isLasting = false; // others may pass, as memory that is short
  auto made =
      makePrivatePlan(machine->worker, *plan, terms, machine->limits.price, isLasting, &session->running->flag());
  if (!made) {
    RequestError error = takeRequestError(made.takeError());
    if (isLasting && !session->running->isStopped()) {
      plan->privatePlans->refuse(key, error);
    }
    return llvm::make_error<RequestError>(std::move(error));
  }
  noised = std::move(*made);
  isNew = true;
  plan->privatePlans->insert(key, noised, session->account);
  if (auto kept = plan->privatePlans->find(key)) { // perhaps that of another session: sessions run one code
    noised = *kept ? std::move(*kept) : std::move(noised);
  } else {
    return kept.takeError();
  }
  return llvm::Error::success();
}

/// Of small public tensors that the step reads and does not write.
llvm::Expected<std::vector<std::optional<runtime::Extent>>> PrivateStep::extentsOf(const StepBindings &bound) const {
  const auto &args = plan->facts.args;
  std::vector<std::optional<runtime::Extent>> extents(args.size());
  std::vector<unsigned> asked;
  std::set<size_t> written;
  for (const runtime::ResultSpec &result : plan->facts.results) {
    if (result.kind == StepResult::Commit) {
      written.insert(result.target);
    }
  }
  for (unsigned index = 0; index < args.size(); ++index) {
    bool isTensor = args[index].kind == StepArg::State || args[index].kind == StepArg::Upload;
    if (isTensor && terms.publicArguments[index] && !written.contains(index) &&
        args[index].type.bytes() <= runtime::kExtentBytes) {
      asked.push_back(index);
    }
  }
  auto found = session->worker.inspect(*plan->code, asked.empty() ? BoundWords() : bound.bound, asked, 1,
                                       &session->running->flag());
  if (!found) {
    return found.takeError();
  }
  for (auto [index, extent] : llvm::zip_equal(asked, *found)) {
    extents[index] = extent && plan->facts.samplesRows ? runtime::roundedOut(*extent) : extent;
  }
  return extents;
}

llvm::Error PrivateStep::check(const BoundWords &bound, unsigned threads) const {
  return session->worker.inspect(*noised->code, bound, {}, threads, &session->running->flag()).takeError();
}

/// A proof would wait for a place while the steps before hold theirs, and ranges of tensors are not known before those
/// have run. On an error the step is staged again when they have.
llvm::Error PrivateStep::setKnownPlan() {
  auto known = plan->privatePlans->find(terms.key());
  if (!known) {
    return known.takeError();
  }
  noised = std::move(*known);
  return noised && !plan->privatePlans->needsExtents
             ? llvm::Error::success()
             : requestError(wire::ErrorCode_Internal, "the step waits for those before it");
}

llvm::Error PrivateStep::setPlan(const StepBindings &bound) {
  // First without looking at tensors: else each new value of one would ask for a proof of its own.
  std::atomic<bool> &needsExtents = plan->privatePlans->needsExtents;
  bool looks = needsExtents;
  if (looks) {
    auto extents = extentsOf(bound);
    if (!extents) {
      return extents.takeError();
    }
    terms.extents = std::move(*extents);
  }
  llvm::Error failed = findPlan();
  if (failed && !looks) {
    RequestError error = takeRequestError(std::move(failed));
    auto extents = extentsOf(bound);
    if (!extents) {
      return extents.takeError();
    }
    terms.extents = std::move(*extents);
    bool canHelp = error.code == wire::ErrorCode_Refused &&
                   llvm::any_of(terms.extents, [](const auto &extent) { return extent.has_value(); });
    failed = canHelp ? findPlan() : llvm::make_error<RequestError>(std::move(error));
    if (noised) {
      needsExtents = true;
    }
  }
  if (failed) {
    RequestError error = takeRequestError(std::move(failed));
    if (error.code == wire::ErrorCode_Refused) {
      error.message += " (" + datasets() + ")";
    }
    return llvm::make_error<RequestError>(std::move(error));
  }
  if (verdict().spendsInStep && !verdict().isSampled && spending.run == 0) {
    for (const SiteInfo &site : verdict().sites) {
      if (!site.isBeside && site.result) {
        return requestError(wire::ErrorCode_Refused,
                            "this value is computed from " + datasets() +
                                " and has no price; publish it with publish(value, epsilon=...)",
                            site.op, site.location);
      }
    }
  }
  return llvm::Error::success();
}

void PrivateStep::setErrors(llvm::ArrayRef<double> varying) {
  errors.assign(noised->errors.size(), std::numeric_limits<double>::quiet_NaN());
  for (size_t result = 0; result < errors.size(); ++result) {
    if (noised->errors[result]) {
      errors[result] = *noised->errors[result];
    } else if (result < varying.size()) {
      errors[result] = varying[result];
    }
  }
}

llvm::Error PrivateStep::label(std::vector<LabelPtr> &labels) const {
  std::vector<LabelPtr> open = argumentLabels;
  for (size_t index = 0; index < open.size(); ++index) {
    if (!terms.publicArguments[index]) {
      open[index] = Label::released(open[index]); // its rows left only through the noise, or not at all
    }
  }
  std::vector<LabelPtr> released = joinLabels(open, plan->facts.dependence);
  for (size_t result = 0; result < labels.size(); ++result) {
    if (verdict().results[result].isReleased) {
      labels[result] = released[result];
      continue;
    }
    const auto &tables = verdict().results[result].tables;
    if (!tables) {
      labels[result] = nullptr;
      continue;
    }
    for (unsigned table : *tables) {
      labels[result] = joinLabels(labels[result], sources[table] ? Label::of(*sources[table]) : nullptr);
    }
    bool isGuarded = !labels[result] || llvm::any_of(labels[result]->sources(), [&](const Source &source) {
      return unreleased.count(source) > 0;
    });
    if (verdict().results[result].isTainted && !isGuarded) {
      return requestError(wire::ErrorCode_Internal,
                          "result " + Twine(result) +
                              " holds private rows, or the owner's draw of them, and would be kept as an open value; "
                              "nothing was read or charged. This is a defect of the owner, please report it");
    }
  }
  return llvm::Error::success();
}

std::vector<ledger::Item> PrivateStep::items(bool beside) const {
  std::vector<ledger::Item> list;
  for (const TableCharge &charge : verdict().charges) {
    const privacy::Charge &cost = beside ? charge.beside : charge.step;
    if (cost != privacy::Charge{}) {
      const Source &source = *sources[charge.argument];
      list.push_back({source.name, source.version, "", cost, source.owner});
    }
  }
  return list;
}

/// Whether each noise is paid for by all tables of its draws, and each charge is of a private table, whatever the proof
/// says.
llvm::Error PrivateStep::checkCharges() const {
  auto isPrivate = [&](uint64_t argument) { return argument < sources.size() && sources[argument]; };
  auto isPaid = [&](const SiteInfo &site) {
    return !site.tables.empty() && llvm::all_of(site.tables, [&](unsigned table) {
      return llvm::any_of(verdict().charges, [&](const TableCharge &charge) {
        return charge.argument == table && (site.isBeside ? charge.beside : charge.step) != privacy::Charge{};
      });
    });
  };
  bool isRight = llvm::all_of(verdict().charges, [&](const TableCharge &charge) { return isPrivate(charge.argument); });
  for (const CoinInfo &coin : verdict().coins) {
    isRight &=
        coin.kind == CoinInfo::Kind::draw || (coin.site < verdict().sites.size() && isPaid(verdict().sites[coin.site]));
  }
  if (!isRight) {
    return requestError(wire::ErrorCode_Internal,
                        "a value would be released without a charge to each of its tables; nothing was read or "
                        "charged. This is a defect of the owner, please report it");
  }
  return llvm::Error::success();
}

llvm::Error PrivateStep::pay() {
  if (llvm::Error error = checkCharges()) {
    return error;
  }
  charged = {request->session(), request->sequence()};
  charged.reserve(8); // nothing fails between a charge and its note
  std::vector<ledger::Item> step = items(/*beside=*/false), beside = items(/*beside=*/true);
  if (!step.empty()) {
    std::string datasets;
    for (const ledger::Item &item : step) {
      const bool isOwn = item.owner == books->store->owner();
      datasets += (isOwn ? books->store->ownerText() : signing::keyText(item.owner)) + ' ' + item.dataset + '\n';
    }
    if (session->runs.size() >= kRunsPerSession && !session->runs.count({spending.run, datasets})) {
      return requestError(wire::ErrorCode_Limit, "this session has " + Twine(session->runs.size()) +
                                                     " training runs under way, its limit; end one first");
    }
    std::shared_ptr<RunAccount> &run = session->runs[{spending.run, datasets}];
    runtime::ProgramHash hash{};
    std::memcpy(hash.data(), bytesOf(request->program_hash()).data(), hash.size());
    if (llvm::Error error = books->accounts->payStep(session->account, run, spending.steps, hash, step)) {
      return error;
    }
    paidBy = run;
    paidByRun = std::move(step);
    charged.insert(charged.end(), {run->run->id(), run->run->taken()});
  }
  if (!beside.empty()) {
    ledger::ReserveRequest reserve;
    reserve.client = session->account;
    reserve.key = books->accounts->nextKey();
    std::memcpy(reserve.moduleHash.data(), bytesOf(request->program_hash()).data(), reserve.moduleHash.size());
    for (const SiteInfo &site : verdict().sites) {
      if (site.isBeside) {
        reserve.what += (reserve.what.empty() ? "" : ", ") + site.what;
        reserve.sites.push_back({static_cast<uint64_t>(site.scale), static_cast<uint64_t>(std::ceil(site.sensitivity)),
                                 static_cast<int32_t>(site.exponent), site.what});
      }
    }
    reserve.items = std::move(beside);
    auto started = books->accounts->payReleases(reserve);
    if (!started) {
      putBack();
      return started.takeError();
    }
    ticket = *started;
    charged.push_back(ticket->id);
    paid = std::move(reserve);
  }
  return llvm::Error::success();
}

void PrivateStep::putBack() noexcept {
  if (paidBy) {
    Accounts::putBackStep(*paidBy, paidByRun);
    paidBy = nullptr;
    charged.resize(2);
  }
}

bool PrivateStep::sealsRelease() const {
  return llvm::any_of(verdict().sites, [](const SiteInfo &site) { return site.isBeside; });
}

bool PrivateStep::letsOthersFollow() const {
  const bool endsBlock = paidBy && paidBy->run->ahead() == 0;
  return !sealsRelease() && !endsBlock && !plan->privatePlans->needsExtents &&
         verdict().listMemory == runtime::RunMemory{};
}

std::string PrivateStep::logText() const { return "on " + datasets() + ": " + noised->report; }

llvm::Error PrivateStep::seal(std::string_view bytes) {
  auto sealed = books->accounts->seal(*ticket, bytes);
  if (!sealed) {
    return sealed.takeError();
  }
  isSealed = true;
  signing::Receipt made;
  made.what = paid.what;
  made.client = session->account;
  for (const TableCharge &charge : verdict().charges) {
    if (charge.beside != privacy::Charge{}) {
      const Source &source = *sources[charge.argument];
      made.items.push_back({source.name, source.version, source.owner, privacy::smallestEpsilon(charge.beside, delta),
                            privacy::bestOrderEpsilon(charge.beside, delta),
                            privacy::smallestEpsilon(charge.besideReplaced, delta),
                            privacy::bestOrderEpsilon(charge.besideReplaced, delta), delta});
    }
  }
  made.programHash = paid.moduleHash;
  made.seq = sealed->seq;
  made.entryHash = sealed->hash;
  made.timeMs = sealed->timeMs;
  made.resultDigest = sealed->digest;
  made.sites = paid.sites;
  const bool isTimed = machine->limits.timeHeadroom > 0 && session->account != kLocalClient;
  const uint64_t most = machine->limits.overrunBits;
  made.notes.emplace_back(
      !isTimed    ? "the proof does not cover the time of the reply: it may depend on the rows"
      : most == 0 ? "the reply left at the end of a time that does not depend on the rows; the number of steps "
                    "that take longer than theirs, and tell bits by it, is not limited"
                  : "the reply left at the end of a time that does not depend on the rows; steps that take "
                    "longer than theirs, fail or are stopped are counted in bits, and at " +
                        std::to_string(most) + " of them the table is closed to the client");
  receipt = signing::signReceipt(made, books->accounts->key());
  receiptText = signing::receiptJson(made, receipt, books->accounts->key().publicKey());
  books->accounts->deliver(*ticket);
  return llvm::Error::success();
}

PrivacyReport PrivateStep::report() const {
  PrivacyReport report;
  const auto &results = plan->facts.results;
  bool anyRelease = false;
  for (unsigned index = 0; index < results.size(); ++index) {
    if (results[index].kind != StepResult::Publish) {
      continue;
    }
    ReleaseNote note;
    note.error = errors[index];
    for (const SiteInfo &site : verdict().sites) {
      if (site.result == index) {
        anyRelease = true;
        if (site.isBeside) {
          note.receipt = receipt;
          note.text = receiptText;
        }
      }
    }
    report.releases.push_back(std::move(note));
  }
  if (!anyRelease) {
    report.releases.clear();
  }
  if (isNew) {
    report.notes = verdict().notes;
  }
  return report;
}

} // namespace sojourn::owner
