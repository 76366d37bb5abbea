// SPDX-License-Identifier: Apache-2.0
// The executable: binds arguments, runs the instructions in order, hands out results.
#include "runtime/Execute.h"
#include "runtime/Library.h"
#include "runtime/Limits.h"
#include "runtime/Lower.h"
#include <algorithm>
#include <cstring>

namespace sojourn::runtime {

RowSource::~RowSource() = default;

struct Executable::Impl {
  BufferPool *pool = nullptr;
  std::vector<ArgSpec> args;
  std::vector<ResultSpec> results;
  size_t sumOfValueBytes = 0;
  size_t arenaBytes = 0;

  struct Instruction {
    std::unique_ptr<Kernel> kernel;
    std::string name, op, location;
  };
  LibraryTensors library;
  std::vector<Instruction> instructions;
  std::vector<void *> slots;
  /// Slots whose memory differs from run to run.
  std::vector<std::pair<SlotId, uint32_t>> argumentSlots, outputSlots;
  std::vector<size_t> outputBytes;
  std::vector<Lowering::ResultPlace> places;
  std::vector<uint32_t> outputOf; ///< per result: output number, where it is not an argument
  std::vector<char> constants;
  std::unique_ptr<Arena> arena;
  std::shared_ptr<Buffer> scratch;
  unsigned workers = 1;
  std::vector<std::shared_ptr<Buffer>> outputs;
  size_t current = 0; ///< the running instruction, for errors

  llvm::Error bind(llvm::ArrayRef<Binding> bindings);
};

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::~Executable() = default;

llvm::ArrayRef<ArgSpec> Executable::args() const { return impl_->args; }
llvm::ArrayRef<ResultSpec> Executable::results() const { return impl_->results; }
size_t Executable::arenaBytes() const { return impl_->arenaBytes; }
size_t Executable::sumOfValueBytes() const { return impl_->sumOfValueBytes; }
size_t Executable::instructionCount() const { return impl_->instructions.size(); }

std::string Executable::describePlan() const {
  std::string text;
  for (auto [index, instruction] : llvm::enumerate(impl_->instructions)) {
    text += std::to_string(index) + " " + instruction.name;
    if (!instruction.location.empty()) {
      text += " at " + instruction.location;
    }
    text += '\n';
  }
  return text;
}

llvm::Expected<std::unique_ptr<Executable>> Executable::create(mlir::ModuleOp coreModule, ExecutableOptions options) {
  llvm::Expected<Graph> graph = buildGraph(coreModule);
  if (!graph) {
    return graph.takeError();
  }
  auto impl = std::make_unique<Impl>();
  impl->pool = options.pool != nullptr ? options.pool : &BufferPool::global();
  impl->workers = libraryThreads();
  try {
    withoutAutograd([&] {
      Lowering lowering(*graph, impl->library, impl->workers);
      lowering.run();

      impl->arenaBytes = lowering.arenaBytes;
      impl->arena = std::make_unique<Arena>(lowering.arenaBytes);
      impl->constants = std::move(lowering.constants);
      impl->scratch = impl->pool->allocate(lowering.chainScratchBytes * impl->workers);
      impl->slots.assign(lowering.slots.size(), nullptr);
      size_t outputs = 0;
      for (auto [index, slot] : llvm::enumerate(lowering.slots)) {
        SlotId id = static_cast<SlotId>(index);
        switch (slot.kind) {
        case SlotKind::argument: impl->argumentSlots.emplace_back(id, slot.index); continue;
        case SlotKind::output:
          impl->outputSlots.emplace_back(id, slot.index);
          outputs = std::max<size_t>(outputs, slot.index + 1);
          continue;
        case SlotKind::arena:
          impl->slots[index] = slot.first == UINT32_MAX ? nullptr : impl->arena->data() + slot.offset;
          break;
        case SlotKind::constant:
          impl->slots[index] =
              id == lowering.chainScratch ? impl->scratch->data() : impl->constants.data() + slot.index;
          break;
        }
        impl->library.bind(id, impl->slots[index]);
      }
      impl->outputs.resize(outputs);
      impl->outputBytes.assign(outputs, 0);
      for (auto [id, number] : impl->outputSlots) {
        impl->outputBytes[number] = lowering.slots[id].bytes;
      }
      impl->places = lowering.results;
      for (const Lowering::ResultPlace &place : impl->places) {
        impl->outputOf.push_back(place.isArgument ? 0 : lowering.slots[place.index].index);
      }
      for (Node &node : lowering.nodes) {
        Impl::Instruction instruction;
        instruction.kernel = std::move(node.kernel);
        instruction.name = node.name;
        instruction.op = graph->ops[node.origin].name;
        instruction.location = graph->ops[node.origin].location;
        impl->instructions.push_back(std::move(instruction));
      }
    });
  } catch (const PlanFailure &failure) {
    bool known = failure.op < graph->ops.size();
    return makeError(failure.code, failure.message, known ? graph->ops[failure.op].name : "",
                     known ? graph->ops[failure.op].location : "");
  } catch (const std::bad_alloc &) {
    return makeError(ErrorCode::Limit, "not enough memory for the program's arena");
  } catch (const std::exception &exception) {
    return makeError(ErrorCode::Internal, exception.what());
  }
  impl->sumOfValueBytes = graph->sumOfValueBytes;
  impl->args = std::move(graph->args);
  impl->results = std::move(graph->results);
  return std::unique_ptr<Executable>(new Executable(std::move(impl)));
}

llvm::Error Executable::Impl::bind(llvm::ArrayRef<Binding> bindings) {
  if (bindings.size() != args.size()) {
    return makeError(ErrorCode::Malformed, "found " + std::to_string(bindings.size()) + " arguments, expected " +
                                               std::to_string(args.size()));
  }
  for (auto [index, spec] : llvm::enumerate(args)) {
    const Binding &binding = bindings[index];
    std::string name = "argument " + std::to_string(index);
    if (spec.kind == ArgKind::table) {
      if (binding.table == nullptr || binding.table->rows() != spec.rows) {
        return makeError(ErrorCode::Malformed, name + " is not a table of " + std::to_string(spec.rows) + " rows");
      }
      continue;
    }
    if (!binding.tensor.buffer || !(binding.tensor.type == spec.type) ||
        binding.tensor.buffer->size() < spec.type.bytes()) {
      return makeError(ErrorCode::Malformed, name + " does not have the type that the program declares");
    }
  }
  for (auto [id, index] : argumentSlots) {
    const Binding &binding = bindings[index];
    slots[id] =
        args[index].kind == ArgKind::table ? const_cast<RowSource *>(binding.table) : binding.tensor.buffer->data();
    library.bind(id, slots[id]);
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<HostTensor>> Executable::run(llvm::ArrayRef<Binding> bindings) {
  Impl &impl = *impl_;
  if (llvm::Error error = impl.bind(bindings)) {
    return error;
  }
  impl.current = impl.instructions.size();
  std::string message;
  bool done = guarded(
      message,
      [](void *context) {
        Impl &impl = *static_cast<Impl *>(context);
        for (size_t number = 0; number < impl.outputs.size(); ++number) {
          impl.outputs[number] = impl.pool->allocate(impl.outputBytes[number]);
        }
        for (auto [id, number] : impl.outputSlots) {
          impl.slots[id] = impl.outputs[number]->data();
          impl.library.bind(id, impl.slots[id]);
        }
        SlotTable slots = impl.slots.data();
        for (impl.current = 0; impl.current < impl.instructions.size(); ++impl.current) {
          Kernel &kernel = *impl.instructions[impl.current].kernel;
          if (kernel.rows > 1) {
            runRows(kernel, slots, impl.workers);
          } else if (kernel.rows == 1) {
            kernel.run(slots, 0, 1, 0);
          }
        }
      },
      &impl);
  if (!done) {
    impl.outputs.assign(impl.outputs.size(), nullptr);
    bool known = impl.current < impl.instructions.size();
    return makeError(ErrorCode::Execution, message, known ? impl.instructions[impl.current].op : "",
                     known ? impl.instructions[impl.current].location : "");
  }
  std::vector<HostTensor> results(impl.results.size());
  for (size_t index = 0; index < results.size(); ++index) {
    results[index].type = impl.results[index].type;
    results[index].buffer = impl.places[index].isArgument ? bindings[impl.places[index].index].tensor.buffer
                                                          : impl.outputs[impl.outputOf[index]];
  }
  impl.outputs.assign(impl.outputs.size(), nullptr);
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

std::vector<std::string> executableOps() {
  std::vector<std::string> names;
  for (const auto &entry : kernelTable()) {
    names.push_back(entry.getKey().str());
  }
  std::sort(names.begin(), names.end());
  return names;
}

} // namespace sojourn::runtime
