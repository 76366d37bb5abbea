// SPDX-License-Identifier: Apache-2.0
// Batches of steps (see StepBatch.h).
#include "owner/StepBatch.h"

#include "dialect/Signature.h"
#include "owner/Text.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace sojourn::owner {

/// Memory that a batch may take beyond what its steps take one by one, in bytes: without a lease, and with one.
static constexpr size_t kExtraFree = size_t{4} << 20, kExtraMost = size_t{64} << 20;

/// For a message on private rows, which is one batch: the states that its first step replaces are kept until its end.
size_t StepBatch::leasedExtra() const {
  size_t bytes = 0;
  if (time.isOn() && length(request.repetitions()) > 0) {
    for (const runtime::ResultSpec &result : plan->facts.results) {
      bytes += result.kind == StepResult::Commit ? result.type.bytes() : 0;
    }
  }
  return std::min(bytes, kExtraMost);
}

StepBatch::~StepBatch() {
  while (steps.size() > landedCount) { // the last one first
    if (!isSent) {
      steps.back()->putBack();
    }
    steps.pop_back();
  }
}

llvm::Error StepBatch::add(const StepPart &part, bool &isFinal) {
  const bool isFirst = steps.empty();
  isFinal = false;
  if (steps.size() == steps.capacity()) {
    steps.reserve(std::max<size_t>(8, 2 * steps.size()));
  }
  auto step = std::make_unique<StepRun>(books, machine, request, part, hash, session, plan, messageBytes);
  if (llvm::Error error = step->stage(isFirst ? nullptr : steps.front().get())) {
    return error;
  }
  RunningStep &running = *session.running;
  if (isFirst) {
    const Patience patience = machine.patience(joint != nullptr);
    auto entered =
        machine.queue.enter(session.account, StepQueue::laneOf(step->operations()), machine.running, running, patience);
    if (!entered) {
      return entered.takeError();
    }
    place.emplace(std::move(*entered));
    const size_t bytes = step->runBytes(machine.threads.most());
    size_t more = leasedExtra();
    auto leased = machine.memory.lease(session.account, bytes + more, running.flag(), patience);
    if (!leased && more > 0 && !running.isStopped()) { // then fewer steps fit
      llvm::consumeError(leased.takeError());
      more = 0;
      leased = machine.memory.lease(session.account, bytes, running.flag(), patience);
    }
    extraMost = kExtraFree + more;
    if (!leased) {
      return leased.takeError();
    }
    memory.emplace(std::move(*leased));
  }
  // Permission for every published value is settled before anything runs.
  if (llvm::Error error = step->book()) {
    return error;
  }
  isFinal = true;
  machine.entering(Phase::running);
  if (isFirst) {
    threads.emplace(machine.threads);
    if (llvm::Error error = time.isOn() && !time.isBegun() ? beginTime(*step) : llvm::Error::success()) {
      return error;
    }
  }
  try {
    if (llvm::Error error = step->pay(threads->threads, isFirst)) {
      charged |= step->isCharged();
      return error;
    }
    charged |= step->isCharged();
    step->apply();
  } catch (const std::bad_alloc &) {
    step->putBack();
    throw;
  }
  extra += step->extraBytes(joint ? 0 : since);
  steps.push_back(std::move(step));
  return llvm::Error::success();
}

/// Times of runs that tell of no rows, before the step is paid. The first one warms the process up. `isLoop`: some
/// steps in each call.
llvm::Expected<int64_t> StepBatch::rehearse(const StepRun &step, bool isLoop) {
  constexpr unsigned kMost = 6, kSteps = 8;
  constexpr int64_t kEnoughNs = 20'000'000, kLongNs = 500'000'000;
  int64_t most = 0, all = 0;
  unsigned steps = 1;
  for (unsigned count = 0; count < kMost && (count < 2 || all < kEnoughNs); ++count) {
    const int64_t begin = time.now();
    if (llvm::Error error =
            session.worker.rehearse(step.rehearsal(), steps, step.privateArguments(), step.words(), plan->facts,
                                    threads->threads, {.stop = &session.running->flag()})) {
      return error;
    }
    const int64_t took = time.now() - begin;
    most = count <= 1 ? took / steps : std::max(most, took / steps);
    all += took;
    if (took >= kLongNs) {
      break;
    }
    if (count == 0 && isLoop && took < kEnoughNs / kSteps) {
      steps = kSteps;
    }
  }
  return most;
}

llvm::Error StepBatch::beginTime(const StepRun &step) {
  // Others of the account may have been late since this step was admitted.
  for (const std::string &table : reach.tables) {
    if (llvm::Error error = books.accounts->checkOverruns(session.account, table, machine.limits.overrunBits)) {
      return error;
    }
  }
  const std::shared_ptr<const CodeRef> code = step.code().shared_from_this();
  const size_t steps = 1 + (request.repetitions() ? request.repetitions()->size() : 0);
  const bool isLoop = steps > 1 && step.letsOthersFollow();
  const StepPrices::Key key{code.get(), threads->threads, session.worker.currentLife(), isLoop};
  std::optional<int64_t> price = session.prices.find(key);
  if (!price) {
    auto found = rehearse(step, isLoop);
    if (!found) {
      return found.takeError();
    }
    price = *found;
    session.prices.add(key, code, *price);
  }
  time.begin(*price, steps, plan->facts.publishes > 0);
  return llvm::Error::success();
}

/// Which of both it was, and at which op, is in the data owner's log: it may depend on rows.
static llvm::Error unfinished() {
  return requestError(
      wire::ErrorCode_Stopped,
      "the step failed, or took longer than this owner lets steps on private rows take; the owner's log "
      "tells which. Nothing of it was committed, and what it cost is not given back. Run it again, or "
      "ask the data owner for a larger --headroom");
}

void StepBatch::logFailure(llvm::Error error) const {
  if (!error) {
    return; // a late one is logged with what it may tell
  }
  const std::string text = "a step of '" + printableName(session.client) + "' on " + llvm::join(reach.tables, ", ") +
                           " failed: " + takeRequestError(std::move(error)).message;
  std::lock_guard lock(books.mutex);
  if (machine.environment.log) {
    machine.environment.log(text);
  }
}

bool StepBatch::isOpen() const { return steps.empty() || (extra <= extraMost && steps.back()->letsOthersFollow()); }

/// The next step, which has run.
llvm::Error StepBatch::land(RanParts::Part &ran, const Landing &landing) {
  const bool isAlone = steps.size() == 1 && !joint;
  if (llvm::Error error = steps[landedCount]->land(ran, isAlone, landing.reply, landing.committed)) {
    return error;
  }
  ++landedCount;
  return llvm::Error::success();
}

/// A step that waits for other members has no place and no threads: theirs may need what it would hold.
llvm::Expected<Memory> StepBatch::exchange(Memory frames, std::vector<RanParts::Part> done, WorkerPort &port,
                                           const Landing &landing) {
  RunningStep &running = *session.running;
  threads.reset();
  place.reset();
  const auto room = [&](size_t bytes) { return port.room(bytes); };
  auto came = [&]() -> llvm::Expected<Memory> {
    if (done.empty()) {
      return joint->exchange(std::move(frames), room);
    }
    if (done.size() > 1) {
      return requestError(wire::ErrorCode_Internal, "the worker ran " + llvm::Twine(done.size()) +
                                                        " joint steps between two exchanges, expected one at most");
    }
    if (llvm::Error error = steps[landedCount]->checkFiles()) {
      return error;
    }
    StepCopies copies = steps[landedCount]->copies(done[0]);
    const auto commit = [&] { llvm::cantFail(land(done[0], landing)); }; // of a joint step, whose commit cannot fail
    const RanStep before{copies, commit};
    return joint->exchange(std::move(frames), room, &before);
  }();
  if (!came) {
    return came.takeError();
  }
  auto entered =
      machine.queue.enter(session.account, StepQueue::laneOf(steps.front()->operations()), machine.running, running);
  if (!entered) {
    return entered.takeError();
  }
  place.emplace(std::move(*entered));
  threads.emplace(machine.threads);
  return came;
}

llvm::Error StepBatch::run(DoneReply &reply, uint64_t withinUs, llvm::function_ref<void()> committed) {
  std::vector<RunPart> parts;
  parts.reserve(steps.size());
  BoundWords uploads;
  for (const auto &step : steps) {
    parts.push_back(step->part(joint ? UINT64_MAX : since, reach.isPrivate)); // joint steps drop values as they land
    llvm::append_range(uploads.uploads, step->words().uploads);
    llvm::append_range(uploads.memory, step->words().memory);
  }
  for (const auto &step : steps) { // they are admitted, and paid
    step->admitTables();
  }
  if (time.isOn()) { // that of rehearsals does not count
    machine.running.startDeadline(*session.running);
  }
  const int64_t begin = time.isOn() ? time.now() : 0;
  const auto measure = [&](bool failed) {
    if (time.isOn() && isSent) {
      time.ran(steps.size(), time.now() - begin, failed && !session.running->isStopped());
      machine.running.endDeadline(*session.running);
    }
  };
  const Landing landing{reply, committed};
  decltype(CallControl::exchange) exchanges;
  if (joint) {
    exchanges = [this, &landing](Memory frames, std::vector<RanParts::Part> done, WorkerPort &port) {
      return exchange(std::move(frames), std::move(done), port, landing);
    };
  }
  auto ran = [&] {
    try {
      return session.worker.run(parts, uploads, plan->facts, threads->threads, withinUs,
                                {.stop = &session.running->flag(),
                                 .finish = time.isOn() ? nullptr : &session.stop, // how many have run is not told
                                 .isSent = &isSent,
                                 .exchange = exchanges});
    } catch (const std::bad_alloc &) {
      measure(/*failed=*/true);
      if (landedCount == 0) {
        throw;
      }
      return llvm::Expected<RanParts>(requestError(wire::ErrorCode_Limit, "not enough memory for the step"));
    } catch (...) {
      measure(/*failed=*/true);
      throw;
    }
  }();
  const bool failed = isSent && (!ran || ran->failure);
  measure(failed);
  llvm::Error error = ran ? llvm::Error::success() : ran.takeError();
  const size_t count = ran ? ran->parts.size() : 0;
  // Those that did not begin are given back; one that failed is paid.
  const size_t begun = ran ? std::clamp<size_t>(count + (ran->failure ? 1 : 0), 1, steps.size()) : steps.size();
  for (size_t at = steps.size(); at > begun; --at) {
    steps[at - 1]->putBack();
  }
  if (time.isOn()) {
    if (time.isOver()) {
      logFailure(std::move(error));
      error = unfinished();
    } else if (failed) {
      logFailure(error ? std::move(error) : llvm::make_error<RequestError>(*ran->failure));
      if (ran) {
        ran->failure = takeRequestError(unfinished());
      }
      error = ran ? llvm::Error::success() : unfinished();
    }
    time.hold(*session.running);
  }
  for (size_t at = landedCount; at < steps.size(); ++at) { // before any lands: parts drop the states of those before
    error = error ? std::move(error) : steps[at]->checkFiles();
  }
  for (size_t at = 0; at < count && !error; ++at) {
    if (joint) { // from here on all members land the step
      threads.reset();
      place.reset();
      StepCopies copies = steps[landedCount]->copies(ran->parts[at]);
      error = joint->ready(copies);
    }
    error = error ? std::move(error) : land(ran->parts[at], landing);
  }
  if (!error && ran->failure) {
    error = llvm::make_error<RequestError>(std::move(*ran->failure));
  }
  if (!error && landedCount == 0) {
    error = requestError(wire::ErrorCode_Internal, "the worker did not run the step, and does not say why");
  }
  return error;
}

} // namespace sojourn::owner
