// SPDX-License-Identifier: Apache-2.0
// One step of a message: bindings, booking, run, commit.
#include "owner/StepRun.h"

#include "dialect/Signature.h"
#include "owner/Access.h"
#include "owner/StepShares.h"
#include "runtime/wire/Step.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace sojourn::owner {

using llvm::Twine;
using runtime::HostTensor;

StepRun::~StepRun() {
  if (fresh.empty() && reserved == 0 && releases.empty() && others.empty()) {
    return;
  }
  {
    std::lock_guard lock(books.mutex);
    for (const Replaced &each : llvm::reverse(replaced)) {
      each.state->value.id = each.id;
      each.state->label = each.label;
      each.state->copiesAt = each.copiesAt;
    }
    for (uint64_t id : kept) {
      session.handles.erase(id);
    }
    for (uint64_t id : others) {
      session.elsewhere.erase(id);
    }
    for (uint64_t id : releases) {
      if (auto found = session.handles.find(id); found != session.handles.end()) {
        found->second.isLeaving = false;
      }
    }
    if (reserved > 0) {
      books.sessions.letGo(session, reserved);
    }
  }
  llvm::erase(fresh, 0);
  session.worker.drop(fresh); // unknown ones are none
}

llvm::Error StepRun::book() {
  std::lock_guard lock(books.mutex);
  for (auto check : {&StepRun::checkRoom, &StepRun::checkPublishes}) {
    if (llvm::Error error = (this->*check)()) {
      return error;
    }
  }
  if (llvm::Error error = books.log->add(hash, session.client, *plan, privacy ? privacy->logText() : "")) {
    return error;
  }
  books.sessions.hold(session, keepBytes);
  reserved = keepBytes;
  return llvm::Error::success();
}

/// Handles change in the session's turn alone: no mutex is needed.
llvm::Error StepRun::checkResults() {
  std::set<uint64_t> fresh;
  for (size_t index = 0; index < binds.results.size(); ++index) {
    uint64_t id = binds.results[index];
    if (session.hasHandle(id) || !fresh.insert(id).second) {
      return requestError(wire::ErrorCode_Malformed, "handle id " + Twine(id) + " for kept result " + Twine(index) +
                                                         " is in use, expected one that this session does not have");
    }
  }
  // A handle bound twice and committed would have two new values.
  std::set<const Handle *> committed;
  for (const runtime::ResultSpec &spec : plan->facts.results) {
    if (spec.kind == StepResult::Commit && !committed.insert(bound->states[spec.target]).second) {
      return requestError(wire::ErrorCode_Malformed, "one handle is bound to two states that are both committed");
    }
  }
  return llvm::Error::success();
}

llvm::Error StepRun::checkRoom() {
  const auto &handles = session.handles;
  const Limits &limits = machine.limits;
  // What was sent ahead is counted already, and gone when the step has committed.
  size_t freed = 0;
  for (uint64_t number : bound->sentAhead) {
    freed += heldBytes(session.uploads.at(number).size);
  }
  const size_t keeps = binds.results.size();
  if (handles.size() + session.elsewhere.size() + keeps > limits.handlesPerSession) {
    return requestError(wire::ErrorCode_Limit, "the step would keep " + Twine(keeps) + " more values beside " +
                                                   Twine(handles.size() + session.elsewhere.size()) +
                                                   "; this owner holds up to " + Twine(limits.handlesPerSession) +
                                                   " handles per session: delete tensors that are no longer needed");
  }
  const auto &kinds = plan->facts.results;
  for (size_t index = 0; index < kinds.size(); ++index) {
    if (kinds[index].kind == StepResult::Keep) {
      keepBytes += heldBytes(kinds[index].type, resultLabels[index]);
    }
  }
  if (llvm::Error error =
          books.sessions.holdings.checkKept(session.account, keepBytes, freed,
                                            "the " + Twine(keepBytes) + " bytes that the step would keep do not fit")) {
    return error;
  }
  return llvm::Error::success();
}

llvm::Error StepRun::checkPublishes() {
  // Each policy is read once, as it stands now.
  std::map<Source, Policy> policies;
  llvm::Error failed = llvm::Error::success();
  auto policyOf = [&](const Source &source) {
    auto [at, fresh] = policies.try_emplace(source, Policy::privateOnly);
    if (fresh) {
      if (auto policy = books.store->policy(source)) {
        at->second = *policy;
      } else {
        failed = llvm::joinErrors(std::move(failed), policy.takeError());
      }
    }
    return at->second;
  };
  const auto &results = plan->facts.results;
  for (size_t index = 0; index < results.size(); ++index) {
    if (results[index].kind != StepResult::Publish || (privacy && privacy->isReleased(index))) {
      continue;
    }
    std::string text = blockers(resultLabels[index], books.store->owner(), policyOf);
    if (failed) {
      return failed;
    }
    if (!text.empty()) {
      return requestError(wire::ErrorCode_Refused,
                          "this value may not leave the owner: it is computed from " + text +
                              ". Only open data, your own uploads and values computed from these alone may be "
                              "published. Values computed from private rows leave only with noise, which is added in "
                              "the step that reads the rows: publish the value, or update the weights, inside that "
                              "step, or read the column again, table[...], in the step that publishes",
                          results[index].op, results[index].location);
    }
  }
  noteKept(policyOf);
  return failed;
}

/// Who trains on rows that were read before learns it now, not at the end when weights do not come out.
void StepRun::noteKept(llvm::function_ref<Policy(const Source &)> policyOf) {
  const auto &results = plan->facts.results;
  for (size_t index = 0; index < results.size(); ++index) {
    if (results[index].kind != StepResult::Commit) {
      continue;
    }
    const LabelPtr &before = bound->states[results[index].target]->label, &after = resultLabels[index];
    if (before == after || (before && after && before->covers(*after))) {
      continue;
    }
    const signing::PublicKey &own = books.store->owner();
    if (std::string text = blockers(after, own, policyOf); !text.empty() && blockers(before, own, policyOf).empty()) {
      notes.push_back(
          "the weights updated by this step can no longer be published: they are computed from " + text +
          ", read by an earlier step. Noise is added in the step that reads the rows: take batches, or read the table, "
          "where they are used; for two updates from one batch, put both in one @sojourn.step");
      return;
    }
  }
}

llvm::Error StepRun::checkReleases() {
  std::set<uint64_t> distinct;
  for (size_t index = 0; index < binds.releases.size(); ++index) {
    uint64_t id = binds.releases[index];
    auto found = session.handles.find(id);
    const bool isElsewhere = session.elsewhere.contains(id);
    if (!isElsewhere && (found == session.handles.end() || found->second.isLeaving)) {
      return requestError(wire::ErrorCode_Handle,
                          "cannot release handle " + Twine(id) + ": this session has no such handle");
    }
    if (!distinct.insert(id).second) {
      return requestError(wire::ErrorCode_Malformed, "handle " + Twine(id) + " is released twice in one request");
    }
    asked.push_back(id);
  }
  return llvm::Error::success();
}

RunPart StepRun::rehearsal() const {
  RunPart part;
  part.code = &code();
  part.words = bound->bound.words;
  part.isPrivate = true;
  return part;
}

std::vector<unsigned> StepRun::privateArguments() const {
  std::vector<unsigned> found;
  for (unsigned index = 0; index < bound->labels.size(); ++index) {
    const LabelPtr &label = bound->labels[index];
    if (privacy ? privacy->isPrivate(index) : !label || !label->sources().empty()) {
      found.push_back(index);
    }
  }
  return found;
}

RunPart StepRun::part(uint64_t since, bool isPrivate) const {
  std::vector<uint64_t> drops;
  drops.reserve(replaced.size());
  for (const Replaced &each : replaced) {
    if (each.id >= since) {
      drops.push_back(each.id);
    }
  }
  for (uint64_t id : releases) {
    // What has a name outlives its handle.
    if (auto found = session.handles.find(id);
        found != session.handles.end() && found->second.value.id >= since && !found->second.named) {
      drops.push_back(found->second.value.id);
    }
  }
  return {.code = &code(),
          .words = bound->bound.words,
          .results = fresh,
          .context = privacy ? privacy->coinContext() : std::vector<uint64_t>(),
          .drops = std::move(drops),
          .isPrivate = isPrivate};
}

PrivacyReport StepRun::report() const {
  PrivacyReport report = privacy ? privacy->report() : PrivacyReport();
  report.notes.insert(report.notes.end(), notes.begin(), notes.end());
  return report;
}

/// Number of the group whose members all have a result; else 0.
uint64_t StepRun::copiesAt(size_t result) const {
  const auto &joint = plan->facts.joint;
  const bool isCopy = joint && std::binary_search(joint->copies.begin(), joint->copies.end(), result);
  return isCopy && session.group ? session.group->number : 0;
}

/// All that the commit allocates: new handles, of which no request can know before it.
void StepRun::keep() {
  const auto &results = plan->facts.results;
  kept.reserve(plan->facts.keeps);
  others.reserve(plan->facts.joint ? binds.results.size() : 0);
  for (size_t index = 0; index < results.size(); ++index) {
    if (results[index].kind == StepResult::Keep) {
      const size_t at = plan->facts.joint ? plan->facts.joint->kept[kept.size()] : kept.size();
      uint64_t id = binds.results[at];
      const Value value{.type = results[index].type, .id = fresh[index]};
      Handle handle{value, nullptr, resultLabels[index], heldBytes(results[index].type, resultLabels[index])};
      handle.copiesAt = copiesAt(index);
      session.handles.try_emplace(id, std::move(handle));
      kept.push_back(id);
    }
  }
  for (size_t index = 0; plan->facts.joint && index < binds.results.size(); ++index) {
    const uint64_t id = binds.results[index];
    if (!session.handles.contains(id)) {
      session.elsewhere.insert(id);
      others.push_back(id);
    }
  }
}

void StepRun::apply() {
  const auto &results = plan->facts.results;
  uint64_t next = session.worker.newIds(results.size());
  std::lock_guard lock(books.mutex);
  replaced.reserve(results.size());
  fresh.reserve(results.size());
  for (const runtime::ResultSpec &spec : results) {
    fresh.push_back(spec.kind == StepResult::Publish ? 0 : next++);
  }
  keep();
  for (size_t index = 0; index < results.size(); ++index) {
    if (results[index].kind == StepResult::Commit) {
      Handle &state = *bound->states[results[index].target];
      replaced.push_back({&state, state.value.id, state.label, state.copiesAt});
      state.value.id = fresh[index]; // the type is the same
      state.label = resultLabels[index];
      state.copiesAt = copiesAt(index);
    }
  }
  // The commit allocates nothing.
  session.dropped.reserve(asked.size() + bound->sentAhead.size() + 2 * replaced.size());
  releases = std::move(asked);
  for (uint64_t id : releases) {
    if (auto found = session.handles.find(id); found != session.handles.end()) {
      found->second.isLeaving = true;
    }
  }
}

size_t StepRun::extraBytes(uint64_t since) const {
  size_t bytes = bound->copied + plan->facts.publishBytes;
  for (const Replaced &each : replaced) {
    bytes += each.id < since ? each.state->value.type.bytes() : 0;
  }
  for (uint64_t id : releases) {
    auto found = session.handles.find(id);
    bytes += found != session.handles.end() && found->second.value.id < since ? found->second.value.type.bytes() : 0;
  }
  return bytes;
}

bool StepRun::letsOthersFollow() const { return bound->sentAhead.empty() && (!privacy || privacy->letsOthersFollow()); }

/// Nothing here can fail: the reply says already that the step has committed. Old values go without the mutex.
void StepRun::commit(Memory &memory) {
  reserved = 0; // it belongs to the new handles now
  const auto &results = plan->facts.results;
  size_t nextKept = 0, nextReplaced = 0;
  for (size_t index = 0; index < results.size(); ++index) {
    if (results[index].kind == StepResult::Keep) {
      session.handles.find(kept[nextKept++])->second.memory = std::move(memory[index]);
    } else if (results[index].kind == StepResult::Commit) {
      const Replaced &each = replaced[nextReplaced++];
      session.dropped.add(each.id, std::exchange(each.state->memory, std::move(memory[index])));
      books.sessions.committed(session, *each.state, resultLabels[index]);
    }
  }
  kept.clear();
  others.clear();
  fresh.clear();
  replaced.clear();
  for (uint64_t number : bound->sentAhead) {
    books.sessions.dropUpload(session, number);
  }
  for (uint64_t id : releases) {
    books.sessions.dropHandle(session, id);
  }
  releases.clear();
}

llvm::Error StepRun::bind(bool follows) {
  bound.emplace(binds, *plan, session, messageBytes);
  llvm::Error error = bound->checkCounts();
  error = error ? std::move(error) : checkOwnTables();
  error = error ? std::move(error) : bound->bindOwn();
  if (!error) {
    std::lock_guard lock(books.mutex);
    error = bound->bindTables(*books.store);
    if (error && !error.isA<RequestError>()) {
      error = unreadableTable(books, machine.environment, session.account, std::move(error));
    }
  }
  error = error ? std::move(error) : bound->checkFiles();
  if (error) {
    return error;
  }
  bound->admitTables(/*isReadable=*/false);
  resultLabels = joinLabels(bound->labels, plan->facts.dependence);
  if (session.group) {
    return checkShares(books, session, *plan->facts.joint, *bound, request.masked(), machine.limits.sharedRowsLeast);
  }
  auto made = PrivateStep::make(books, machine, request, binds, session, plan, *bound, follows);
  if (!made) {
    return made.takeError();
  }
  privacy = std::move(*made);
  return privacy ? privacy->label(resultLabels) : llvm::Error::success();
}

/// Of a joint step, whose message names the tables of all members: access to this owner's.
llvm::Error StepRun::checkOwnTables() const {
  std::lock_guard lock(books.mutex);
  for (size_t index = 0; plan->facts.joint && index < plan->facts.args.size(); ++index) {
    if (plan->facts.args[index].kind != StepArg::Table) {
      continue;
    }
    const auto *table = binds.tables->Get(plan->facts.joint->positions[index]);
    const std::string name = table->name() ? table->name()->str() : "";
    auto hasAccess = books.store->hasAccess(name, session.account);
    if (!hasAccess) {
      return hasAccess.takeError();
    }
    if (!*hasAccess) {
      return noAccess(session.account, name);
    }
  }
  return llvm::Error::success();
}

llvm::Error StepRun::stage(const StepRun *first) {
  if (llvm::Error error = bind(first != nullptr)) {
    return error;
  }
  if (first && &code() != &first->code()) {
    return requestError(wire::ErrorCode_Internal, "the step runs other code than those before it");
  }
  for (auto check : {&StepRun::checkResults, &StepRun::checkReleases}) {
    if (llvm::Error error = (this->*check)()) {
      return error;
    }
  }
  return llvm::Error::success();
}

llvm::Error StepRun::pay(unsigned threads, bool isFirst) {
  if (!privacy) {
    return llvm::Error::success();
  }
  if (llvm::Error error = isFirst ? privacy->check(bound->bound, threads) : llvm::Error::success()) {
    return error;
  }
  // Paid before a coin is drawn or a row is read.
  if (llvm::Error error = privacy->pay()) {
    return error;
  }
  if (privacy->isCharged()) {
    machine.running.charged(*session.running);
  }
  return llvm::Error::success();
}

llvm::Error StepRun::land(RanParts::Part &ran, bool isAlone, DoneReply &reply, llvm::function_ref<void()> committed) {
  const bool isTicketed = privacy && privacy->isTicketed();
  // Of several steps each commits whatever happens: the worker may have dropped the values of before.
  try {
    std::vector<const HostTensor *> leaving;
    llvm::transform(ran.published, std::back_inserter(leaving), [](const HostTensor &value) { return &value; });
    if (privacy) {
      privacy->setErrors(ran.errors);
    }
    if (isTicketed) {
      if (llvm::Error error = privacy->seal(doneReply(leaving, report()).bytes)) {
        return error;
      }
    }
    reply.add(leaving, report());
  } catch (const std::bad_alloc &) {
    if (isTicketed || isAlone) {
      throw;
    }
    reply.addWithoutValues();
  }
  {
    std::lock_guard lock(books.mutex);
    commit(ran.kept);
    committed();
  }
  Sessions::dropValues(session);
  return llvm::Error::success();
}

} // namespace sojourn::owner
