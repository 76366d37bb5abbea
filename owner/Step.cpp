// SPDX-License-Identifier: Apache-2.0
// The way of a step through the owner: turn, sequence, program, bindings, booking, run, reply, commit.
#include "owner/Step.h"

#include "owner/PrivateStep.h"
#include "owner/Reply.h"
#include "owner/StepBindings.h"
#include "runtime/Limits.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

#include <cstring>
#include <set>

namespace sojourn::owner {

using llvm::Twine;
using runtime::HostTensor;

namespace {

RequestHash hashRequest(std::string_view message) {
  auto hash = llvm::xxh3_128bits(llvm::ArrayRef(reinterpret_cast<const uint8_t *>(message.data()), message.size()));
  return {hash.high64, hash.low64};
}

std::string hashText(const RequestHash &hash) {
  return llvm::utohexstr(hash[0], /*LowerCase=*/true, 16) + llvm::utohexstr(hash[1], /*LowerCase=*/true, 16);
}

class Step {
public:
  Step(const StepContext &context, const wire::Step &request, std::string_view message)
      : context(context), request(request), requestHash(hashRequest(message)) {}
  ~Step();
  llvm::Expected<StepReply> run();

private:
  llvm::Expected<Message> fromMemory() const;
  llvm::Error findPlan();
  llvm::Error makePlan();
  llvm::Error book();
  llvm::Error checkResults();
  llvm::Error checkReleases();
  llvm::Error checkPublishes();
  void noteKept(llvm::function_ref<Policy(const Source &)> policyOf);
  llvm::Expected<Message> reply(llvm::ArrayRef<HostTensor> values) const;
  void commit(std::vector<HostTensor> &values, const Message &reply);

  const StepContext &context;
  const wire::Step &request;
  const RequestHash requestHash;
  std::unique_ptr<SessionTurn> session; ///< outlives what points into the session
  runtime::ProgramHash hash{};
  std::shared_ptr<const Plan> plan;
  std::optional<StepBindings> bound;
  std::vector<LabelPtr> resultLabels;
  std::vector<std::string> notes;     ///< for the client
  std::optional<PrivateStep> privacy; ///< of a step on private tables
  std::vector<uint64_t> releases;
  size_t reserved = 0; ///< of Sessions::handleBytes, until the commit or the end
};

Step::~Step() {
  if (reserved > 0) {
    std::lock_guard lock(context.mutex);
    context.sessions.handleBytes -= reserved;
  }
}

/// The reply to a repetition of the session's last step; empty if the request is its next one.
llvm::Expected<Message> Step::fromMemory() const {
  const LastStep last = [&] {
    std::lock_guard lock(context.mutex);
    return (*session)->last;
  }();
  uint64_t found = request.sequence();
  if (found == last.sequence + 1) {
    return Message();
  }
  if (found == 0 || found != last.sequence) {
    std::string expected = std::to_string(last.sequence + 1);
    expected += last.sequence ? ", or " + std::to_string(last.sequence) + " to repeat the last one" : "";
    return requestError(wire::ErrorCode_Malformed, "the step has sequence number " + Twine(found) + ", expected " +
                                                       expected + ": steps of a session are numbered from 1");
  }
  if (requestHash != last.request) {
    return requestError(wire::ErrorCode_Malformed,
                        "step " + Twine(found) + " has committed with other content: its request had hash " +
                            hashText(last.request) + ", this one has " + hashText(requestHash) +
                            "; repeat a step with the same bytes, or give the next one number " + Twine(found + 1));
  }
  return last.reply.bytes.empty() ? committedReply() : last.reply;
}

/// Leaves `plan` empty if the owner does not hold it.
llvm::Error Step::findPlan() {
  llvm::StringRef given = bytesOf(request.program_hash());
  if (given.size() != hash.size()) {
    return requestError(wire::ErrorCode_Malformed,
                        "program_hash has " + Twine(given.size()) + " bytes, expected " + Twine(hash.size()));
  }
  std::memcpy(hash.data(), given.data(), hash.size());
  if (!bytesOf(request.program()).empty()) {
    return makePlan();
  }
  std::lock_guard lock(context.mutex);
  auto known = (*session)->programs.find(hash);
  plan = known == (*session)->programs.end() ? nullptr : context.plans.find(known->second);
  return llvm::Error::success();
}

llvm::Error Step::makePlan() {
  llvm::StringRef program = bytesOf(request.program()), debug = bytesOf(request.debug());
  if (program.size() > runtime::limits::kProgramBytes || debug.size() > runtime::limits::kDebugBytes) {
    return requestError(wire::ErrorCode_Limit, "the program has " + Twine(program.size()) +
                                                   " bytes and its debug table " + Twine(debug.size()) +
                                                   ", this owner takes up to " + Twine(runtime::limits::kProgramBytes) +
                                                   " each");
  }
  PlanKey key{runtime::hashProgram(program), runtime::hashProgram(debug)};
  if (key.program != hash) {
    return requestError(wire::ErrorCode_Malformed, "the program's bytes have hash " + runtime::toHex(key.program) +
                                                       ", the request says " + runtime::toHex(hash));
  }
  {
    std::lock_guard lock(context.mutex);
    plan = context.plans.find(key);
  }
  std::vector<std::shared_ptr<const Plan>> gone; // destroyed when the mutex is free again
  bool fresh = !plan;
  if (fresh) {
    if (context.environment.entering) {
      context.environment.entering(Phase::planning);
    }
    auto made = owner::makePlan(program, debug, context.limits.price);
    if (!made) {
      return made.takeError();
    }
    plan = std::move(*made);
  }
  std::lock_guard lock(context.mutex);
  if (fresh) {
    gone = context.plans.insert(key, plan);
  }
  auto &programs = (*session)->programs;
  if (!programs.count(hash) && programs.size() >= context.limits.programsPerSession) {
    programs.clear(); // the client learns by NeedProgram what to send again
  }
  programs[hash] = key;
  return llvm::Error::success();
}

/// Everything that could make the commit fail is settled here, or reserved.
llvm::Error Step::book() {
  for (auto check : {&Step::checkResults, &Step::checkReleases, &Step::checkPublishes}) {
    if (llvm::Error error = (this->*check)()) {
      return error;
    }
  }
  if (llvm::Error error = context.log.add(hash, (*session)->client, *plan, privacy ? privacy->logText() : "")) {
    return error;
  }
  reserved = plan->keepBytes;
  context.sessions.handleBytes += reserved;
  return llvm::Error::success();
}

llvm::Error Step::checkResults() {
  const auto &handles = (*session)->handles;
  std::set<uint64_t> fresh;
  for (size_t index = 0; index < length(request.results()); ++index) {
    uint64_t id = request.results()->Get(static_cast<flatbuffers::uoffset_t>(index));
    if (handles.count(id) || !fresh.insert(id).second) {
      return requestError(wire::ErrorCode_Malformed, "handle id " + Twine(id) + " for kept result " + Twine(index) +
                                                         " is in use, expected one that this session does not have");
    }
  }
  const Limits &limits = context.limits;
  // What was sent ahead is counted already, and gone when the step has committed.
  size_t held = context.sessions.handleBytes;
  for (uint64_t number : bound->sentAhead) {
    held -= (*session)->uploads.at(number).buffer->size();
  }
  if (handles.size() + plan->keeps > limits.handlesPerSession || held + plan->keepBytes > limits.handleBytes) {
    return requestError(wire::ErrorCode_Limit, "the step would keep " + Twine(plan->keeps) + " more values of " +
                                                   Twine(plan->keepBytes) + " bytes; this owner holds up to " +
                                                   Twine(limits.handlesPerSession) + " handles per session and " +
                                                   Twine(limits.handleBytes) +
                                                   " bytes in all; let go of tensors that are no longer needed");
  }
  if (plan->publishBytes > limits.replyBytes) {
    return requestError(wire::ErrorCode_Limit, "the step publishes " + Twine(plan->publishBytes) +
                                                   " bytes, this owner's replies hold up to " +
                                                   Twine(limits.replyBytes) + "; publish in several steps");
  }
  // A handle bound twice and committed would have two new values.
  std::set<const Handle *> committed;
  for (const runtime::ResultSpec &spec : plan->executable->results()) {
    if (spec.kind == StepResult::Commit && !committed.insert(bound->states[spec.target]).second) {
      return requestError(wire::ErrorCode_Malformed, "one handle is bound to two states that are both committed");
    }
  }
  return llvm::Error::success();
}

llvm::Error Step::checkPublishes() {
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
  auto results = plan->executable->results();
  for (size_t index = 0; index < results.size(); ++index) {
    if (results[index].kind != StepResult::Publish || (privacy && privacy->isReleased(index))) {
      continue;
    }
    std::string text = blockers(resultLabels[index], policyOf);
    if (failed) {
      return failed;
    }
    if (!text.empty()) {
      return requestError(wire::ErrorCode_Refused,
                          "this value may not leave the owner: it is computed from " + text +
                              ". Open data and your own uploads may be published, and what only they were computed "
                              "into. What is computed from private rows leaves with noise alone, which is added in "
                              "the step that reads the rows: publish the value, or update the weights, inside of that "
                              "step, or read the column again, table[...], in the step that publishes",
                          results[index].op, results[index].location);
    }
  }
  noteKept(policyOf);
  return failed;
}

/// Who trains on rows that were read before learns it now, not at the end when weights do not come out.
void Step::noteKept(llvm::function_ref<Policy(const Source &)> policyOf) {
  auto results = plan->executable->results();
  for (size_t index = 0; index < results.size(); ++index) {
    if (results[index].kind != StepResult::Commit) {
      continue;
    }
    const LabelPtr &before = bound->states[results[index].target]->label, &after = resultLabels[index];
    if (before == after || (before && after && before->covers(*after))) {
      continue;
    }
    if (std::string text = blockers(after, policyOf); !text.empty() && blockers(before, policyOf).empty()) {
      notes.push_back("what this step writes to, as weights that it trains, may not leave the owner from now on: it "
                      "is computed from " +
                      text +
                      ", read by an earlier step. Noise is added in the step that reads: take batches, or read "
                      "the table, where they are used");
      return;
    }
  }
}

llvm::Error Step::checkReleases() {
  std::set<uint64_t> distinct;
  for (size_t index = 0; index < length(request.releases()); ++index) {
    uint64_t id = request.releases()->Get(static_cast<flatbuffers::uoffset_t>(index));
    if (!(*session)->handles.count(id)) {
      return requestError(wire::ErrorCode_Handle,
                          "cannot release handle " + Twine(id) + ": this session has no such handle");
    }
    if (!distinct.insert(id).second) {
      return requestError(wire::ErrorCode_Malformed, "handle " + Twine(id) + " is released twice in one request");
    }
    releases.push_back(id);
  }
  return llvm::Error::success();
}

llvm::Expected<Message> Step::reply(llvm::ArrayRef<HostTensor> values) const {
  auto results = plan->executable->results();
  std::vector<const HostTensor *> published;
  for (size_t index = 0; index < results.size(); ++index) {
    if (values.size() != results.size() || !values[index].buffer || !(values[index].type == results[index].type)) {
      return requestError(wire::ErrorCode_Internal, "the plan returned other results than it said");
    }
    if (results[index].kind == StepResult::Publish) {
      published.push_back(&values[index]);
    }
  }
  PrivacyReport report = privacy ? privacy->report() : PrivacyReport();
  report.notes.insert(report.notes.end(), notes.begin(), notes.end());
  return doneReply(published, report);
}

/// All allocation comes first; after it nothing can fail.
void Step::commit(std::vector<HostTensor> &values, const Message &reply) {
  Session &target = **session;
  auto results = plan->executable->results();
  std::vector<uint64_t> inserted;
  inserted.reserve(plan->keeps);
  try {
    for (size_t index = 0; index < results.size(); ++index) {
      if (results[index].kind == StepResult::Keep) {
        uint64_t id = request.results()->Get(static_cast<flatbuffers::uoffset_t>(inserted.size()));
        target.handles.try_emplace(id, Handle{values[index], resultLabels[index]});
        inserted.push_back(id);
      }
    }
  } catch (...) {
    for (uint64_t id : inserted) {
      target.handles.erase(id);
    }
    throw;
  }
  reserved = 0; // it belongs to the new handles now
  for (size_t index = 0; index < results.size(); ++index) {
    if (results[index].kind == StepResult::Commit) {
      Handle &state = *bound->states[results[index].target];
      // The type is the same. The old value goes with `values`, when the mutex is free again.
      std::swap(state.tensor.buffer, values[index].buffer);
      state.label = resultLabels[index];
    }
  }
  for (uint64_t number : bound->sentAhead) {
    context.sessions.dropUpload(target, number);
  }
  for (uint64_t id : releases) {
    auto found = target.handles.find(id);
    context.sessions.handleBytes -= found->second.tensor.type.bytes();
    target.handles.erase(found);
  }
  target.last.sequence = request.sequence();
  target.last.request = requestHash;
  context.sessions.remember(target.last, reply);
}

llvm::Expected<StepReply> Step::run() {
  auto turn = SessionTurn::take(context.mutex, context.sessions, request.session());
  if (!turn) {
    RequestError error = takeRequestError(turn.takeError());
    // The same bytes may have been sent before, to a session that lived then.
    error.message += error.code == wire::ErrorCode_Session ? "; whether this step ran is unknown" : "";
    return llvm::make_error<RequestError>(std::move(error));
  }
  session = std::move(*turn);
  auto repeated = fromMemory();
  if (!repeated || !repeated->bytes.empty()) {
    return repeated ? llvm::Expected<StepReply>(StepReply{std::move(*repeated), false}) : repeated.takeError();
  }
  if (llvm::Error error = findPlan()) {
    return error;
  }
  if (!plan) {
    return StepReply{needProgramReply(), false};
  }
  bound.emplace(request, *plan, **session);
  llvm::Error error = bound->checkCounts();
  error = error ? std::move(error) : bound->bindOwn();
  if (!error) {
    std::lock_guard lock(context.mutex);
    error = bound->bindTables(context.store);
  }
  if (error) {
    return error;
  }
  resultLabels = plan->resultLabels(bound->labels);
  auto made = PrivateStep::make(context, request, **session, plan, *bound);
  if (!made) {
    return made.takeError();
  }
  privacy = std::move(*made);
  if (privacy) {
    privacy->release(resultLabels);
  }
  size_t most = context.threads.most();
  auto memory = context.memory.lease(privacy ? privacy->runBytes(static_cast<unsigned>(most))
                                             : plan->runBytes(static_cast<unsigned>(most)));
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
  if (privacy) {
    // Paid before a coin is drawn or a row is read.
    if (llvm::Error error = privacy->pay()) {
      return error;
    }
    privacy->drawCoins(bound->bindings, threads.threads);
  }
  auto values = (privacy ? privacy->executable() : *plan->executable).run(bound->bindings, options);
  if (!values) {
    return values.takeError();
  }
  auto bytes = reply(*values);
  if (!bytes) {
    return bytes.takeError();
  }
  if (privacy && privacy->isTicketed()) {
    if (llvm::Error error = privacy->seal(bytes->bytes)) {
      return error;
    }
    bytes = reply(*values); // with the receipts
    if (!bytes) {
      return bytes.takeError();
    }
  }
  {
    std::lock_guard lock(context.mutex);
    commit(*values, *bytes);
  }
  return StepReply{std::move(*bytes), true};
}

} // namespace

llvm::Expected<StepReply> runStep(const StepContext &context, const wire::Step &request, std::string_view message) {
  return Step(context, request, message).run();
}

} // namespace sojourn::owner
