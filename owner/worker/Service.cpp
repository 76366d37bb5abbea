// SPDX-License-Identifier: Apache-2.0
// Calls as bytes to the worker, and its answers (see Service.h).
#include "owner/worker/Service.h"

#include "owner/RequestError.h"
#include "owner/worker/Held.h"
#include "owner/worker/PartsRun.h"
#include "owner/worker/ProgramCode.h"
#include "owner/worker/TableRows.h"
#include "runtime/CutText.h"
#include "runtime/Extent.h"
#include "runtime/Limits.h"
#include "runtime/wire/Worker_generated.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>

namespace sojourn::owner {

using flatbuffers::FlatBufferBuilder;
using llvm::Twine;
namespace calls = sojourn_worker;

namespace {

PriceLimits limitsOf(const calls::PriceLimits *from) {
  return from ? PriceLimits{from->operations(), from->arena_bytes(),     from->scratch_bytes(),
                            from->plan_bytes(), from->exchanged_bytes(), from->call_seconds()}
              : PriceLimits();
}

/// Nothing where its bytes cannot be counted.
std::optional<runtime::TensorType> typeOf(const calls::AdoptedValue &value) {
  runtime::TensorType type;
  if (value.element() >= runtime::kElementCount || !value.dims() || value.dims()->size() > runtime::limits::kRank) {
    return std::nullopt;
  }
  type.element = static_cast<runtime::Element>(value.element());
  int64_t bytes = static_cast<int64_t>(runtime::byteWidth(type.element));
  for (int64_t size : *value.dims()) {
    if (size < 0 || llvm::MulOverflow(bytes, std::max<int64_t>(size, 1), bytes)) {
      return std::nullopt;
    }
    type.dims.push_back(size);
  }
  return type;
}

llvm::Error malformedCall(const Twine &what) {
  return requestError(wire::ErrorCode_Malformed, "a worker's call " + what);
}

/// The answer, whose bytes stay where they were built.
WorkerAnswer answer(FlatBufferBuilder &builder, calls::AnswerBody kind, flatbuffers::Offset<void> body,
                    Memory memory = {}) {
  builder.Finish(calls::CreateAnswer(builder, kind, body));
  auto kept = std::make_shared<flatbuffers::DetachedBuffer>(builder.Release());
  const std::string_view bytes(reinterpret_cast<const char *>(kept->data()), kept->size());
  return {std::move(kept), bytes, std::move(memory)};
}

/// Of every call to drop something.
std::string droppedAnswer() {
  FlatBufferBuilder builder;
  builder.Finish(calls::CreateAnswer(builder, calls::AnswerBody_Dropped, calls::CreateDropped(builder).Union()));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
}

} // namespace

struct WorkerService::State {
  State(const runtime::Engine &engine, const WorkerOptions &options)
      : worker(engine), profile(options.profile), ownBuffers(options.sharesMemory ? shared() : nullptr),
        buffers(ownBuffers ? *ownBuffers : runtime::BufferPool::global()) {}
  static std::unique_ptr<runtime::BufferPool> shared() { return std::make_unique<runtime::BufferPool>(true); }

  const Worker worker;
  runtime::Profile *const profile;
  const std::unique_ptr<runtime::BufferPool> ownBuffers; ///< null: those of the process
  runtime::BufferPool &buffers;
  HeldThings held;
  runtime::ArenaPool arenas;
  const std::string dropped = droppedAnswer();
  std::mutex runsMutex;
  std::map<uint64_t, std::unique_ptr<PartsRun>> runs; ///< that wait

  runtime::RunOptions optionsOf(const WorkerCall &call, unsigned threads) {
    runtime::RunOptions options;
    options.threads = std::max(1u, threads); // the engine has its own bound
    options.arenas = &arenas;
    options.buffers = &buffers;
    options.profile = profile;
    options.stop = call.stop;
    return options;
  }

  llvm::Expected<WorkerAnswer> describe(const calls::Describe &call, const WorkerCall &given) {
    if (given.memory.size() != 2) {
      return malformedCall("describes " + Twine(given.memory.size()) + " buffers, expected a program and its table");
    }
    auto described = worker.describe(given.memory[0], given.memory[1], limitsOf(call.limits()),
                                     {call.role(), call.parties(), call.masked()});
    if (!described) {
      return described.takeError();
    }
    held.insertCode(call.code(), {described->code, nullptr});
    FlatBufferBuilder builder(described->facts.size() + described->text.size() + 256);
    auto facts =
        builder.CreateVector(reinterpret_cast<const uint8_t *>(described->facts.data()), described->facts.size());
    auto text = builder.CreateString(described->text);
    auto body = calls::CreateDescribed(builder, facts, text, described->codeBytes);
    return answer(builder, calls::AnswerBody_Described, body.Union());
  }

  llvm::Expected<WorkerAnswer> put(const calls::Put &call, const WorkerCall &given) {
    if (given.memory.size() != 1) {
      return malformedCall("puts " + Twine(given.memory.size()) + " buffers, expected 1");
    }
    const runtime::Buffer &part = *given.memory[0];
    auto upload = held.put(call.value(), call.size(), call.offset(),
                           {static_cast<const uint8_t *>(part.data()), part.size()}, buffers);
    if (!upload) {
      return malformedCall("puts " + Twine(part.size()) + " bytes at " + Twine(call.offset()) + " of " +
                           Twine(call.size()) + " outside of the upload");
    }
    FlatBufferBuilder builder(64);
    auto body = calls::CreateReceived(builder, upload->received, upload->isBits);
    return answer(builder, calls::AnswerBody_Received, body.Union(), {upload->tensor.buffer});
  }

  llvm::Expected<WorkerAnswer> adopt(const calls::Adopt &call, const WorkerCall &given) {
    const size_t count = call.values() ? call.values()->size() : 0;
    if (count != given.memory.size()) {
      return malformedCall("adopts " + Twine(count) + " values of " + Twine(given.memory.size()) + " buffers");
    }
    std::vector<std::pair<uint64_t, HeldValue>> values;
    values.reserve(count);
    for (size_t at = 0; at < count; ++at) {
      const calls::AdoptedValue &value = *call.values()->Get(static_cast<flatbuffers::uoffset_t>(at));
      const auto type = typeOf(value);
      const std::shared_ptr<runtime::Buffer> &buffer = given.memory[at];
      if (!type || !buffer || buffer->isBorrowed() ||
          (value.is_upload() ? value.received() : type->bytes()) > buffer->size()) {
        return malformedCall("adopts value " + Twine(value.value()) + " of another size than its memory");
      }
      const llvm::ArrayRef<uint8_t> bits(static_cast<const uint8_t *>(buffer->data()), type->bytes());
      if (!value.is_upload() && type->element == runtime::Element::i1 &&
          llvm::any_of(bits, [](uint8_t bit) { return bit > 1; })) {
        return malformedCall("adopts value " + Twine(value.value()) + " of truth values other than 0 and 1");
      }
      HeldValue adopted;
      adopted.tensor = {*type, buffer};
      adopted.isUpload = value.is_upload();
      adopted.received = value.received();
      adopted.isBits = value.is_bits();
      values.emplace_back(value.value(), std::move(adopted));
    }
    if (!held.insertValues(std::move(values))) {
      return malformedCall("adopts values by numbers in use");
    }
    FlatBufferBuilder builder(64);
    return answer(builder, calls::AnswerBody_Adopted, calls::CreateAdopted(builder).Union());
  }

  llvm::Expected<WorkerAnswer> prove(const calls::Prove &call) {
    const std::shared_ptr<const ProgramCode> program = held.code(call.program()).program;
    if (!program) {
      return llvm::make_error<UnknownCode>();
    }
    if (std::string reason = worker.lacksForPrivateTables(); !reason.empty()) {
      return llvm::make_error<PassingRefusal>(reason);
    }
    auto terms = runtime::readTerms(
        call.terms() ? llvm::StringRef(reinterpret_cast<const char *>(call.terms()->data()), call.terms()->size())
                     : llvm::StringRef());
    if (!terms) {
      return terms.takeError();
    }
    if (terms->publicArguments.size() != program->step->args().size()) {
      return malformedCall("has terms of " + Twine(terms->publicArguments.size()) + " arguments, the program has " +
                           Twine(program->step->args().size()));
    }
    auto proved = worker.prove(*program, *terms, limitsOf(call.limits()));
    if (!proved) {
      WorkerFailure failure = takeWorkerFailure(proved.takeError());
      if (!failure.isLasting || runtime::isStopped() || call.digest()) { // for a known module it is no verdict
        failure.isLasting = false;
        FlatBufferBuilder builder(256);
        return answer(builder, calls::AnswerBody_Failure, failed(builder, failure).Union());
      }
      runtime::Verdict verdict;
      auto text = [](llvm::StringRef from) { return runtime::prefix(from, runtime::limits::kStringBytes).str(); };
      verdict.refusal = {static_cast<uint8_t>(failure.error.code), text(failure.error.message), text(failure.error.op),
                         text(failure.error.location)};
      FlatBufferBuilder builder(256);
      const std::string bytes = runtime::writeVerdict(verdict);
      auto vector = builder.CreateVector(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
      return answer(builder, calls::AnswerBody_Proved, calls::CreateProved(builder, vector).Union());
    }
    if (call.digest() && !llvm::ArrayRef(call.digest()->data(), call.digest()->size()).equals(proved->digest)) {
      return requestError(wire::ErrorCode_Internal,
                          "the worker made another module than the one that was proved; nothing was run");
    }
    auto code = std::make_shared<HeldCode::Private>();
    code->code = proved->code;
    code->terms = std::move(*terms);
    std::vector<double> errors;
    std::vector<uint8_t> varies;
    for (const std::optional<double> &error : proved->errors) {
      errors.push_back(error.value_or(std::nan("")));
      varies.push_back(!error);
      code->hasVaryingErrors |= !error;
    }
    held.insertCode(call.code(), {nullptr, std::move(code)});
    FlatBufferBuilder builder(proved->verdict.size() + 16 * errors.size() + 256);
    auto verdict =
        builder.CreateVector(reinterpret_cast<const uint8_t *>(proved->verdict.data()), proved->verdict.size());
    auto errorsVector = builder.CreateVector(errors);
    auto variesVector = builder.CreateVector(varies);
    auto body = calls::CreateProved(builder, verdict, errorsVector, variesVector, proved->codeBytes);
    return answer(builder, calls::AnswerBody_Proved, body.Union());
  }

  llvm::Expected<WorkerAnswer> inspect(const calls::Inspect &call, const WorkerCall &given) {
    const HeldCode code = held.code(call.code());
    if (!code.program && !code.proved) {
      return llvm::make_error<UnknownCode>();
    }
    if (std::string reason = worker.lacksForPrivateTables(); !reason.empty()) {
      return llvm::make_error<PassingRefusal>(reason);
    }
    if (!call.bindings()) {
      return malformedCall("inspects no bindings");
    }
    PartBindings bound;
    if (llvm::Error error = bound.uploads(call.bindings()->uploads(), given.memory)) {
      return error;
    }
    const runtime::Code &step = code.program ? *code.program->step : *code.proved->code->step;
    const size_t coins = code.program ? 0 : code.proved->code->coins.size();
    const bool looks = code.proved || (call.ranges() && call.ranges()->size() > 0);
    if (llvm::Error error =
            looks ? bound.bind(step.args().drop_back(coins), call.bindings()->words(), held) : llvm::Error::success()) {
      return error;
    }
    if (code.proved) {
      if (llvm::Error error = checkTerms(*code.proved, bound.bindings)) {
        return error;
      }
      if (llvm::Error error =
              worker.checkRowLists(*code.proved->code, bound.bindings, optionsOf(given, call.threads()))) {
        return error;
      }
    }
    std::vector<calls::Range> ranges;
    for (size_t at = 0; call.ranges() && at < call.ranges()->size(); ++at) {
      const uint32_t argument = call.ranges()->Get(static_cast<flatbuffers::uoffset_t>(at));
      auto range = argument < bound.bindings.size() ? extentOf(bound.bindings[argument].tensor) : std::nullopt;
      ranges.emplace_back(range.has_value(), range ? range->low : 0, range ? range->high : 0);
    }
    FlatBufferBuilder builder(64 + ranges.size() * sizeof(calls::Range));
    auto body = calls::CreateInspected(builder, builder.CreateVectorOfStructs(ranges));
    return answer(builder, calls::AnswerBody_Inspected, body.Union());
  }

  llvm::Expected<WorkerAnswer> run(const calls::Run &call, const WorkerCall &given) {
    const size_t parts = call.parts() ? call.parts()->size() : 0;
    if (parts == 0 || parts > kPartsMost) {
      return malformedCall("runs " + Twine(parts) + " parts, expected 1 to " + Twine(kPartsMost));
    }
    PartsRun run(worker, held, buffers);
    if (llvm::Error error = run.begin(call, given)) {
      return error;
    }
    return goOn(run, call.run(), given);
  }

  llvm::Expected<WorkerAnswer> resume(const calls::Resume &call, const WorkerCall &given) {
    std::unique_ptr<PartsRun> run;
    {
      std::lock_guard lock(runsMutex);
      if (auto found = runs.find(call.run()); found != runs.end()) {
        run = std::move(found->second);
        runs.erase(found);
      }
    }
    if (!run) {
      return malformedCall("resumes run " + Twine(call.run()) + ", which does not wait");
    }
    run->came(given.memory);
    return goOn(*run, call.run(), given);
  }

  llvm::Expected<WorkerAnswer> goOn(PartsRun &run, uint64_t id, const WorkerCall &given) {
    run.goOn(optionsOf(given, run.threads()), given);
    FlatBufferBuilder builder(256);
    std::vector<flatbuffers::Offset<calls::PartDone>> parts;
    for (const PartsRun::Done &done : run.takeDone()) {
      const auto copies =
          done.copies ? calls::CopiesDigest((*done.copies)[0], (*done.copies)[1]) : calls::CopiesDigest();
      auto errors = done.errors.empty() ? 0 : builder.CreateVector(done.errors);
      parts.push_back(calls::CreatePartDone(builder, errors, done.copies ? &copies : nullptr));
    }
    auto partsVector = builder.CreateVector(parts);
    Memory memory = run.takeMemory();
    if (run.waits()) {
      for (std::shared_ptr<runtime::Buffer> &frame : run.takeFrames()) {
        memory.push_back(std::move(frame));
      }
      run.keepArguments(given.bytes); // they go with the answer
      auto kept = std::make_unique<PartsRun>(std::move(run));
      {
        std::lock_guard lock(runsMutex);
        if (!runs.try_emplace(id, std::move(kept)).second) {
          return malformedCall("begins run " + Twine(id) + ", which is under way");
        }
      }
      return answer(builder, calls::AnswerBody_Waits, calls::CreateWaits(builder, id, partsVector).Union(),
                    std::move(memory));
    }
    auto failure = run.failure() ? failed(builder, *run.failure()) : 0;
    auto body = calls::CreateRan(builder, partsVector, failure);
    return answer(builder, calls::AnswerBody_Ran, body.Union(), std::move(memory));
  }

  /// Needs no memory: where it is short, much must go.
  WorkerAnswer drop(const calls::Drop &call) noexcept {
    auto each = [](const flatbuffers::Vector<uint64_t> *from, auto &&visit) {
      for (flatbuffers::uoffset_t at = 0; from && at < from->size(); ++at) {
        visit(from->Get(at));
      }
    };
    each(call.values(), [&](uint64_t id) { held.drop(id, {}); });
    each(call.codes(), [&](uint64_t id) { held.drop({}, id); });
    each(call.runs(), [&](uint64_t id) {
      std::unique_lock lock(runsMutex);
      const auto gone = runs.extract(id);
      lock.unlock();
    });
    return {{}, dropped, {}};
  }

  llvm::Expected<WorkerAnswer> dispatch(const calls::Call &call, const WorkerCall &given) {
    if (!call.body()) { // which the verifier allows
      return malformedCall("is empty");
    }
    switch (call.body_type()) {
    case calls::CallBody_Describe: return describe(*call.body_as_Describe(), given);
    case calls::CallBody_Put: return put(*call.body_as_Put(), given);
    case calls::CallBody_Prove: return prove(*call.body_as_Prove());
    case calls::CallBody_Inspect: return inspect(*call.body_as_Inspect(), given);
    case calls::CallBody_Run: return run(*call.body_as_Run(), given);
    case calls::CallBody_Resume: return resume(*call.body_as_Resume(), given);
    case calls::CallBody_Drop: return drop(*call.body_as_Drop());
    case calls::CallBody_Adopt: return adopt(*call.body_as_Adopt(), given);
    case calls::CallBody_NONE: break;
    }
    return malformedCall("is of unknown kind " + Twine(unsigned(call.body_type())));
  }
};

WorkerService::WorkerService(const runtime::Engine &engine, const WorkerOptions &options)
    : state(std::make_unique<State>(engine, options)) {}
WorkerService::~WorkerService() = default;

WorkerAnswer WorkerService::call(const WorkerCall &given) {
  const runtime::StopScope stopping(given.stop);
  // Parts are tables of their own, with vectors that a verifier does not count.
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(given.bytes.data()), given.bytes.size(), 8,
                                 2 * kPartsMost + 16);
  const bool isCall =
      given.bytes.size() >= 8 && given.bytes.size() <= kCallBytesMost && verifier.VerifyBuffer<calls::Call>(nullptr);
  auto answered =
      isCall && given.memory.size() <= kMemoryMost && !llvm::is_contained(given.memory, nullptr)
          ? state->dispatch(*flatbuffers::GetRoot<calls::Call>(given.bytes.data()), given)
          : llvm::Expected<WorkerAnswer>(malformedCall("has " + Twine(given.bytes.size()) + " bytes and " +
                                                       Twine(given.memory.size()) + " buffers, which are no call"));
  if (answered) {
    return std::move(*answered);
  }
  FlatBufferBuilder builder(256);
  auto body = failed(builder, takeWorkerFailure(answered.takeError()));
  return answer(builder, calls::AnswerBody_Failure, body.Union());
}

void WorkerService::map(uint64_t table, std::shared_ptr<const Dataset> rows) {
  state->held.insertTable(table, std::make_shared<TableRows>(std::move(rows)));
}
void WorkerService::unmap(uint64_t table) { state->held.removeTable(table); }
unsigned WorkerService::threads() const { return state->worker.engine.threads(); }
runtime::BufferPool &WorkerService::buffers() { return state->buffers; }
void WorkerService::trim() {
  state->buffers.trim();
  state->arenas.trim();
}

WorkerService::Held WorkerService::held() const {
  std::lock_guard lock(state->runsMutex);
  return {state->held.valueCount(), state->held.codeCount(), state->runs.size()};
}

WorkerFactory workersOn(const runtime::Engine &engine, const WorkerOptions &options) {
  return [&engine, options] { return std::make_unique<WorkerService>(engine, options); };
}
WorkerFactory cpuWorkers(const WorkerOptions &options) { return workersOn(runtime::cpuEngine(), options); }

} // namespace sojourn::owner
