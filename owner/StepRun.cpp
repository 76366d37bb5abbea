// SPDX-License-Identifier: Apache-2.0
// One step of a message: bindings, booking, run, commit.
#include "owner/StepRun.h"

#include "dialect/Signature.h"
#include "runtime/wire/Step.h"

#include <algorithm>
#include <set>

namespace sojourn::owner {

using llvm::Twine;
using runtime::HostTensor;

StepRun::~StepRun() {
  if (reserved == 0 && kept.empty()) {
    return;
  }
  std::lock_guard lock(context.mutex);
  for (uint64_t id : kept) {
    session.handles.erase(id);
  }
  if (reserved > 0) {
    context.sessions.letGo(session, reserved);
  }
}

/// Everything that could make the commit fail is settled here, or reserved.
llvm::Error StepRun::book() {
  for (auto check : {&StepRun::checkRoom, &StepRun::checkPublishes}) {
    if (llvm::Error error = (this->*check)()) {
      return error;
    }
  }
  if (llvm::Error error = context.log.add(hash, session.client, *plan, privacy ? privacy->logText() : "")) {
    return error;
  }
  context.sessions.hold(session, keepBytes);
  reserved = keepBytes;
  return llvm::Error::success();
}

/// Handles change in the session's turn alone: no mutex is needed.
llvm::Error StepRun::checkResults() {
  const auto &handles = session.handles;
  std::set<uint64_t> fresh;
  for (size_t index = 0; index < length(part.results); ++index) {
    uint64_t id = part.results->Get(static_cast<flatbuffers::uoffset_t>(index));
    if (handles.count(id) || !fresh.insert(id).second) {
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
  const Limits &limits = context.limits;
  // What was sent ahead is counted already, and gone when the step has committed.
  size_t freed = 0;
  for (uint64_t number : bound->sentAhead) {
    freed += heldBytes(session.uploads.at(number).buffer->size());
  }
  if (handles.size() + plan->facts.keeps > limits.handlesPerSession) {
    return requestError(wire::ErrorCode_Limit, "the step would keep " + Twine(plan->facts.keeps) +
                                                   " more values beside " + Twine(handles.size()) +
                                                   "; this owner holds up to " + Twine(limits.handlesPerSession) +
                                                   " handles per session: delete tensors that are no longer needed");
  }
  const auto &kinds = plan->facts.results;
  for (size_t index = 0; index < kinds.size(); ++index) {
    if (kinds[index].kind == StepResult::Keep) {
      keepBytes += heldBytes(kinds[index].type, resultLabels[index]);
    }
  }
  if (llvm::Error error = context.sessions.holdings.checkKept(session.account, keepBytes, freed,
                                                              "the " + Twine(keepBytes) +
                                                                  " bytes that the step would keep do not fit")) {
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
      if (auto policy = context.store.policy(source)) {
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
    std::string text = blockers(resultLabels[index], context.store.owner(), policyOf);
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
    const signing::PublicKey &own = context.store.owner();
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
  for (size_t index = 0; index < length(part.releases); ++index) {
    uint64_t id = part.releases->Get(static_cast<flatbuffers::uoffset_t>(index));
    if (!session.handles.count(id)) {
      return requestError(wire::ErrorCode_Handle,
                          "cannot release handle " + Twine(id) + ": this session has no such handle");
    }
    if (!distinct.insert(id).second) {
      return requestError(wire::ErrorCode_Malformed, "handle " + Twine(id) + " is released twice in one request");
    }
    releases.push_back(id);
  }
  gone.reserve(releases.size()); // the commit allocates nothing
  return llvm::Error::success();
}

llvm::Expected<std::vector<const HostTensor *>> StepRun::published(llvm::ArrayRef<HostTensor> values) const {
  const auto &results = plan->facts.results;
  std::vector<const HostTensor *> published;
  for (size_t index = 0; index < results.size(); ++index) {
    if (values.size() != results.size() || !values[index].buffer || !(values[index].type == results[index].type)) {
      return requestError(wire::ErrorCode_Internal, "the plan returned results other than it declared");
    }
    if (results[index].kind == StepResult::Publish) {
      published.push_back(&values[index]);
    }
  }
  return published;
}

PrivacyReport StepRun::report() const {
  PrivacyReport report = privacy ? privacy->report() : PrivacyReport();
  report.notes.insert(report.notes.end(), notes.begin(), notes.end());
  return report;
}

/// An upload that is kept as it came leaves the message that it lies in.
static void takeOut(std::vector<HostTensor> &values, llvm::ArrayRef<runtime::ResultSpec> results) {
  for (auto [value, spec] : llvm::zip(values, results)) {
    if (spec.kind != StepResult::Publish && value.buffer->isBorrowed()) {
      auto copy = runtime::BufferPool::global().allocate(value.buffer->size());
      std::copy_n(static_cast<const char *>(value.buffer->data()), value.buffer->size(),
                  static_cast<char *>(copy->data()));
      sojourn::wire::countCopied(value.buffer->size());
      value.buffer = std::move(copy);
    }
  }
}

/// All that the commit allocates: new handles, of which no request can know before it.
void StepRun::keep(llvm::ArrayRef<HostTensor> values) {
  const auto &results = plan->facts.results;
  kept.reserve(plan->facts.keeps);
  for (size_t index = 0; index < results.size(); ++index) {
    if (results[index].kind == StepResult::Keep) {
      uint64_t id = part.results->Get(static_cast<flatbuffers::uoffset_t>(kept.size()));
      session.handles.try_emplace(
          id, Handle{values[index], resultLabels[index], heldBytes(results[index].type, resultLabels[index])});
      kept.push_back(id);
    }
  }
}

/// Nothing here can fail: the reply says already that the step has committed.
void StepRun::commit(std::vector<HostTensor> &values) {
  const auto &results = plan->facts.results;
  reserved = 0; // it belongs to the new handles now
  kept.clear();
  for (size_t index = 0; index < results.size(); ++index) {
    if (results[index].kind == StepResult::Commit) {
      Handle &state = *bound->states[results[index].target];
      // The type is the same. The old value goes with `values`, when the mutex is free again.
      std::swap(state.tensor.buffer, values[index].buffer);
      state.label = resultLabels[index];
    }
  }
  for (uint64_t number : bound->sentAhead) {
    context.sessions.dropUpload(session, number);
  }
  for (uint64_t id : releases) {
    gone.push_back(context.sessions.takeHandle(session, id));
  }
}

llvm::Error StepRun::bind() {
  bound.emplace(part, *plan, session, messageBytes);
  llvm::Error error = bound->checkCounts();
  error = error ? std::move(error) : bound->bindOwn();
  if (!error) {
    std::lock_guard lock(context.mutex);
    error = bound->bindTables(context.store);
    if (error && !error.isA<RequestError>()) {
      error = unreadableTable(context, session.account, std::move(error));
    }
  }
  error = error ? std::move(error) : bound->checkFiles();
  if (error) {
    return error;
  }
  resultLabels = joinLabels(bound->labels, plan->facts.dependence);
  auto made = PrivateStep::make(context, request, part, session, plan, *bound);
  if (!made) {
    return made.takeError();
  }
  privacy = std::move(*made);
  return privacy ? privacy->label(resultLabels) : llvm::Error::success();
}

llvm::Error StepRun::run(DoneReply &reply, llvm::function_ref<void()> committed) {
  for (auto check : {&StepRun::bind, &StepRun::checkResults, &StepRun::checkReleases}) {
    if (llvm::Error error = (this->*check)()) {
      return error;
    }
  }
  RunningStep &running = *session.running;
  const auto lane = StepQueue::laneOf(privacy ? privacy->operations() : plan->facts.operations);
  auto place = context.queue.enter(session.account, lane, context.running, running);
  if (!place) {
    return place.takeError();
  }
  size_t most = context.threads.most();
  auto memory = context.memory.lease(session.account,
                                     privacy ? privacy->runBytes(static_cast<unsigned>(most))
                                             : plan->facts.memory.bytes(static_cast<unsigned>(most)),
                                     running.flag());
  if (!memory) {
    return memory.takeError();
  }
  {
    // Permission for every published value is settled before anything runs.
    std::lock_guard lock(context.mutex);
    if (llvm::Error refused = book()) {
      return refused;
    }
  }
  if (context.environment.entering) {
    context.environment.entering(Phase::running);
  }
  ThreadBudget::Lease threads(context.threads);
  runtime::RunOptions options;
  options.threads = threads.threads;
  options.arenas = &context.arenas;
  options.profile = context.profile;
  options.stop = &running.flag();
  if (privacy) {
    if (llvm::Error error = privacy->checkRowLists(bound->bindings, options)) {
      return error;
    }
    // Paid before a coin is drawn or a row is read.
    if (llvm::Error error = privacy->pay()) {
      return error;
    }
    if (privacy->isCharged()) {
      context.running.charged(running);
    }
  }
  auto values =
      privacy ? privacy->run(bound->bindings, options) : context.worker.run(*plan->code, bound->bindings, options);
  if (!values) {
    return values.takeError();
  }
  if (llvm::Error error = bound->checkFiles()) {
    return error; // rows were zeros
  }
  auto leaving = published(*values);
  if (!leaving) {
    return leaving.takeError();
  }
  if (privacy && privacy->isTicketed()) {
    if (llvm::Error error = privacy->seal(doneReply(*leaving, report()).bytes)) {
      return error;
    }
  }
  takeOut(*values, plan->facts.results);
  {
    std::lock_guard lock(context.mutex);
    keep(*values);
  }
  reply.add(*leaving, report());
  std::lock_guard lock(context.mutex);
  commit(*values);
  committed();
  return llvm::Error::success();
}

} // namespace sojourn::owner
