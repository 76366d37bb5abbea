// SPDX-License-Identifier: Apache-2.0
// The way of a step's message through the owner: turn, sequence, program, then each of its steps (StepRun.h).
#include "owner/Step.h"

#include "owner/Access.h"
#include "owner/HeldBytes.h"
#include "owner/Reply.h"
#include "owner/StepBatch.h"
#include "owner/StepPlan.h"
#include "owner/Text.h"
#include "owner/Underway.h"
#include "owner/peers/JointMessage.h"
#include "runtime/stream/Frame.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sojourn::owner {

using llvm::Twine;

namespace {

/// Kept free for telling what has committed.
constexpr size_t kSpareBytes = 4'096;

/// Of staging the steps of a batch and of running them, in microseconds. Joint steps hold no place while they wait.
constexpr int64_t kBatchUs = 20'000, kJointBatchUs = 1'000'000;

using Clock = std::chrono::steady_clock;

int64_t microsecondsSince(Clock::time_point from) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - from).count();
}

/// A reply and its room, which go together.
struct HeldReply {
  std::shared_ptr<const HeldBytes> room;
  std::shared_ptr<const void> message;
};

class Step {
public:
  Step(OwnerBooks &books, StepMachine &machine, const wire::Step &request, std::string_view message)
      : books(books), machine(machine), request(request), requestHash(hashRequest(message)),
        messageBytes(message.size()), time(machine.environment, machine.limits.timeHeadroom) {}
  llvm::Expected<StepReply> run();

private:
  llvm::Expected<Message> fromMemory() const;
  void committed(const DoneReply &reply);
  StepPart partAt(const StepPart &before, size_t at) const;
  std::optional<RequestError> fill(StepBatch &batch, StepPart &part, size_t at, int64_t begin, Clock::time_point &from);
  std::pair<size_t, llvm::Error> runSome(StepPart &part, size_t at, int64_t begin, DoneReply &reply);
  llvm::Error tellStop(llvm::Error error, bool isCharged) const;
  llvm::Expected<std::shared_ptr<HeldReply>> holdReply(size_t steps) const;
  llvm::Expected<StepReply> runInTurn();
  llvm::Expected<StepReply> runAll();
  void endJoint(const RequestError *failure);
  int64_t leftMs(int64_t begin) const;
  bool isOver(int64_t begin) const;
  bool goesOn(size_t done, int64_t begin, const DoneReply &reply) const;
  size_t stepCount() const;
  llvm::Error leave();
  void endSession();
  void logOverrun(uint64_t bits) const;
  void remember(StepReply &told, const std::shared_ptr<HeldReply> &held);

  OwnerBooks &books;
  StepMachine &machine;
  const wire::Step &request;
  const RequestHash requestHash;
  const size_t messageBytes;
  std::unique_ptr<SessionTurn> session; ///< outlives what points into the session
  RunningStep running;
  std::optional<JointMessage> joint; ///< of a session of a group
  runtime::ProgramHash hash{};
  std::shared_ptr<const Plan> plan;
  size_t goal = 1; ///< steps of the next batch
  PrivateReach reach;
  ReplyTime time;
  /// Of a message that began without private rows: its first step on them, before which it ends.
  size_t firstOnRows = SIZE_MAX;
  /// The steps that have run last: what they took of the machine is given back when the reply may leave.
  std::optional<StepBatch> lastBatch;
};

/// The reply to a repetition of the session's last step; empty if the request is its next one.
llvm::Expected<Message> Step::fromMemory() const {
  const LastStep last = [&] {
    std::lock_guard lock(books.mutex);
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
                        "step " + Twine(found) + " was already committed with other content: its request had hash " +
                            textOf(last.request) + ", this one has " + textOf(requestHash) +
                            "; repeat a step with the same bytes, or give the next one number " + Twine(found + 1));
  }
  return last.reply.bytes.empty() ? committedReply(last.steps, last.failure) : last.reply;
}

/// Once a step has committed, the message's number is used.
void Step::committed(const DoneReply &reply) {
  Session &target = **session;
  books.sessions.replies.forget(target.last, target.account);
  target.last.sequence = request.sequence();
  target.last.request = requestHash;
  target.last.steps = reply.steps();
  target.last.failure.reset();
  if (!time.isOn()) { // else when the reply leaves
    target.progress = reply.steps();
  }
}

/// With the cause, if the step was stopped.
llvm::Error Step::tellStop(llvm::Error error, bool isCharged) const {
  if (!error || !running.isStopped()) {
    return error;
  }
  RequestError found = takeRequestError(std::move(error));
  if (found.code == wire::ErrorCode_Stopped) {
    found.message = takeRequestError(machine.running.stopped(running, isCharged)).message;
  }
  return llvm::make_error<RequestError>(std::move(found));
}

/// Until no further step begins, in milliseconds.
int64_t Step::leftMs(int64_t begin) const {
  const int64_t most = request.deadline_ms() == 0
                           ? machine.limits.messageMs
                           : static_cast<int64_t>(std::min<uint64_t>(static_cast<uint64_t>(machine.limits.messageMs),
                                                                     request.deadline_ms()));
  return most - (machine.environment.elapsedMs() - begin);
}

/// Whether no further step begins.
bool Step::isOver(int64_t begin) const { return !time.isOn() && (leftMs(begin) <= 0 || (*session)->stop); }

/// Whether another batch follows one that went well. One on private rows is the message (ReplyTime.h).
bool Step::goesOn(size_t done, int64_t begin, const DoneReply &reply) const {
  // Receipts and notes come on top of the room that was taken; where they are many, the client asks for the rest.
  const bool isLarge = reply.extraBytes() > machine.limits.replyBytes / 4;
  return !time.isOn() && done < stepCount() && !isOver(begin) && !isLarge && !reply.isBroken();
}

/// Steps that the message gets, if nothing else ends it.
size_t Step::stepCount() const {
  const size_t all = std::min(1 + length(request.repetitions()), firstOnRows);
  return time.isBegun() ? std::min(all, time.steps()) : all;
}

/// Bindings of step `at`, from those of the step before.
StepPart Step::partAt(const StepPart &before, size_t at) const {
  return at == 0 ? before : before.next(*request.repetitions()->Get(static_cast<flatbuffers::uoffset_t>(at - 1)));
}

/// Stages the steps that the worker runs in one call, from `at` on. Returns the error of the first step, or of a later
/// one that was booked, which is told once the steps before it have landed. A later step that fails before it is booked
/// begins the next call. `from`: the time at which the first step had its place.
std::optional<RequestError> Step::fill(StepBatch &batch, StepPart &part, size_t at, int64_t begin,
                                       Clock::time_point &from) {
  auto isFull = [&] {
    return batch.size() >= goal || !batch.isOpen() || microsecondsSince(from) >= (time.isOn() ? 10 : 1) * kBatchUs;
  };
  for (size_t next = at; next < stepCount() && (next == at || !(isFull() || isOver(begin))); ++next) {
    bool isFinal = false;
    try {
      const StepPart binds = partAt(part, next);
      llvm::Error error = llvm::Error::success();
      if (next > 0) { // all of it may end while the message runs
        error = books.accounts->checkKey((*session)->account, (*session)->key);
        auto reached = error ? std::move(error) : checkAccess(books, machine, request, binds, **session);
        if (reached && reached->isPrivate && !reach.isPrivate) { // its message waits
          firstOnRows = next;
          return std::nullopt;
        }
        if (reached && reached->tables != reach.tables) {
          reach.tables.insert(reach.tables.end(), reached->tables.begin(), reached->tables.end());
          llvm::sort(reach.tables);
          reach.tables.erase(llvm::unique(reach.tables), reach.tables.end());
          (*session)->reached.insert(reach.tables.begin(), reach.tables.end());
        }
        error = reached.takeError();
      }
      if (error = error ? std::move(error) : batch.add(binds, isFinal); error) {
        RequestError found = takeRequestError(std::move(error));
        if (next == at || isFinal) {
          return found;
        }
        goal = 0; // one step next
        return std::nullopt;
      }
      part = binds;
      if (next == 0 && time.isBegun()) { // what has run does not decide it
        goal = std::clamp<size_t>(time.steps(), 1, machine.limits.stepsAtOnce);
      }
      from = next == at ? Clock::now() : from;
    } catch (const std::bad_alloc &) {
      if (next == at) {
        throw;
      }
      goal = 0; // one step next
      return std::nullopt;
    }
  }
  return std::nullopt;
}

/// Runs some of the steps from `at` on: their number, and what the next one failed with, if it did.
std::pair<size_t, llvm::Error> Step::runSome(StepPart &part, size_t at, int64_t begin, DoneReply &reply) {
  auto from = Clock::now();
  machine.running.renew(running);
  lastBatch.reset();
  StepBatch &batch = lastBatch.emplace(books, machine, request, hash, **session, plan, messageBytes, reach, time,
                                       joint ? &*joint : nullptr);
  const llvm::scope_exit done([&] {
    if (!time.isOn()) {
      lastBatch.reset();
    }
  });
  const StepPart before = part;
  goal = joint && !joint->letsStepsFollow() ? 1 : goal;
  int64_t most = kBatchUs;
  if (joint) { // half of the deadline of a step, which runs from call to call
    most = machine.limits.stepMs > 0 ? 500 * std::min(kJointBatchUs / 500, machine.limits.stepMs) : kJointBatchUs;
  }
  std::optional<RequestError> later = fill(batch, part, at, begin, from);
  llvm::Error error = llvm::Error::success();
  if (batch.size() > 0) {
    const int64_t left = std::min(most - microsecondsSince(from), std::min(leftMs(begin), most) * 1'000);
    error = batch.run(reply, time.isOn() ? 0 : static_cast<uint64_t>(std::max<int64_t>(left, 1)),
                      [&] { committed(reply); });
    // As many as take some milliseconds: others wait for the place.
    const int64_t each = std::max<int64_t>(1, microsecondsSince(from) / static_cast<int64_t>(batch.size()));
    const size_t next = std::max<size_t>(1, std::min(2 * goal, machine.limits.stepsAtOnce));
    goal = std::clamp<size_t>(static_cast<size_t>(most / 2 / each), 1, next);
    if (!time.isOn()) { // it has gone by the price
      (*session)->pace = {hash, goal};
    }
  }
  if (batch.landed() < batch.size()) { // what those that are left bind follows from those before
    part = before;
    for (size_t next = at; next < at + batch.landed(); ++next) {
      part = partAt(part, next);
    }
  } else if (!error && later) {
    error = llvm::make_error<RequestError>(std::move(*later));
  }
  return {batch.landed(), tellStop(std::move(error), batch.isCharged())};
}

/// Room for a large reply to a client of a server, which may take its time to read it. Else null.
llvm::Expected<std::shared_ptr<HeldReply>> Step::holdReply(size_t steps) const {
  const size_t bytes = steps * DoneReply::roomFor(plan->facts.publishes, plan->facts.publishBytes);
  if ((*session)->connection == 0 || bytes <= stream::kSmallBytes) {
    return nullptr;
  }
  auto held = std::make_shared<HeldReply>();
  auto room = HeldBytes::take(books.mutex, books.sessions.holdings, (*session)->account, bytes,
                              "a reply of up to " + Twine(bytes) + " bytes does not fit");
  if (!room) {
    return room.takeError();
  }
  held->room = std::move(*room);
  return held;
}

llvm::Expected<StepReply> Step::runAll() {
  const size_t repetitions = length(request.repetitions());
  const int64_t begin = machine.environment.elapsedMs();
  auto held = holdReply(1 + repetitions);
  if (!held) {
    return held.takeError();
  }
  DoneReply reply(1 + repetitions, plan->facts.publishes, plan->facts.publishBytes);
  // What has committed is told, however short memory is by then.
  std::optional<RequestError> noMemory, failure;
  bool isCut = false;
  if (repetitions > 0) {
    noMemory.emplace(wire::ErrorCode_Limit, "not enough memory for the step");
  }
  auto spare = std::make_unique_for_overwrite<char[]>(kSpareBytes);
  StepPart part = StepPart::first(request);
  goal = (*session)->pace.program == hash ? std::min((*session)->pace.steps, machine.limits.stepsAtOnce) : 1;
  auto [done, error] = runSome(part, 0, begin, reply);
  if (done == 0) {
    if (llvm::Error failed = leave()) {
      llvm::consumeError(std::move(error));
      return failed;
    }
    return std::move(error);
  }
  auto note = [&](llvm::Error found) {
    failure = found ? std::optional(takeRequestError(std::move(found))) : std::nullopt;
    // This member is busy, or another one ended the message after these steps: the client sends the rest.
    isCut = failure && joint && (failure->code == wire::ErrorCode_Busy || joint->isOver());
    failure = isCut ? std::nullopt : std::move(failure);
  };
  note(std::move(error));
  while (!failure && !isCut && goesOn(done, begin, reply)) {
    try {
      auto [more, found] = runSome(part, done, begin, reply);
      done += more;
      note(std::move(found));
    } catch (const std::bad_alloc &) { // the steps before it stand
      spare.reset();
      failure = std::move(noMemory);
    } catch (const std::exception &exception) {
      failure = RequestError(wire::ErrorCode_Internal, "the owner failed: " + std::string(exception.what()));
    }
  }
  endJoint(failure ? &*failure : nullptr);
  StepReply told{{}, (*session)->last.steps, {}};
  try {
    told.bytes = reply.isBroken() ? Message() : reply.finish(failure);
  } catch (const std::bad_alloc &) {
  }
  spare.reset();
  told.failure = std::move(failure);
  if (llvm::Error error = leave()) { // what is not counted is not told
    endSession();
    return error;
  }
  remember(told, *held);
  return told;
}

/// For a repetition of the request.
void Step::remember(StepReply &told, const std::shared_ptr<HeldReply> &held) {
  try {
    if (told.bytes.bytes.empty()) {
      told.bytes = committedReply(told.steps, told.failure);
    }
    std::lock_guard lock(books.mutex);
    (*session)->last.failure = told.failure;
    if (!(*session)->ended) {
      books.sessions.replies.remember((*session)->last, (*session)->account, told.bytes);
    }
  } catch (const std::bad_alloc &) { // without a reply the client asks again
  }
  if (held) { // not of what the session remembers, which has bounds of its own
    held->message = std::move(told.bytes.keep);
    told.bytes.keep = held;
  }
}

/// Waits until a reply on private rows may leave, and counts what it tells by its time.
llvm::Error Step::leave() {
  if (!time.isOn()) {
    return llvm::Error::success();
  }
  time.hold(running); // unless it has been
  time.end();
  if (const uint64_t bits = time.bits()) {
    (*session)->prices.forget(); // the machine may have more to do than it had
    for (const std::string &table : reach.tables) {
      if (llvm::Error error = books.accounts->addOverruns((*session)->account, table, bits)) {
        return error;
      }
    }
    time.counted();
    logOverrun(bits);
  }
  (*session)->progress = (*session)->last.steps;
  return llvm::Error::success();
}

/// So that a repetition of the request tells nothing.
void Step::endSession() {
  lastBatch.reset(); // what has not landed is the session's no more
  std::lock_guard lock(books.mutex);
  books.sessions.end(request.session());
}

void Step::logOverrun(uint64_t bits) const {
  std::lock_guard lock(books.mutex);
  if (machine.environment.log) {
    machine.environment.log(
        "a reply to '" + printableName((*session)->client) + "' on " + llvm::join(reach.tables, ", ") + " may tell " +
        std::to_string(bits) + " bits by its time: " +
        (time.overNs() > 0 ? "the run took " + std::to_string(time.overNs() / 1'000) + " us more than its time"
                           : "the run failed or was stopped"));
  }
}

/// The other members wait for no further step. `failure`: of the step that did not commit.
void Step::endJoint(const RequestError *failure) {
  if (joint) {
    joint->end(failure ? static_cast<uint8_t>(failure->code) : PeerFrame::kNoFailure);
  }
}

llvm::Expected<StepReply> Step::run() {
  auto turn = SessionTurn::take(books.mutex, books.sessions, request.session());
  if (!turn) {
    RequestError error = takeRequestError(turn.takeError());
    refuseJoint(books, request, error);
    // The same bytes may have been sent before, to a session that lived then.
    error.message += error.code == wire::ErrorCode_Session ? "; whether this step ran is unknown" : "";
    return llvm::make_error<RequestError>(std::move(error));
  }
  session = std::move(*turn);
  if (llvm::Error error = openJoint(joint, **session, request, messageBytes, running, machine.limits)) {
    return error;
  }
  auto reply = runInTurn();
  if (!reply) {
    RequestError error = takeRequestError(reply.takeError());
    endJoint(&error);
    return llvm::make_error<RequestError>(std::move(error));
  }
  return reply;
}

llvm::Expected<StepReply> Step::runInTurn() {
  // Before a reply from memory, too: the key may have changed while the request waited.
  if (llvm::Error failed = books.accounts->checkKey((*session)->account, (*session)->key)) {
    RequestError error = takeRequestError(std::move(failed));
    if (error.code == wire::ErrorCode_Session) { // not where the ledger cannot be read
      std::lock_guard lock(books.mutex);
      books.sessions.end(request.session());
    }
    return llvm::make_error<RequestError>(std::move(error));
  }
  auto repeated = fromMemory();
  if (!repeated || !repeated->bytes.empty()) {
    if (repeated && joint) {
      joint->cancel();
    }
    return repeated ? llvm::Expected<StepReply>(StepReply{std::move(*repeated), 0}) : repeated.takeError();
  }
  auto reached = checkAccess(books, machine, request, StepPart::first(request), **session);
  if (!reached) {
    return reached.takeError();
  }
  reach = std::move(*reached);
  if (reach.isPrivate) {
    (*session)->reached.insert(reach.tables.begin(), reach.tables.end());
    time.protect();
  }
  const Underway underway(books, machine, **session, running, request.mark());
  auto found = findStepPlan(books, machine, **session, request, running);
  if (!found) {
    return tellStop(found.takeError(), /*isCharged=*/false);
  }
  plan = std::move(found->plan);
  hash = found->hash;
  if (!plan) {
    if (joint) {
      joint->cancel(); // it comes again, with the program
    }
    return StepReply{needProgramReply(), 0};
  }
  llvm::Error unfit = joint ? joint->begin(plan->facts.joint->exchanges) : llvm::Error::success();
  unfit = unfit ? std::move(unfit) : checkStepSize(request, plan->facts, machine.limits);
  if (unfit) {
    return unfit;
  }
  WorkerStub &worker = (*session)->worker;
  const llvm::scope_exit rest([&] { worker.rest(); });
  if (llvm::Error error = Sessions::wake(**session, &running.flag(), machine.patience(joint.has_value()))) {
    return tellStop(std::move(error), /*isCharged=*/false);
  }
  try {
    return runAll();
  } catch (...) { // memory is short
    bool isCounted = false;
    try {
      llvm::Error error = leave();
      isCounted = !error;
      llvm::consumeError(std::move(error));
    } catch (...) {
    }
    if (!isCounted) {
      endSession();
    }
    throw;
  }
}

} // namespace

llvm::Expected<StepReply> runStep(OwnerBooks &books, StepMachine &machine, const wire::Step &request,
                                  std::string_view message) {
  return Step(books, machine, request, message).run();
}

} // namespace sojourn::owner
