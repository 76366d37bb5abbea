// SPDX-License-Identifier: Apache-2.0
// Runs of parts (see PartsRun.h).
#include "owner/worker/PartsRun.h"

#include "owner/worker/Coins.h"
#include "owner/worker/MadeUp.h"
#include "owner/worker/ProgramCode.h"
#include "runtime/Error.h"
#include "runtime/Extent.h"
#include "runtime/wire/Step.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace sojourn::owner {

using llvm::Twine;
using runtime::HostTensor;

char UnknownCode::ID = 0;
char PassingRefusal::ID = 0;

WorkerFailure takeWorkerFailure(llvm::Error error) {
  WorkerFailure failure{RequestError(wire::ErrorCode_Internal, ""), false, false};
  llvm::Error rest = llvm::handleErrors(
      std::move(error),
      [&](const UnknownCode &) {
        failure.isUnknown = true;
        failure.error.message = "the worker does not know the program";
      },
      [&](const PassingRefusal &refusal) { failure.error = RequestError(wire::ErrorCode_Refused, refusal.text); });
  if (rest) {
    failure.isLasting = rest.isA<RequestError>();
    failure.error = takeRequestError(std::move(rest));
  }
  return failure;
}

flatbuffers::Offset<sojourn_worker::Failure> failed(flatbuffers::FlatBufferBuilder &builder,
                                                    const WorkerFailure &failure) {
  auto message = builder.CreateString(failure.error.message), op = builder.CreateString(failure.error.op),
       location = builder.CreateString(failure.error.location);
  return sojourn_worker::CreateFailure(builder, static_cast<uint8_t>(failure.error.code), message, op, location,
                                       failure.isUnknown, failure.isLasting);
}

static std::span<const uint8_t> bytesOf(const HostTensor &tensor) {
  return {static_cast<const uint8_t *>(tensor.buffer->data()), tensor.type.bytes()};
}

std::optional<runtime::Extent> extentOf(const HostTensor &tensor) {
  return tensor.buffer ? runtime::extentOf(tensor.type.element, bytesOf(tensor)) : std::nullopt;
}

static llvm::Error wrongCall(const Twine &what) {
  return requestError(wire::ErrorCode_Internal, "the front of the owner binds " + what);
}

llvm::Error checkTerms(const HeldCode::Private &proved, llvm::ArrayRef<runtime::Binding> bindings) {
  const runtime::PrivateTerms &terms = proved.terms;
  size_t slot = 0;
  llvm::ArrayRef<runtime::ArgSpec> args = proved.code->step->args();
  for (size_t index = 0; index < bindings.size(); ++index) {
    bool isSame = true;
    if (args[index].kind == StepArg::Slot && !terms.slots.empty()) {
      uint64_t word = 0;
      std::memcpy(&word, bindings[index].tensor.buffer->data(), sizeof(word));
      isSame = slot < terms.slots.size() && terms.slots[slot++] == word;
    }
    if (const auto &range = terms.extents[index]) {
      const auto found = extentOf(bindings[index].tensor);
      isSame &= found && range->low <= found->low && found->high <= range->high;
    }
    if (!isSame) {
      return requestError(wire::ErrorCode_Internal, "argument " + Twine(index) +
                                                        " is not what the proof of this step rests on; nothing was "
                                                        "read. This is a defect of the owner, please report it");
    }
  }
  return llvm::Error::success();
}

llvm::Error PartBindings::uploads(const Numbers *ids, const Memory &memory) {
  const size_t count = ids ? ids->size() : 0;
  if (count > memory.size()) {
    return wrongCall(Twine(count) + " uploads of " + Twine(memory.size()) + " buffers");
  }
  for (size_t at = 0; at < count; ++at) {
    sent[ids->Get(static_cast<flatbuffers::uoffset_t>(at))] = memory[at];
  }
  return llvm::Error::success();
}

llvm::Error PartBindings::bind(llvm::ArrayRef<runtime::ArgSpec> args, const Numbers *words, const HeldThings &held) {
  const size_t count = words ? words->size() : 0;
  if (count != args.size()) {
    return wrongCall(Twine(count) + " arguments, the program has " + Twine(args.size()));
  }
  bindings.assign(count, {});
  tables.clear();
  for (size_t index = 0; index < count; ++index) {
    const uint64_t word = words->Get(static_cast<flatbuffers::uoffset_t>(index));
    HostTensor &tensor = bindings[index].tensor;
    tensor.type = args[index].type;
    switch (args[index].kind) {
    case StepArg::State:
    case StepArg::Upload: {
      if (auto found = sent.find(word); found != sent.end()) {
        tensor.buffer = found->second;
      } else {
        tensor.buffer = held.buffer(word, tensor.type);
      }
      if (!tensor.buffer || tensor.buffer->size() < tensor.type.bytes()) {
        return wrongCall("value " + Twine(word) + ", which is not there, incomplete, or of another type or size");
      }
      break;
    }
    case StepArg::Slot:
    case StepArg::Seed:
      tensor.buffer = runtime::copyOf(&word, sizeof(word)); // a result may be the argument itself
      break;
    case StepArg::Table:
      tables.push_back(held.table(word));
      bindings[index] = {{}, tables.back().get()};
      if (!tables.back()) {
        return wrongCall("table " + Twine(word) + ", which is not mapped");
      }
      break;
    case StepArg::Coin: return wrongCall("a coin");
    }
  }
  return llvm::Error::success();
}

llvm::Error PartBindings::makeUp(const flatbuffers::Vector<uint32_t> *arguments, runtime::BufferPool &buffers) {
  for (flatbuffers::uoffset_t at = 0; arguments && at < arguments->size(); ++at) {
    const uint32_t index = arguments->Get(at);
    if (index >= bindings.size() || (at > 0 && index <= arguments->Get(at - 1))) { // a table is made up once
      return wrongCall("argument " + Twine(index) + " of " + Twine(bindings.size()) +
                       " to be made up, expected ascending numbers");
    }
    runtime::Binding &binding = bindings[index];
    if (binding.table) {
      tables.push_back(std::make_shared<MadeUpRows>(static_cast<const TableRows *>(binding.table)->table()));
      binding.table = tables.back().get();
    } else {
      binding.tensor = madeUp(binding.tensor.type, buffers);
    }
  }
  return llvm::Error::success();
}

void PartBindings::keep() {
  for (runtime::Binding &binding : bindings) {
    if (binding.tensor.buffer && binding.tensor.buffer->isBorrowed()) {
      binding.tensor.buffer = runtime::copyOf(binding.tensor.buffer->data(), binding.tensor.buffer->size());
    }
  }
  for (auto &[id, buffer] : sent) {
    if (buffer->isBorrowed()) {
      buffer = runtime::copyOf(buffer->data(), buffer->size());
    }
  }
}

llvm::Error PartsRun::begin(const sojourn_worker::Run &run, const WorkerCall &given) {
  call = &run;
  threadCount = run.threads();
  if (run.within_us() != 0) {
    constexpr uint64_t kDay = 86'400'000'000;
    until = std::chrono::steady_clock::now() + std::chrono::microseconds(std::min(run.within_us(), kDay));
  }
  return bound.uploads(run.uploads(), given.memory);
}

Memory PartsRun::takeMemory() {
  Memory memory = held->memoryOf(kept);
  for (size_t at = 0; at < memory.size(); ++at) {
    if (kept[at] == 0) {
      memory[at] = std::move(published[at]);
    }
  }
  kept.clear();
  published.clear();
  return memory;
}

Memory PartsRun::takeFrames() { return std::move(suspended->frames); }

void PartsRun::keepArguments(std::string_view bytes) {
  bound.keep();
  if (ownBytes.empty()) {
    ownBytes.resize((bytes.size() + 7) / 8);
    std::memcpy(ownBytes.data(), bytes.data(), bytes.size());
    call = flatbuffers::GetRoot<sojourn_worker::Call>(ownBytes.data())->body_as_Run();
  }
}

runtime::RunOptions PartsRun::optionsOf(const sojourn_worker::Part &part, const runtime::RunOptions &options) const {
  runtime::RunOptions own = options;
  own.isPrivate = code.proved != nullptr || part.is_private();
  return own;
}

llvm::Error PartsRun::runPart(const sojourn_worker::Part &part, const runtime::RunOptions &options) {
  code = held->code(part.code());
  if (!code.program && !code.proved) {
    return llvm::make_error<UnknownCode>();
  }
  const runtime::Code &step = code.program ? *code.program->step : *code.proved->code->step;
  llvm::ArrayRef<runtime::CoinInfo> coins =
      code.proved ? llvm::ArrayRef(code.proved->code->coins) : llvm::ArrayRef<runtime::CoinInfo>();
  if ((part.results() ? part.results()->size() : 0) != step.results().size()) {
    return wrongCall("results of another number than the program has");
  }
  if (llvm::Error error = bound.bind(step.args().drop_back(coins.size()), part.words(), *held)) {
    return error;
  }
  if (llvm::Error error = call->rehearses() ? bound.makeUp(part.made_up(), *buffers) : llvm::Error::success()) {
    return error;
  }
  if (code.proved) {
    // Traits may have changed since the proof.
    if (std::string reason = worker->lacksForPrivateTables(); !reason.empty()) {
      return llvm::make_error<PassingRefusal>(reason);
    }
    if (llvm::Error error = checkTerms(*code.proved, bound.bindings)) {
      return error;
    }
    const std::vector<uint64_t> context = part.context()
                                              ? std::vector<uint64_t>(part.context()->begin(), part.context()->end())
                                              : std::vector<uint64_t>();
    llvm::append_range(bound.bindings, drawCoins(coins, options.threads, context));
  }
  auto outcome = step.start(bound.bindings, optionsOf(part, options));
  if (!outcome) {
    return outcome.takeError();
  }
  if (outcome->waits && call->rehearses()) {
    return requestError(wire::ErrorCode_Internal, "a step that waits for other owners cannot be rehearsed");
  }
  if (outcome->waits) {
    suspended = std::move(outcome->waits);
    return llvm::Error::success();
  }
  return finishPart(part, std::move(outcome->values));
}

static bool areResultsOf(llvm::ArrayRef<runtime::ResultSpec> results, llvm::ArrayRef<HostTensor> values) {
  return values.size() == results.size() && llvm::all_of(llvm::zip(results, values), [](const auto &each) {
           const auto &[result, value] = each;
           return value.buffer && value.type == result.type;
         });
}

/// Of values of a step; nothing where it has no copies.
static std::optional<runtime::CopiesDigest> digestOfCopies(const HeldCode &code, llvm::ArrayRef<HostTensor> values) {
  if (!code.program || code.program->copies.empty()) {
    return std::nullopt;
  }
  runtime::CopiesHash hash;
  for (uint32_t index : code.program->copies) {
    hash.add(values[index].buffer->data(), values[index].type.bytes());
  }
  return hash.get();
}

llvm::Error PartsRun::finishPart(const sojourn_worker::Part &part, std::vector<HostTensor> values) {
  const runtime::Code &step = code.program ? *code.program->step : *code.proved->code->step;
  llvm::ArrayRef<runtime::ResultSpec> results = step.results();
  if (!areResultsOf(results, values)) {
    return requestError(wire::ErrorCode_Internal, "the plan returned results other than it declared");
  }
  Done done;
  done.copies = digestOfCopies(code, values);
  std::vector<std::pair<uint64_t, HeldValue>> fresh;
  Memory leaving;
  std::vector<uint64_t> numbers;
  fresh.reserve(results.size());
  leaving.reserve(results.size());
  numbers.reserve(results.size());
  for (size_t index = 0; index < results.size(); ++index) {
    if (results[index].kind == StepResult::Publish) {
      leaving.push_back(std::move(values[index].buffer));
      numbers.push_back(0);
      continue;
    }
    leaving.emplace_back();
    numbers.push_back(part.results()->Get(static_cast<flatbuffers::uoffset_t>(index)));
    // An argument that is kept as it came leaves the message that it lies in, and gets the memory of values.
    const bool isElsewhere = buffers->isShared() && values[index].buffer->size() >= runtime::kSharedBytes &&
                             values[index].buffer->descriptor() < 0;
    if (values[index].buffer->isBorrowed() || isElsewhere) {
      values[index].buffer = runtime::copyOf(values[index].buffer->data(), values[index].buffer->size(), *buffers);
      sojourn::wire::countCopied(values[index].buffer->size());
    }
    HeldValue value;
    value.tensor = std::move(values[index]);
    fresh.emplace_back(numbers.back(), std::move(value));
  }
  if (code.proved && code.proved->hasVaryingErrors) {
    auto numbers = [&](unsigned index) -> std::optional<std::vector<double>> {
      const HostTensor &tensor = bound.bindings[index].tensor;
      return code.proved->terms.publicArguments[index] && tensor.buffer
                 ? runtime::numbersOf(tensor.type.element, bytesOf(tensor))
                 : std::nullopt;
    };
    for (size_t index = 0; index < results.size(); ++index) {
      done.errors.push_back(worker->errorOf(*code.proved->code, index, numbers).value_or(std::nan("")));
    }
  }
  if (!fresh.empty() && !held->insertValues(std::move(fresh))) {
    return requestError(wire::ErrorCode_Internal, "the front of the owner names a new value by a number in use");
  }
  kept.insert(kept.end(), numbers.begin(), numbers.end());
  llvm::move(leaving, std::back_inserter(published));
  parts.push_back(std::move(done));
  for (flatbuffers::uoffset_t at = 0; part.drops() && at < part.drops()->size(); ++at) {
    held->drop(part.drops()->Get(at), {});
  }
  return llvm::Error::success();
}

/// What memory is short for is that part's failure: those before it stand.
llvm::Error PartsRun::goOnWithPart(const sojourn_worker::Part &part, const runtime::RunOptions &options) {
  const size_t done = parts.size(), results = kept.size(), values = published.size();
  try {
    if (!suspended) {
      return runPart(part, options);
    }
    auto outcome = std::exchange(suspended, nullptr)->resume(framesThatCame, optionsOf(part, options));
    if (!outcome) {
      return outcome.takeError();
    }
    suspended = std::move(outcome->waits);
    return suspended ? llvm::Error::success() : finishPart(part, std::move(outcome->values));
  } catch (const std::bad_alloc &) {
    parts.resize(done);
    kept.resize(results);
    published.resize(values);
    if (next == 0) {
      throw;
    }
    return requestError(wire::ErrorCode_Limit, "not enough memory for the step");
  }
}

void PartsRun::goOn(const runtime::RunOptions &options, const WorkerCall &given) {
  const size_t count = call->parts()->size();
  while (next < count && !failed_) {
    const auto *part = call->parts()->Get(static_cast<flatbuffers::uoffset_t>(next));
    if (next > 0 && !suspended) {
      const bool isLate = until && std::chrono::steady_clock::now() >= *until;
      if (isLate || runtime::isStopped() || (given.finish && given.finish->load(std::memory_order_relaxed))) {
        return;
      }
    }
    if (llvm::Error error = goOnWithPart(*part, options)) {
      failed_ = takeWorkerFailure(std::move(error));
      return;
    }
    if (suspended) {
      return;
    }
    ++next;
    if (given.progress) {
      given.progress->fetch_add(1);
    }
  }
}

} // namespace sojourn::owner
