// SPDX-License-Identifier: Apache-2.0
// Batches of steps (see StepBatch.h).
#include "owner/StepBatch.h"

#include <algorithm>

namespace sojourn::owner {

/// Memory that a batch may take beyond what its steps take one by one, in bytes.
static constexpr size_t kExtraMost = size_t{4} << 20;

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
    auto entered =
        machine.queue.enter(session.account, StepQueue::laneOf(step->operations()), machine.running, running);
    if (!entered) {
      return entered.takeError();
    }
    place.emplace(std::move(*entered));
    auto leased = machine.memory.lease(session.account, step->runBytes(machine.threads.most()), running.flag());
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
  extra += step->extraBytes(since);
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
  time.begin(*price, step.sealsRelease() ? 1 : steps, plan->facts.publishes > 0);
  return llvm::Error::success();
}

bool StepBatch::isOpen() const { return steps.empty() || (extra <= kExtraMost && steps.back()->letsOthersFollow()); }

llvm::Error StepBatch::run(DoneReply &reply, uint64_t withinUs, llvm::function_ref<void()> committed) {
  std::vector<RunPart> parts;
  parts.reserve(steps.size());
  BoundWords uploads;
  for (const auto &step : steps) {
    parts.push_back(step->part(since, isPrivate));
    llvm::append_range(uploads.uploads, step->words().uploads);
    llvm::append_range(uploads.memory, step->words().memory);
  }
  for (const auto &step : steps) { // they are admitted, and paid
    step->admitTables();
  }
  const int64_t begin = time.isOn() ? time.now() : 0;
  auto ran = session.worker.run(parts, uploads, plan->facts, threads->threads, withinUs,
                                {.stop = &session.running->flag(),
                                 .finish = time.isOn() ? nullptr : &session.stop, // how many have run is not told
                                 .isSent = &isSent});
  if (time.isOn()) {
    time.ran(time.now() - begin);
  }
  llvm::Error error = ran ? llvm::Error::success() : ran.takeError();
  const size_t count = ran ? ran->parts.size() : 0;
  // Those that did not begin are given back; one that failed is paid.
  const size_t begun = ran ? std::clamp<size_t>(count + (ran->failure ? 1 : 0), 1, steps.size()) : steps.size();
  for (size_t at = steps.size(); at > begun; --at) {
    steps[at - 1]->putBack();
  }
  if (time.isOver()) {
    llvm::consumeError(std::move(error));
    error = requestError(wire::ErrorCode_Stopped,
                         "the step took longer than this owner lets steps on private rows take, so its values are kept "
                         "back and nothing of it was committed; what it cost is not given back. Run it again, or ask "
                         "the data owner for a larger --headroom");
  }
  if (time.isOn() && time.steps() == 1) {
    machine.running.renew(*session.running); // its deadline is for the run
    time.hold(session.running->flag());
  }
  for (const auto &step : steps) { // before any lands: parts drop the states of the parts before them
    error = error ? std::move(error) : step->checkFiles();
  }
  for (; landedCount < count && !error; landedCount += error ? 0 : 1) {
    error = steps[landedCount]->land(ran->parts[landedCount], /*isAlone=*/steps.size() == 1, reply, committed);
  }
  if (!error && ran->failure) {
    error = llvm::make_error<RequestError>(std::move(*ran->failure));
  }
  if (!error && count == 0) {
    error = requestError(wire::ErrorCode_Internal, "the worker did not run the step, and does not say why");
  }
  return error;
}

} // namespace sojourn::owner
