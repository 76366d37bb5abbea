// SPDX-License-Identifier: Apache-2.0
// Calls of a worker as bytes, and its answers checked (see WorkerStub.h).
#include "owner/WorkerStub.h"

#include "owner/Text.h"
#include "runtime/Limits.h"
#include "runtime/wire/Worker_generated.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

#include <algorithm>
#include <cmath>

namespace sojourn::owner {

using flatbuffers::FlatBufferBuilder;
using llvm::Twine;
namespace calls = sojourn_worker;

/// Bytes of a program's text for the log, at most.
static constexpr size_t kTextMost = size_t{4} << 20;
/// Of a code, whatever the worker says.
static constexpr size_t kCodeMost = size_t{1} << 40;

CodeRef::~CodeRef() { worker->drop({}, id); }

namespace {

/// No fault of the client's program.
llvm::Error brokenWorker(const Twine &what) {
  return requestError(wire::ErrorCode_Internal, what + ". This is a defect of the owner, please report it");
}

class WorkerError : public llvm::ErrorInfo<WorkerError> {
public:
  static char ID;
  WorkerError(RequestError error, bool isUnknown, bool isLasting)
      : error(std::move(error)), isUnknown(isUnknown), isLasting(isLasting) {}
  void log(llvm::raw_ostream &stream) const override { error.log(stream); }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }
  RequestError error;
  bool isUnknown, isLasting;
};
char WorkerError::ID = 0;

std::string textOf(const flatbuffers::String *text, size_t most) {
  return text ? printable(text->string_view(), most) : std::string();
}

RequestError errorOf(uint8_t code, std::string_view message, std::string_view op, std::string_view location) {
  if (code > wire::ErrorCode_MAX) {
    return {wire::ErrorCode_Internal, "the worker failed with unknown code " + std::to_string(code)};
  }
  return {static_cast<wire::ErrorCode>(code), printable(message, runtime::limits::kStringBytes),
          printable(op, runtime::limits::kOpNameBytes), printable(location, runtime::limits::kLocationTextBytes)};
}

RequestError errorOf(const calls::Failure &failure) {
  auto text = [](const flatbuffers::String *from) { return from ? from->string_view() : std::string_view(); };
  return errorOf(failure.code(), text(failure.message()), text(failure.op()), text(failure.location()));
}

RequestError errorOf(const runtime::Refusal &refusal) {
  return errorOf(refusal.code, refusal.message, refusal.op, refusal.location);
}

/// The error as the client gets it.
llvm::Error plain(llvm::Error error) {
  return llvm::handleErrors(std::move(error), [](const WorkerError &found) -> llvm::Error {
    return llvm::make_error<RequestError>(found.error);
  });
}

/// The answer, or a WorkerError.
llvm::Expected<std::pair<const calls::Answer *, WorkerAnswer>>
askAny(WorkerPort &port, FlatBufferBuilder &builder, calls::CallBody kind, flatbuffers::Offset<void> body,
       Memory memory, const CallControl &control) {
  builder.Finish(calls::CreateCall(builder, kind, body));
  WorkerCall call;
  call.bytes = {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
  call.memory = std::move(memory);
  call.stop = control.stop;
  call.finish = control.finish;
  call.progress = control.progress;
  call.answerBuffers = control.answerBuffers;
  if (control.isSent) {
    *control.isSent = true;
  }
  WorkerAnswer answer = port.call(call);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(answer.bytes.data()), answer.bytes.size(), 8,
                                 2 * kPartsMost + 16);
  const bool isAnswer = answer.bytes.size() >= 8 && verifier.VerifyBuffer<calls::Answer>(nullptr);
  const auto *root = isAnswer ? flatbuffers::GetRoot<calls::Answer>(answer.bytes.data()) : nullptr;
  if (!root || !root->body()) { // the verifier allows an empty one
    return brokenWorker("the worker answered " + Twine(answer.bytes.size()) + " bytes that are no answer");
  }
  if (const auto *failure = root->body_as_Failure()) {
    return llvm::make_error<WorkerError>(errorOf(*failure), failure->is_unknown(), failure->is_lasting());
  }
  return std::pair(root, std::move(answer));
}

/// The body of an answer, where it is of this kind.
template <class Body>
llvm::Expected<const Body *> bodyOf(const calls::Answer &root, calls::AnswerBody expected) {
  if (root.body_type() != expected) {
    return brokenWorker("the worker answered " + Twine(calls::EnumNameAnswerBody(root.body_type())) + ", expected " +
                        calls::EnumNameAnswerBody(expected));
  }
  return static_cast<const Body *>(root.body());
}

/// The answer of one kind, or a WorkerError.
template <class Body>
llvm::Expected<std::pair<const Body *, WorkerAnswer>>
ask(WorkerPort &port, FlatBufferBuilder &builder, calls::CallBody kind, flatbuffers::Offset<void> body, Memory memory,
    const CallControl &control, calls::AnswerBody expected) {
  auto answer = askAny(port, builder, kind, body, std::move(memory), control);
  if (!answer) {
    return answer.takeError();
  }
  auto found = bodyOf<Body>(*answer->first, expected);
  if (!found) {
    return found.takeError();
  }
  return std::pair(*found, std::move(answer->second));
}

/// Begins a run, and goes on with it after each exchange of a joint step.
llvm::Expected<std::pair<const calls::Ran *, WorkerAnswer>>
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
    auto came = control.exchange(std::move(frames));
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

flatbuffers::Offset<calls::PriceLimits> write(FlatBufferBuilder &builder, const PriceLimits &limits) {
  return calls::CreatePriceLimits(builder, limits.operations, limits.arenaBytes, limits.scratchBytes, limits.planBytes,
                                  limits.callSeconds);
}

llvm::StringRef bytesOf(const flatbuffers::Vector<uint8_t> *vector) {
  return vector ? llvm::StringRef(reinterpret_cast<const char *>(vector->data()), vector->size()) : llvm::StringRef();
}

/// Whether the error says that the worker lacks a code.
bool isUnknown(llvm::Error &error) {
  bool unknown = false;
  error = llvm::handleErrors(std::move(error), [&](std::unique_ptr<WorkerError> found) -> llvm::Error {
    unknown = found->isUnknown;
    return llvm::Error(std::move(found));
  });
  return unknown;
}

} // namespace

llvm::Expected<DescribedCode> WorkerStub::describe(llvm::StringRef program, llvm::StringRef debug,
                                                   const PriceLimits &limits, const runtime::StopFlag *stop,
                                                   const RoleOfGroup &role) {
  auto code = std::make_shared<CodeRef>(*this, newId());
  code->role = role;
  code->program = runtime::copyOf(program.data(), program.size());
  code->debug = runtime::copyOf(debug.data(), debug.size());
  code->limits = limits;
  FlatBufferBuilder builder(128);
  auto body = calls::CreateDescribe(builder, code->id, write(builder, limits), role.role, role.parties);
  auto answer = ask<calls::Described>(*port, builder, calls::CallBody_Describe, body.Union(),
                                      {code->program, code->debug}, {.stop = stop}, calls::AnswerBody_Described);
  if (!answer) {
    return plain(answer.takeError());
  }
  const calls::Described &described = *answer->first;
  auto facts = runtime::readFacts(bytesOf(described.facts()));
  if (!facts) {
    return brokenWorker(llvm::toString(facts.takeError()));
  }
  code->workerBytes = std::min<size_t>(described.code_bytes(), kCodeMost);
  return DescribedCode{std::move(*facts), textOf(described.text(), kTextMost), std::move(code)};
}

llvm::Error WorkerStub::teach(const CodeRef &code, const runtime::StopFlag *stop) {
  if (isOfSession) {
    sweep();
    taught.emplace_back(code.id, code.weak_from_this());
  }
  FlatBufferBuilder builder(256 + code.terms.size());
  if (!code.of) {
    auto body =
        calls::CreateDescribe(builder, code.id, write(builder, code.limits), code.role.role, code.role.parties);
    auto answer = ask<calls::Described>(*port, builder, calls::CallBody_Describe, body.Union(),
                                        {code.program, code.debug}, {.stop = stop}, calls::AnswerBody_Described);
    return answer ? llvm::Error::success() : answer.takeError();
  }
  for (int attempt = 0;; ++attempt) {
    builder.Clear();
    auto terms = builder.CreateVector(reinterpret_cast<const uint8_t *>(code.terms.data()), code.terms.size());
    auto digest = builder.CreateVector(code.digest.data(), code.digest.size());
    auto limits = write(builder, code.limits);
    auto body = calls::CreateProve(builder, code.of->id, code.id, terms, limits, digest);
    auto answer = ask<calls::Proved>(*port, builder, calls::CallBody_Prove, body.Union(), {}, {.stop = stop},
                                     calls::AnswerBody_Proved);
    llvm::Error error = answer ? llvm::Error::success() : answer.takeError();
    if (!error || attempt > 0 || !isUnknown(error)) {
      return error;
    }
    llvm::consumeError(std::move(error));
    if (llvm::Error failed = teach(*code.of, stop)) {
      return failed;
    }
  }
}

llvm::Expected<ProvedCode> WorkerStub::prove(const std::shared_ptr<const CodeRef> &program,
                                             const runtime::ProgramFacts &facts, const runtime::PrivateTerms &terms,
                                             const PriceLimits &limits, bool &isLasting,
                                             const runtime::StopFlag *stop) {
  auto code = std::make_shared<CodeRef>(*this, newId());
  code->of = program;
  code->terms = runtime::writeTerms(terms);
  code->limits = limits;
  isLasting = false;
  for (int attempt = 0;; ++attempt) {
    FlatBufferBuilder builder(256 + code->terms.size());
    auto termsVector = builder.CreateVector(reinterpret_cast<const uint8_t *>(code->terms.data()), code->terms.size());
    auto limitsTable = write(builder, limits);
    auto body = calls::CreateProve(builder, program->id, code->id, termsVector, limitsTable);
    auto answer = ask<calls::Proved>(*port, builder, calls::CallBody_Prove, body.Union(), {}, {.stop = stop},
                                     calls::AnswerBody_Proved);
    if (!answer) {
      llvm::Error error = answer.takeError();
      if (attempt == 0 && isUnknown(error)) {
        llvm::consumeError(std::move(error));
        if (llvm::Error failed = teach(*program, stop)) {
          return plain(std::move(failed));
        }
        continue;
      }
      return llvm::handleErrors(std::move(error), [&](const WorkerError &found) -> llvm::Error {
        isLasting = found.isLasting;
        return llvm::make_error<RequestError>(found.error);
      });
    }
    const calls::Proved &proved = *answer->first;
    auto verdict = runtime::readVerdict(bytesOf(proved.verdict()), facts);
    if (!verdict) {
      isLasting = true;
      return brokenWorker(llvm::toString(verdict.takeError()));
    }
    if (const auto &refusal = verdict->refusal) {
      isLasting = true;
      return llvm::make_error<RequestError>(errorOf(*refusal));
    }
    ProvedCode made;
    const size_t results = facts.results.size();
    if (!proved.errors() || !proved.varies() || proved.errors()->size() != results ||
        proved.varies()->size() != results) {
      return brokenWorker("the worker gave standard errors of other results");
    }
    for (size_t at = 0; at < results; ++at) {
      const auto index = static_cast<flatbuffers::uoffset_t>(at);
      made.errors.push_back(proved.varies()->Get(index) ? std::nullopt : std::optional(proved.errors()->Get(index)));
    }
    code->digest = verdict->moduleDigest;
    code->workerBytes = std::min<size_t>(proved.code_bytes(), kCodeMost);
    made.verdict = std::move(*verdict);
    made.code = std::move(code);
    return made;
  }
}

llvm::Expected<std::vector<std::optional<runtime::Extent>>>
WorkerStub::inspect(const CodeRef &code, const BoundWords &bound, llvm::ArrayRef<unsigned> ranges, unsigned threads,
                    const runtime::StopFlag *stop) {
  for (int attempt = 0;; ++attempt) {
    FlatBufferBuilder builder(256 + 8 * bound.words.size());
    auto words = builder.CreateVector(bound.words), uploads = builder.CreateVector(bound.uploads);
    auto bindings = calls::CreateBindings(builder, words, uploads);
    auto wanted = builder.CreateVector(ranges.data(), ranges.size());
    auto body = calls::CreateInspect(builder, code.id, bindings, wanted, threads);
    auto answer = ask<calls::Inspected>(*port, builder, calls::CallBody_Inspect, body.Union(), bound.memory,
                                        {.stop = stop}, calls::AnswerBody_Inspected);
    if (!answer) {
      llvm::Error error = answer.takeError();
      if (attempt == 0 && isUnknown(error)) {
        llvm::consumeError(std::move(error));
        if (llvm::Error failed = teach(code, stop)) {
          return plain(std::move(failed));
        }
        continue;
      }
      return plain(std::move(error));
    }
    const auto *found = answer->first->ranges();
    if ((found ? found->size() : 0) != ranges.size()) {
      return brokenWorker("the worker gave ranges of other arguments");
    }
    std::vector<std::optional<runtime::Extent>> extents;
    for (size_t at = 0; at < ranges.size(); ++at) {
      const calls::Range &range = *found->Get(static_cast<flatbuffers::uoffset_t>(at));
      const bool isRange = std::isfinite(range.low()) && std::isfinite(range.high()) && range.low() <= range.high();
      if (range.is_known() && !isRange) {
        return brokenWorker("the worker gave an invalid range");
      }
      extents.push_back(range.is_known() ? std::optional(runtime::Extent{range.low(), range.high()}) : std::nullopt);
    }
    return extents;
  }
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
    if (const auto *errors = ran.parts()->Get(static_cast<flatbuffers::uoffset_t>(at))->errors()) {
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

llvm::Expected<WorkerStub::Received> WorkerStub::put(uint64_t value, size_t size, size_t offset,
                                                     std::shared_ptr<runtime::Buffer> part) {
  FlatBufferBuilder builder(128);
  auto body = calls::CreatePut(builder, value, size, offset);
  auto answer = ask<calls::Received>(*port, builder, calls::CallBody_Put, body.Union(), {std::move(part)}, {},
                                     calls::AnswerBody_Received);
  if (!answer) {
    return plain(answer.takeError());
  }
  Memory &memory = answer->second.memory;
  if (answer->first->bytes() > size || memory.size() != 1 || !memory[0] || memory[0]->size() != size) {
    return brokenWorker("the worker took in another upload");
  }
  return Received{answer->first->bytes(), answer->first->is_bits(), std::move(memory[0])};
}

llvm::Error WorkerStub::adopt(llvm::ArrayRef<Adopted> values) {
  constexpr size_t kAtOnce = 128; // descriptors that the worker has at a time
  if (values.size() > kAtOnce) {
    llvm::Error error = adopt(values.take_front(kAtOnce));
    return error ? std::move(error) : adopt(values.drop_front(kAtOnce));
  }
  FlatBufferBuilder builder(64 + 96 * values.size());
  std::vector<flatbuffers::Offset<calls::AdoptedValue>> offsets;
  Memory memory;
  for (const Adopted &each : values) {
    auto dims = builder.CreateVector(each.value.type.dims.data(), each.value.type.dims.size());
    offsets.push_back(calls::CreateAdoptedValue(builder, each.value.id, static_cast<uint8_t>(each.value.type.element),
                                                dims, each.isUpload, each.received.bytes, each.received.isBits));
    memory.push_back(each.memory);
  }
  auto body = calls::CreateAdopt(builder, builder.CreateVector(offsets));
  auto answer = ask<calls::Adopted>(*port, builder, calls::CallBody_Adopt, body.Union(), std::move(memory), {},
                                    calls::AnswerBody_Adopted);
  return answer ? llvm::Error::success() : plain(answer.takeError());
}

namespace {
/// Memory on the stack, for calls that must not fail.
class StackMemory final : public flatbuffers::Allocator {
public:
  static constexpr size_t kBytes = 2'048;
  uint8_t *allocate(size_t size) override {
    return size <= kBytes ? memory : throw std::bad_alloc(); // the builder grows for longer lists than kAtOnce
  }
  void deallocate(uint8_t *, size_t) override {}

private:
  alignas(16) uint8_t memory[kBytes];
};
} // namespace

void WorkerStub::drop(llvm::ArrayRef<uint64_t> values, llvm::ArrayRef<uint64_t> codes,
                      llvm::ArrayRef<uint64_t> runs) noexcept {
  constexpr size_t kAtOnce = 64;
  auto part = [](llvm::ArrayRef<uint64_t> &all) {
    const auto first = all.take_front(kAtOnce);
    all = all.drop_front(first.size());
    return first;
  };
  while (!values.empty() || !codes.empty() || !runs.empty()) {
    try {
      StackMemory memory;
      FlatBufferBuilder builder(StackMemory::kBytes, &memory);
      auto list = [&](llvm::ArrayRef<uint64_t> ids) { return builder.CreateVector(ids.data(), ids.size()); };
      auto valuesVector = list(part(values)), codesVector = list(part(codes)), runsVector = list(part(runs));
      auto body = calls::CreateDrop(builder, valuesVector, codesVector, runsVector);
      auto answer =
          ask<calls::Dropped>(*port, builder, calls::CallBody_Drop, body.Union(), {}, {}, calls::AnswerBody_Dropped);
      if (!answer) {
        llvm::consumeError(answer.takeError());
      }
    } catch (const std::bad_alloc &) { // of a worker behind a wire; they go with it
    }
  }
}

} // namespace sojourn::owner
