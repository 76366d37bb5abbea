// SPDX-License-Identifier: Apache-2.0
// Runs of a worker, and the exchanges of joint steps between their stages (see WorkerStub.h).
#include "owner/WorkerAsk.h"
#include "owner/WorkerStub.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

namespace sojourn::owner {

using flatbuffers::FlatBufferBuilder;
using llvm::Twine;

/// Begins a run, and goes on with it after each exchange of a joint step.
static llvm::Expected<std::pair<const calls::Ran *, WorkerAnswer>>
askToRun(WorkerPort &port, FlatBufferBuilder &builder, flatbuffers::Offset<void> body, const Memory &memory,
         uint64_t run, const CallControl &control) {
  auto answer = askAny(port, builder, calls::CallBody_Run, body, memory, control);
  while (answer && answer->first->body_type() == calls::AnswerBody_Waits && control.exchange) {
    Memory &frames = answer->second.memory;
    for (std::shared_ptr<runtime::Buffer> &frame : frames) {
      const size_t bytes = frame ? frame->size() : 0;
      frame = frame ? port.taken(std::move(frame), bytes) : nullptr;
      if (!frame) {
        return brokenWorker("the worker sends a frame that cannot be read");
      }
    }
    auto came = control.exchange(std::move(frames), port);
    if (!came) {
      return came.takeError();
    }
    builder.Clear();
    answer = askAny(port, builder, calls::CallBody_Resume, calls::CreateResume(builder, run).Union(), std::move(*came),
                    control);
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

/// The parts that ran, with what they publish.
static llvm::Expected<RanParts> readRan(WorkerPort &port, const calls::Ran &ran, WorkerAnswer &answer,
                                        llvm::ArrayRef<RunPart> asked, const runtime::ProgramFacts &facts) {
  RanParts found;
  std::vector<uint64_t> dropped; // sorted, once it is asked for
  auto isDropped = [&](size_t at, size_t index) {
    if (dropped.empty()) {
      for (const RunPart &each : asked) {
        llvm::append_range(dropped, each.drops);
      }
      llvm::sort(dropped);
    }
    return std::binary_search(dropped.begin(), dropped.end(), asked[at].results[index]);
  };
  const size_t count = ran.parts() ? ran.parts()->size() : 0;
  if (count > asked.size() || answer.memory.size() != count * facts.results.size()) {
    return brokenWorker("the worker ran " + Twine(count) + " parts of " + Twine(asked.size()) + " and gave " +
                        Twine(answer.memory.size()) + " values");
  }
  found.parts.resize(count);
  size_t next = 0;
  for (size_t at = 0; at < count; ++at) {
    RanParts::Part &part = found.parts[at];
    part.published.reserve(facts.publishes);
    part.kept.reserve(facts.results.size());
    for (size_t index = 0; index < facts.results.size(); ++index) {
      const runtime::ResultSpec &result = facts.results[index];
      std::shared_ptr<runtime::Buffer> &buffer = answer.memory[next++];
      const bool isPublished = result.kind == StepResult::Publish;
      if (buffer ? buffer->size() != result.type.bytes() : !isDropped(at, index)) {
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
    const calls::PartDone &done = *ran.parts()->Get(static_cast<flatbuffers::uoffset_t>(at));
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
  }
  if (const auto *failure = ran.failure()) {
    if (count == asked.size()) {
      return brokenWorker("the worker ran all parts, and failed");
    }
    // The caller runs the rest again, and teaches the code then.
    if (count == 0 || !failure->is_unknown()) {
      found.failure = errorOf(*failure);
    }
  }
  return found;
}

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
    own.answerBuffers = parts.size() * facts.results.size();
    auto answer = askToRun(*port, builder, body.Union(), bound.memory, run, own);
    if (answer) {
      forget.release();
    }
    if (!answer) {
      return plain(answer.takeError());
    }
    const calls::Ran &ran = *answer->first;
    if (attempt == 0 && ran.failure() && ran.failure()->is_unknown() && (!ran.parts() || ran.parts()->size() == 0)) {
      if (llvm::Error failed = teach(*parts[0].code, control.stop)) {
        RanParts none; // has run
        none.failure = takeRequestError(plain(std::move(failed)));
        return none;
      }
      continue;
    }
    return readRan(*port, ran, answer->second, parts, facts);
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
