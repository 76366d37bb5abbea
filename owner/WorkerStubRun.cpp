// SPDX-License-Identifier: Apache-2.0
// Runs of a worker, and the exchanges of joint steps between their stages (see WorkerStub.h).
#include "owner/WorkerAsk.h"
#include "owner/WorkerStub.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

namespace sojourn::owner {

using flatbuffers::FlatBufferBuilder;
using llvm::Twine;

namespace {

using Offsets = flatbuffers::Vector<flatbuffers::Offset<calls::PartDone>>;

/// A run, and the parts of it that answers have told so far.
class AskedRun {
public:
  AskedRun(WorkerPort &port, uint64_t number, llvm::ArrayRef<RunPart> asked, const runtime::ProgramFacts &facts,
           const CallControl &control)
      : port(port), number(number), asked(asked), facts(facts), control(control) {}

  /// Begins it, and goes on with it after each exchange of a joint step.
  llvm::Expected<std::pair<const calls::Ran *, WorkerAnswer>> ask(FlatBufferBuilder &builder,
                                                                  flatbuffers::Offset<void> body, const Memory &memory);
  /// Its next parts, with what they publish. `memory`: of their results, from the first one on.
  llvm::Expected<std::vector<RanParts::Part>> readParts(const Offsets *parts,
                                                        llvm::MutableArrayRef<std::shared_ptr<runtime::Buffer>> memory);
  size_t told() const { return next; }

private:
  llvm::Expected<Memory> exchange(const calls::Waits &waits, Memory memory);
  llvm::Expected<RanParts::Part> readPart(const calls::PartDone &done,
                                          llvm::MutableArrayRef<std::shared_ptr<runtime::Buffer>> memory);
  bool isDropped(size_t result);

  WorkerPort &port;
  const uint64_t number;
  const llvm::ArrayRef<RunPart> asked;
  const runtime::ProgramFacts &facts;
  const CallControl &control;
  size_t next = 0;               ///< part
  std::vector<uint64_t> dropped; ///< by all parts; sorted, once it is asked for
};

/// Sums for the frames of a run that waits.
llvm::Expected<Memory> AskedRun::exchange(const calls::Waits &waits, Memory memory) {
  const size_t values =
      std::min<size_t>(waits.parts() ? waits.parts()->size() : 0, asked.size()) * facts.results.size();
  auto done = readParts(waits.parts(), llvm::MutableArrayRef(memory).take_front(values));
  if (!done || next >= asked.size()) {
    return done ? brokenWorker("the worker ran all parts, and waits for other owners") : done.takeError();
  }
  Memory frames(std::make_move_iterator(memory.begin() + static_cast<ptrdiff_t>(values)),
                std::make_move_iterator(memory.end()));
  for (std::shared_ptr<runtime::Buffer> &frame : frames) {
    const size_t bytes = frame ? frame->size() : 0;
    frame = frame ? port.taken(std::move(frame), bytes) : nullptr;
    if (!frame) {
      return brokenWorker("the worker sends a frame that cannot be read");
    }
  }
  return control.exchange(std::move(frames), std::move(*done), port);
}

llvm::Expected<std::pair<const calls::Ran *, WorkerAnswer>>
AskedRun::ask(FlatBufferBuilder &builder, flatbuffers::Offset<void> body, const Memory &memory) {
  auto answer = askAny(port, builder, calls::CallBody_Run, body, memory, control);
  while (answer && answer->first->body_type() == calls::AnswerBody_Waits && control.exchange) {
    auto came = exchange(*answer->first->body_as_Waits(), std::move(answer->second.memory));
    if (!came) {
      return came.takeError();
    }
    builder.Clear();
    answer = askAny(port, builder, calls::CallBody_Resume, calls::CreateResume(builder, number).Union(),
                    std::move(*came), control);
  }
  if (!answer) {
    return answer.takeError();
  }
  auto ran = bodyOf<calls::Ran>(*answer->first, calls::AnswerBody_Ran);
  if (!ran) {
    return ran.takeError();
  }
  return std::pair(*ran, std::move(answer->second));
}

/// Whether some part drops a result of the next one.
bool AskedRun::isDropped(size_t result) {
  if (dropped.empty()) {
    for (const RunPart &each : asked) {
      llvm::append_range(dropped, each.drops);
    }
    llvm::sort(dropped);
  }
  return std::binary_search(dropped.begin(), dropped.end(), asked[next].results[result]);
}

llvm::Expected<RanParts::Part> AskedRun::readPart(const calls::PartDone &done,
                                                  llvm::MutableArrayRef<std::shared_ptr<runtime::Buffer>> memory) {
  RanParts::Part part;
  part.published.reserve(facts.publishes);
  part.kept.reserve(facts.results.size());
  for (size_t index = 0; index < facts.results.size(); ++index) {
    const runtime::ResultSpec &result = facts.results[index];
    std::shared_ptr<runtime::Buffer> &buffer = memory[index];
    const bool isPublished = result.kind == StepResult::Publish;
    if (buffer ? buffer->size() != result.type.bytes() : !isDropped(index)) {
      return brokenWorker("the worker " + Twine(isPublished ? "published" : "kept") +
                          " a value of another size than its program declares");
    }
    if (isPublished) {
      buffer = port.taken(std::move(buffer), result.type.bytes());
      if (!buffer) {
        return brokenWorker("the worker published a value that cannot be read");
      }
      part.published.push_back({result.type, std::move(buffer)});
    }
    part.kept.push_back(std::move(buffer)); // null once it was moved
  }
  if (const auto *copies = done.copies()) {
    part.copies = {copies->low(), copies->high()};
  } else if (facts.joint && !facts.joint->copies.empty()) {
    return brokenWorker("the worker gave no digest of the values that all members have");
  }
  if (const auto *errors = done.errors()) {
    if (errors->size() != 0 && errors->size() != facts.results.size()) {
      return brokenWorker("the worker gave standard errors of other results");
    }
    part.errors.assign(errors->begin(), errors->end());
  }
  return part;
}

llvm::Expected<std::vector<RanParts::Part>>
AskedRun::readParts(const Offsets *parts, llvm::MutableArrayRef<std::shared_ptr<runtime::Buffer>> memory) {
  const size_t count = parts ? parts->size() : 0;
  if (count > asked.size() - next || memory.size() != count * facts.results.size()) {
    return brokenWorker("the worker ran " + Twine(count) + " parts of " + Twine(asked.size() - next) + " and gave " +
                        Twine(memory.size()) + " values");
  }
  std::vector<RanParts::Part> found;
  found.reserve(count);
  for (size_t at = 0; at < count; ++at, ++next) {
    auto part = readPart(*parts->Get(static_cast<flatbuffers::uoffset_t>(at)), memory.take_front(facts.results.size()));
    if (!part) {
      return part.takeError();
    }
    found.push_back(std::move(*part));
    memory = memory.drop_front(facts.results.size());
  }
  return found;
}

} // namespace

llvm::Expected<RanParts> WorkerStub::runParts(llvm::ArrayRef<RunPart> parts, const llvm::ArrayRef<unsigned> *madeUp,
                                              const BoundWords &bound, const runtime::ProgramFacts &facts,
                                              unsigned threads, uint64_t withinUs, const CallControl &control) {
  for (int attempt = 0;; ++attempt) {
    const uint64_t run = newId();
    size_t words = 0;
    for (const RunPart &part : parts) {
      words += 8 + part.words.size() + part.results.size() + part.context.size() + part.drops.size();
    }
    FlatBufferBuilder builder(256 + 8 * words);
    std::vector<flatbuffers::Offset<calls::Part>> offsets;
    offsets.reserve(parts.size());
    auto arguments = madeUp ? builder.CreateVector(madeUp->data(), madeUp->size()) : 0;
    for (const RunPart &part : parts) {
      auto list = [&](const std::vector<uint64_t> &from) { return from.empty() ? 0 : builder.CreateVector(from); };
      auto bindings = list(part.words), results = list(part.results), context = list(part.context),
           drops = list(part.drops);
      offsets.push_back(
          calls::CreatePart(builder, part.code->id, bindings, results, context, drops, part.isPrivate, arguments));
    }
    auto partsVector = builder.CreateVector(offsets);
    auto uploads = bound.uploads.empty() ? 0 : builder.CreateVector(bound.uploads);
    auto body = calls::CreateRun(builder, run, partsVector, uploads, threads, withinUs, madeUp != nullptr);
    llvm::scope_exit forget([&] { drop({}, {}, run); }); // unless it has ended, as one that waits
    CallControl own = control;
    own.answerBuffers = parts.size() * facts.results.size() + 1; // and a frame
    AskedRun asked(*port, run, parts, facts, own);
    auto answer = asked.ask(builder, body.Union(), bound.memory);
    if (answer) {
      forget.release();
    }
    if (!answer) {
      return plain(answer.takeError());
    }
    const calls::Ran &ran = *answer->first;
    const bool hasRun = asked.told() > 0 || (ran.parts() && ran.parts()->size() > 0);
    if (attempt == 0 && ran.failure() && ran.failure()->is_unknown() && !hasRun) {
      if (llvm::Error failed = teach(*parts[0].code, control.stop)) {
        RanParts none; // has run
        none.failure = takeRequestError(plain(std::move(failed)));
        return none;
      }
      continue;
    }
    RanParts found;
    auto done = asked.readParts(ran.parts(), answer->second.memory);
    if (!done) {
      return done.takeError();
    }
    found.parts = std::move(*done);
    if (const auto *failure = ran.failure()) {
      if (asked.told() == parts.size()) {
        return brokenWorker("the worker ran all parts, and failed");
      }
      // The caller runs the rest again, and teaches the code then.
      if (!hasRun || !failure->is_unknown()) {
        found.failure = errorOf(*failure);
      }
    }
    return found;
  }
}

llvm::Expected<RanParts> WorkerStub::run(llvm::ArrayRef<RunPart> parts, const BoundWords &bound,
                                         const runtime::ProgramFacts &facts, unsigned threads, uint64_t withinUs,
                                         const CallControl &control) {
  return runParts(parts, nullptr, bound, facts, threads, withinUs, control);
}

llvm::Error WorkerStub::rehearse(const RunPart &part, unsigned times, llvm::ArrayRef<unsigned> madeUp,
                                 const BoundWords &bound, const runtime::ProgramFacts &facts, unsigned threads,
                                 const CallControl &control) {
  std::vector<RunPart> parts(times, part);
  std::vector<uint64_t> kept; // of the part before, which the next one replaces
  for (RunPart &each : parts) {
    each.drops = std::move(kept);
    kept.clear();
    uint64_t next = newIds(facts.results.size());
    for (const runtime::ResultSpec &result : facts.results) {
      each.results.push_back(result.kind == StepResult::Publish ? 0 : next++);
    }
    llvm::copy_if(each.results, std::back_inserter(kept), [](uint64_t id) { return id != 0; });
  }
  auto ran = runParts(parts, &madeUp, bound, facts, threads, 0, control);
  drop(kept); // unknown ones are none
  if (!ran) {
    return ran.takeError();
  }
  return ran->failure ? llvm::make_error<RequestError>(std::move(*ran->failure)) : llvm::Error::success();
}

} // namespace sojourn::owner
