// SPDX-License-Identifier: Apache-2.0
// The executable: an immutable plan; a run binds arguments, runs the instructions in order, hands out results.
#include "dialect/Signature.h"
#include "runtime/Denormals.h"
#include "runtime/Execute.h"
#include "runtime/Library.h"
#include "runtime/Limits.h"
#include "runtime/Lower.h"
#include "runtime/Profile.h"
#include "runtime/Stop.h"
#include "runtime/Team.h"
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

namespace sojourn::runtime {

namespace {

/// More threads than this are not asked for.
constexpr unsigned kThreadsMax = 64;

/// What a run changes, beside its arena and scratch memory. Kept by the plan between runs.
struct RunContext {
  std::vector<void *> slots;
  std::vector<std::shared_ptr<Buffer>> outputs;
  size_t current = 0; ///< the running instruction, for errors
};

struct Instruction {
  std::unique_ptr<Kernel> kernel;
  std::string name, op, location;
  size_t bytes = 0;
};

} // namespace

struct Executable::Impl {
  std::vector<ArgSpec> args;
  std::vector<ResultSpec> results;
  size_t sumOfValueBytes = 0, arenaBytes = 0, scratchBytes = 0, libraryBytes = 0, planBytes = 0;
  std::vector<LibraryCalls> calls;
  std::vector<Instruction> instructions;
  size_t slotCount = 0;
  /// Where slots get their pointers from: number of the argument or output, offset in the arena or
  /// in the constants.
  std::vector<std::pair<SlotId, uint32_t>> argumentSlots, outputSlots, constantSlots;
  std::vector<std::pair<SlotId, size_t>> arenaSlots;
  std::vector<size_t> outputBytes;
  std::vector<Lowering::ResultPlace> places;
  std::vector<uint32_t> outputOf; ///< per result: output number, where it is not an argument
  std::vector<char> constants;
  uint64_t number = 0; ///< of the plan in this process

  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<RunContext>> idle;

  void take(Lowering &lowering, const Graph &graph);
  size_t measure() const;
  std::vector<ProfiledInstruction> profiled() const;
  llvm::Error check(llvm::ArrayRef<Binding> bindings) const;
  std::unique_ptr<RunContext> takeContext() const;
  void giveContext(std::unique_ptr<RunContext> context) const;
  void place(RunContext &context, llvm::ArrayRef<Binding> bindings, std::byte *arena, BufferPool &buffers) const;
};

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::~Executable() = default;

llvm::ArrayRef<ArgSpec> Executable::args() const { return impl_->args; }
llvm::ArrayRef<ResultSpec> Executable::results() const { return impl_->results; }
RunMemory Executable::runMemory() const { return {impl_->arenaBytes, impl_->scratchBytes, impl_->libraryBytes}; }
llvm::ArrayRef<LibraryCalls> Executable::libraryCalls() const { return impl_->calls; }
size_t Executable::planBytes() const { return impl_->planBytes; }
size_t Executable::sumOfValueBytes() const { return impl_->sumOfValueBytes; }
size_t Executable::instructionCount() const { return impl_->instructions.size(); }

std::string Executable::describePlan() const {
  std::string text;
  for (auto [index, instruction] : llvm::enumerate(impl_->instructions)) {
    text += std::to_string(index) + " " + instruction.name + " in " + std::to_string(instruction.kernel->rows) +
            (instruction.kernel->rows == 1 ? " row" : " rows");
    if (!instruction.location.empty()) {
      text += " at " + instruction.location;
    }
    text += '\n';
  }
  return text;
}

// --- Planning -------------------------------------------------------------------------------------

llvm::Expected<std::unique_ptr<Executable>> Executable::create(mlir::ModuleOp coreModule) {
  static std::atomic<uint64_t> plans{0};
  llvm::Expected<Graph> graph = buildGraph(coreModule);
  if (!graph) {
    return graph.takeError();
  }
  auto impl = std::make_unique<Impl>();
  try {
    Lowering lowering(*graph);
    lowering.run();
    impl->take(lowering, *graph);
  } catch (const PlanFailure &failure) {
    bool known = failure.op < graph->ops.size();
    return makeError(failure.code, failure.message, known ? graph->ops[failure.op].name : "",
                     known ? graph->ops[failure.op].location : "");
  } catch (const std::bad_alloc &) {
    return makeError(ErrorCode::Limit, "not enough memory to plan the program");
  } catch (const Stopped &stopped) {
    return makeError(ErrorCode::Stopped, stopped.what());
  } catch (const std::exception &exception) {
    return makeError(ErrorCode::Internal, exception.what());
  }
  impl->number = ++plans;
  impl->sumOfValueBytes = graph->sumOfValueBytes;
  impl->args = std::move(graph->args);
  impl->results = std::move(graph->results);
  impl->planBytes = impl->measure();
  return std::unique_ptr<Executable>(new Executable(std::move(impl)));
}

void Executable::Impl::take(Lowering &lowering, const Graph &graph) {
  arenaBytes = lowering.arenaBytes;
  scratchBytes = lowering.scratchBytes;
  libraryBytes = lowering.libraryBytes;
  calls = std::move(lowering.calls);
  constants = std::move(lowering.constants);
  slotCount = lowering.slots.size();
  for (auto [index, slot] : llvm::enumerate(lowering.slots)) {
    SlotId id = static_cast<SlotId>(index);
    switch (slot.kind) {
    case SlotKind::argument: argumentSlots.emplace_back(id, slot.index); break;
    case SlotKind::output:
      outputSlots.emplace_back(id, slot.index);
      outputBytes.resize(std::max<size_t>(outputBytes.size(), slot.index + 1), 0);
      outputBytes[slot.index] = slot.bytes;
      break;
    case SlotKind::arena:
      if (slot.first != UINT32_MAX) {
        arenaSlots.emplace_back(id, slot.offset);
      }
      break;
    case SlotKind::constant: constantSlots.emplace_back(id, slot.index); break;
    }
  }
  places = std::move(lowering.results);
  for (const Lowering::ResultPlace &place : places) {
    outputOf.push_back(place.isArgument ? 0 : lowering.slots[place.index].index);
  }
  for (Node &node : lowering.nodes) {
    Instruction instruction;
    instruction.kernel = std::move(node.kernel);
    instruction.name = std::move(node.name);
    instruction.op = graph.ops[node.origin].name;
    instruction.location = graph.ops[node.origin].location;
    instruction.bytes = node.bytes;
    instructions.push_back(std::move(instruction));
  }
}

size_t Executable::Impl::measure() const {
  size_t context =
      sizeof(RunContext) + slotCount * sizeof(void *) + outputBytes.size() * sizeof(std::shared_ptr<Buffer>);
  size_t bytes =
      sizeof(Impl) + constants.capacity() + calls.capacity() * sizeof(LibraryCalls) + limits::kIdleContexts * context;
  bytes += slotCount * sizeof(std::pair<SlotId, size_t>);
  for (const Instruction &instruction : instructions) {
    bytes += sizeof(Instruction) + instruction.kernel->bytes() + instruction.name.capacity() +
             instruction.op.capacity() + instruction.location.capacity();
  }
  for (const ArgSpec &arg : args) {
    bytes += sizeof(ArgSpec) + arg.columns.size() * (sizeof(TableColumn) + limits::kNameBytes);
    for (const std::vector<Side> &part : arg.parts) {
      bytes += sizeof(part) + part.size() * sizeof(Side);
    }
  }
  for (const ResultSpec &result : results) {
    bytes += sizeof(ResultSpec) + result.op.capacity() + result.location.capacity() + sizeof(Lowering::ResultPlace) +
             sizeof(uint32_t) + sizeof(size_t);
  }
  return bytes;
}

std::vector<ProfiledInstruction> Executable::Impl::profiled() const {
  std::vector<ProfiledInstruction> result;
  for (const Instruction &instruction : instructions) {
    result.push_back({instruction.name, instruction.op, instruction.location, instruction.bytes});
  }
  return result;
}

// --- Running --------------------------------------------------------------------------------------

llvm::Error Executable::Impl::check(llvm::ArrayRef<Binding> bindings) const {
  if (bindings.size() != args.size()) {
    return makeError(ErrorCode::Malformed, "found " + std::to_string(bindings.size()) + " arguments, expected " +
                                               std::to_string(args.size()));
  }
  for (auto [index, spec] : llvm::enumerate(args)) {
    const Binding &binding = bindings[index];
    std::string name = "argument " + std::to_string(index);
    if (spec.kind == StepArg::Table) {
      if (binding.table == nullptr || (spec.rows && binding.table->rows() != *spec.rows)) {
        return makeError(ErrorCode::Malformed,
                         name + " is not a table" + (spec.rows ? " of " + std::to_string(*spec.rows) + " rows" : ""));
      }
      continue;
    }
    if (!binding.tensor.buffer || !(binding.tensor.type == spec.type) ||
        binding.tensor.buffer->size() < spec.type.bytes()) {
      return makeError(ErrorCode::Malformed, name + " does not have the type that the program declares");
    }
  }
  return llvm::Error::success();
}

std::unique_ptr<RunContext> Executable::Impl::takeContext() const {
  {
    std::lock_guard lock(mutex);
    if (!idle.empty()) {
      std::unique_ptr<RunContext> context = std::move(idle.back());
      idle.pop_back();
      return context;
    }
  }
  auto context = std::make_unique<RunContext>();
  context->slots.assign(slotCount, nullptr);
  for (auto [id, offset] : constantSlots) {
    context->slots[id] = const_cast<char *>(constants.data()) + offset;
  }
  context->outputs.resize(outputBytes.size());
  return context;
}

void Executable::Impl::giveContext(std::unique_ptr<RunContext> context) const {
  context->outputs.assign(context->outputs.size(), nullptr);
  std::lock_guard lock(mutex);
  if (idle.size() < limits::kIdleContexts) {
    idle.push_back(std::move(context));
  }
}

void Executable::Impl::place(RunContext &context, llvm::ArrayRef<Binding> bindings, std::byte *arena,
                             BufferPool &buffers) const {
  for (auto [id, index] : argumentSlots) {
    const Binding &binding = bindings[index];
    context.slots[id] =
        args[index].kind == StepArg::Table ? const_cast<RowSource *>(binding.table) : binding.tensor.buffer->data();
  }
  for (auto [id, offset] : arenaSlots) {
    context.slots[id] = arena + offset;
  }
  for (size_t number = 0; number < outputBytes.size(); ++number) {
    context.outputs[number] = buffers.allocate(outputBytes[number]);
  }
  for (auto [id, number] : outputSlots) {
    context.slots[id] = context.outputs[number]->data();
  }
}

namespace {

void runInstruction(const Kernel &kernel, SlotTable slots, unsigned threads) {
  checkStop();
  if (kernel.rows > 1) {
    runRows(kernel, slots, threads);
  } else if (kernel.rows == 1) {
    kernel.run(slots, 0, 1, 0);
  }
}

} // namespace

llvm::Expected<std::vector<HostTensor>> Executable::run(llvm::ArrayRef<Binding> bindings,
                                                        const RunOptions &options) const {
  const Impl &impl = *impl_;
  if (llvm::Error error = impl.check(bindings)) {
    return error;
  }
  struct Run {
    const Impl &impl;
    llvm::ArrayRef<Binding> bindings;
    const RunOptions &options;
    unsigned threads;
    std::unique_ptr<RunContext> context;
    Profile *profile;
    ArenaPool::Lease arena;
    std::vector<int64_t> times; ///< for the profile: before the first instruction and after each
  };
  unsigned threads = options.threads == 0 ? libraryThreads() : std::min(options.threads, kThreadsMax);
  Profile *profile = options.profile != nullptr ? options.profile : Profile::fromEnvironment();
  Run run{impl, bindings, options, threads, impl.takeContext(), profile, {}, {}};
  RunContext &context = *run.context;
  TeamLease team;
  context.current = impl.instructions.size();
  std::string message;
  bool done = guarded(
      message,
      [](void *pointer) {
        Run &run = *static_cast<Run *>(pointer);
        const Impl &impl = run.impl;
        RunContext &context = *run.context;
        ArenaPool &arenas = run.options.arenas != nullptr ? *run.options.arenas : ArenaPool::global();
        BufferPool &buffers = run.options.buffers != nullptr ? *run.options.buffers : BufferPool::global();
        size_t scratchAt = (impl.arenaBytes + kAlignment - 1) / kAlignment * kAlignment;
        run.arena = arenas.acquire(scratchAt + impl.scratchBytes * run.threads);
        std::byte *memory = run.arena.data();
        impl.place(context, run.bindings, memory, buffers);
        SlotTable slots(context.slots.data(), reinterpret_cast<char *>(memory + scratchAt), impl.scratchBytes);
        const StopScope stop(run.options.stop);
        const DenormalScope denormals(run.options.isPrivate || flushesDenormals()); // else as the caller has it
        if (run.profile == nullptr || run.options.isPrivate) {
          for (context.current = 0; context.current < impl.instructions.size(); ++context.current) {
            runInstruction(*impl.instructions[context.current].kernel, slots, run.threads);
          }
          return;
        }
        run.times.reserve(impl.instructions.size() + 1);
        run.times.push_back(Profile::now());
        for (context.current = 0; context.current < impl.instructions.size(); ++context.current) {
          runInstruction(*impl.instructions[context.current].kernel, slots, run.threads);
          run.times.push_back(Profile::now());
        }
      },
      &run);
  if (run.profile != nullptr) {
    run.profile->add(impl.number, run.times, [&] { return impl.profiled(); });
  }
  if (!done) {
    bool known = context.current < impl.instructions.size();
    const Instruction *failed = known ? &impl.instructions[context.current] : nullptr;
    impl.giveContext(std::move(run.context));
    const bool isStopped = options.stop != nullptr && options.stop->load();
    // A program within its price may meet a machine that is short of memory.
    const ErrorCode code = isStopped              ? ErrorCode::Stopped
                           : message == kNoMemory ? ErrorCode::Limit
                                                  : ErrorCode::Execution;
    return makeError(code, message, failed ? failed->op : "", failed ? failed->location : "");
  }
  std::vector<HostTensor> results(impl.results.size());
  for (size_t index = 0; index < results.size(); ++index) {
    results[index].type = impl.results[index].type;
    results[index].buffer = impl.places[index].isArgument ? bindings[impl.places[index].index].tensor.buffer
                                                          : context.outputs[impl.outputOf[index]];
  }
  impl.giveContext(std::move(run.context));
  return results;
}

void convertElements(Element from, const void *source, Element to, void *target, int64_t count) {
  if (from == to) {
    if (count > 0) {
      std::memcpy(target, source, static_cast<size_t>(count) * byteWidth(from));
    }
    return;
  }
  if (isComplex(from) || isComplex(to)) {
    return;
  }
  Conversion steps = conversion(from, to);
  if (steps.second == nullptr) {
    steps.first(target, source, nullptr, nullptr, count);
    return;
  }
  constexpr int64_t kPiece = 512;
  alignas(64) char piece[kPiece * 8];
  for (int64_t at = 0; at < count; at += kPiece) {
    int64_t n = std::min(kPiece, count - at);
    steps.first(piece, static_cast<const char *>(source) + static_cast<size_t>(at) * byteWidth(from), nullptr, nullptr,
                n);
    steps.second(static_cast<char *>(target) + static_cast<size_t>(at) * byteWidth(to), piece, nullptr, nullptr, n);
  }
}

} // namespace sojourn::runtime
