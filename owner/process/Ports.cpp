// SPDX-License-Identifier: Apache-2.0
// Calls to worker processes (see Ports.h).
#include "owner/process/Ports.h"

#include "runtime/wire/Worker_generated.h"

#include "llvm/ADT/STLExtras.h"

namespace sojourn::owner {

namespace calls = sojourn_worker;
using flatbuffers::FlatBufferBuilder;
using llvm::Twine;

namespace {

/// Programs whose processes wait for their proofs.
constexpr size_t kKeptPrograms = 4;
/// Idle time after which a process gives back memory that it keeps for its next step.
constexpr std::chrono::seconds kTrimAfter{10};

std::string answerBytes(calls::AnswerBody kind, FlatBufferBuilder &builder, flatbuffers::Offset<void> body) {
  builder.Finish(calls::CreateAnswer(builder, kind, body));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
}

/// Of every call to drop something.
const std::string &droppedAnswer() {
  static const std::string bytes = [] {
    FlatBufferBuilder builder;
    auto body = calls::CreateDropped(builder).Union();
    return answerBytes(calls::AnswerBody_Dropped, builder, body);
  }();
  return bytes;
}

WorkerAnswer failure(llvm::Error error, bool isUnknown = false) {
  const RequestError found = takeRequestError(std::move(error));
  FlatBufferBuilder builder(256);
  auto text = builder.CreateString(found.message);
  auto body = calls::CreateFailure(builder, static_cast<uint8_t>(found.code), text, 0, 0, isUnknown).Union();
  auto kept = std::make_shared<std::string>(answerBytes(calls::AnswerBody_Failure, builder, body));
  return {kept, *kept, {}};
}

/// The front's own bytes.
const calls::Call &callOf(std::string_view bytes) { return *flatbuffers::GetRoot<calls::Call>(bytes.data()); }

} // namespace

// --- Sessions -------------------------------------------------------------------------------------------

SessionPort::~SessionPort() { house->forget(*this); }

llvm::Expected<uint64_t> SessionPort::begin(const runtime::StopFlag *stop, const Patience &patience) {
  std::unique_lock lock(mutex);
  isBusy = true;
  if (process && process->isAlive()) {
    return life;
  }
  process.reset();
  auto taken = house->take(*this, stop, /*isForProof=*/false, patience);
  if (!taken) {
    isBusy = false;
    return taken.takeError();
  }
  process = std::move(*taken);
  return ++life;
}

void SessionPort::rest() noexcept {
  {
    std::lock_guard lock(mutex);
    isBusy = isTrimmed = false;
    rested = std::chrono::steady_clock::now();
  }
  house->used(*this);
}

void SessionPort::end() noexcept {
  std::lock_guard lock(mutex);
  process.reset();
}

WorkerAnswer SessionPort::call(const WorkerCall &given) {
  std::lock_guard lock(mutex);
  const calls::CallBody kind = callOf(given.bytes).body_type();
  const bool isHere = process && !process->isOver();
  if (kind == calls::CallBody_Drop) {
    if (isHere) {
      process->notice(given.bytes);
    }
    return {{}, droppedAnswer(), {}};
  }
  if (!isHere) {
    return failure(requestError(wire::ErrorCode_Execution,
                                "the process of the session has ended; its next step runs in a new process"));
  }
  auto answer = process->call(given, kind == calls::CallBody_Adopt);
  return answer ? std::move(*answer) : failure(answer.takeError());
}

void SessionPort::map(uint64_t table, std::shared_ptr<const Dataset> rows) {
  std::lock_guard lock(mutex);
  if (process && !process->isOver()) {
    if (llvm::Error error = process->map(table, rows.get())) {
      llvm::consumeError(std::move(error));
      process.reset(); // the call that needs the table fails
    }
  }
}

void SessionPort::unmap(uint64_t table) { map(table, nullptr); }

std::shared_ptr<runtime::Buffer> SessionPort::taken(std::shared_ptr<runtime::Buffer> value, size_t size) {
  return ownCopy(value, size);
}

std::shared_ptr<runtime::Buffer> SessionPort::room(size_t size) {
  std::lock_guard lock(mutex);
  return process && !process->isOver() ? process->room(size) : WorkerPort::room(size);
}

std::unique_ptr<WorkerProcess> SessionPort::tidy(std::chrono::steady_clock::time_point now) noexcept {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock || isBusy || !process) {
    return nullptr;
  }
  const bool isLong = now - rested > kTrimAfter && !isTrimmed;
  isTrimmed = isTrimmed || isLong;
  return process->flush(isLong, [] { return false; }) ? nullptr : std::move(process);
}

std::unique_ptr<WorkerProcess> SessionPort::giveUp() noexcept {
  std::unique_lock lock(mutex, std::try_to_lock);
  return lock && !isBusy ? std::move(process) : nullptr;
}

pid_t SessionPort::pid() const {
  std::lock_guard lock(mutex);
  return process ? process->pid() : 0;
}

// --- Programs -------------------------------------------------------------------------------------------

ProgramPort::~ProgramPort() { house->forget(*this); }

std::unique_ptr<WorkerProcess> ProgramPort::find(uint64_t program) {
  std::lock_guard lock(mutex);
  for (auto each = kept.begin(); each != kept.end(); ++each) {
    if (each->program == program) {
      auto process = std::move(each->process);
      kept.erase(each);
      return process;
    }
  }
  return nullptr;
}

void ProgramPort::keep(uint64_t program, std::unique_ptr<WorkerProcess> process) {
  std::list<Kept> gone; // end without the lock
  if (process->isOver()) {
    return;
  }
  {
    std::lock_guard lock(mutex);
    kept.push_front({program, std::move(process)});
    if (kept.size() > kKeptPrograms) {
      gone.splice(gone.begin(), kept, std::prev(kept.end()));
    }
  }
}

std::unique_ptr<WorkerProcess> ProgramPort::giveUp() noexcept {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock || kept.empty()) {
    return nullptr;
  }
  auto process = std::move(kept.back().process);
  kept.pop_back();
  return process;
}

WorkerAnswer ProgramPort::call(const WorkerCall &given) {
  const calls::Call &call = callOf(given.bytes);
  std::unique_ptr<WorkerProcess> process;
  uint64_t program = 0;
  switch (call.body_type()) {
  case calls::CallBody_Drop: {
    const auto *codes = call.body_as_Drop()->codes();
    for (flatbuffers::uoffset_t at = 0; codes && at < codes->size(); ++at) {
      find(codes->Get(at)); // and it ends
    }
    return {{}, droppedAnswer(), {}};
  }
  case calls::CallBody_Describe: {
    program = call.body_as_Describe()->code();
    auto taken = house->take(*this, given.stop, /*isForProof=*/true, given.patience);
    if (!taken) {
      return failure(taken.takeError());
    }
    process = std::move(*taken);
    break;
  }
  case calls::CallBody_Prove:
    program = call.body_as_Prove()->program();
    process = find(program);
    if (!process) {
      return failure(requestError(wire::ErrorCode_Internal, "unknown program"), /*isUnknown=*/true);
    }
    break;
  default: return failure(requestError(wire::ErrorCode_Internal, "a call of a session to the worker that proves"));
  }
  auto answer = process->call(given);
  if (!answer) {
    return failure(answer.takeError());
  }
  if (call.body_type() == calls::CallBody_Prove) { // no session runs it here
    FlatBufferBuilder builder(64);
    const uint64_t code = call.body_as_Prove()->code();
    auto body = calls::CreateDrop(builder, 0, builder.CreateVector(&code, 1)).Union();
    builder.Finish(calls::CreateCall(builder, calls::CallBody_Drop, body));
    process->notice({reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()});
  }
  keep(program, std::move(process));
  return std::move(*answer);
}

namespace {
class NoWorker final : public WorkerPort {
public:
  WorkerAnswer call(const WorkerCall &) override {
    return failure(requestError(wire::ErrorCode_Internal, "this owner runs no steps"));
  }
  void map(uint64_t, std::shared_ptr<const Dataset>) override {}
  void unmap(uint64_t) override {}
  unsigned threads() const override { return 1; }
};
} // namespace

WorkerFactory noWorkers() {
  return [] { return std::make_unique<NoWorker>(); };
}

WorkerFactory processWorkers(std::shared_ptr<WorkerProcesses> house) {
  return [house = std::move(house)] { return std::make_unique<ProgramPort>(house); };
}

} // namespace sojourn::owner
