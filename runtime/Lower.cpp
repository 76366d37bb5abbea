// SPDX-License-Identifier: Apache-2.0
// The schedule: where each op runs, and which memory it reads in place.
#include "runtime/Lower.h"
#include "runtime/Buffer.h"
#include "runtime/Limits.h"
#include <algorithm>
#include <cstring>

namespace sojourn::runtime {

namespace {
constexpr size_t kStepsPerChain = 128;
/// How many chains of one size are looked at for a place.
constexpr size_t kChainsTried = 4;
} // namespace

Lowering::Lowering(const Graph &graph, LibraryTensors &library, unsigned workers)
    : graph_(graph), library_(library), workers_(workers), values_(graph.types.size()) {
  chainScratch = 0;
  slots.emplace_back(); // scratch of chains: its own memory, sized at the end
  slots[0].kind = SlotKind::constant;
  for (auto [index, arg] : llvm::enumerate(graph.args)) {
    ValueId value = static_cast<ValueId>(index);
    BaseId base = newBase(arg.type, -1);
    bases_[base].argument = static_cast<int32_t>(index);
    define(value, base);
  }
}

Lowering::~Lowering() = default;

void Lowering::fail(const std::string &what) { throw PlanFailure{ErrorCode::Unsupported, what, current_}; }

BaseId Lowering::newBase(const TensorType &type, int32_t node) {
  Base base;
  base.node = node;
  base.numel = type.numel();
  base.bytes = type.bytes();
  base.element = type.element;
  bases_.push_back(base);
  return static_cast<BaseId>(bases_.size() - 1);
}

void Lowering::define(ValueId value, BaseId base) {
  values_[value].base = base;
  values_[value].offset = 0;
  values_[value].strides = denseStrides(type(value).dims);
}

SlotId Lowering::forceSlot(BaseId id) {
  Base &base = bases_[id];
  if (base.slot == kNoSlot) {
    Slot slot;
    slot.bytes = base.bytes;
    if (base.argument >= 0) {
      slot.kind = SlotKind::argument;
      slot.index = static_cast<uint32_t>(base.argument);
    } else {
      slot.kind = SlotKind::arena;
      slot.touch(static_cast<uint32_t>(base.node));
    }
    base.slot = static_cast<SlotId>(slots.size());
    slots.push_back(slot);
  }
  return base.slot;
}

// --- How a value is read --------------------------------------------------------------------------

bool Lowering::isSplat(ValueId value) const {
  const ValueInfo &info = values_[value];
  const TensorType &valueType = type(value);
  for (auto [dim, stride] : llvm::zip(valueType.dims, info.strides)) {
    if (dim != 1 && stride != 0) {
      return false;
    }
  }
  return true;
}

bool Lowering::isWhole(ValueId value) const {
  const ValueInfo &info = values_[value];
  return info.offset == 0 && bases_[info.base].numel == type(value).numel() && isDense(type(value).dims, info.strides);
}

bool Lowering::isLoad(ValueId value, int64_t numel) const {
  return !isSplat(value) && !isDense(type(value).dims, values_[value].strides);
}

int32_t Lowering::earliest(ValueId value, int64_t numel) const {
  const Base &base = bases_[values_[value].base];
  if (base.cheap || base.node < 0) {
    return 0;
  }
  // Over the same elements a chain may read what it has just computed; any other access needs all
  // of it, so the producer comes strictly before.
  bool sameElements = isWhole(value) && base.numel == numel;
  return sameElements ? base.node : base.node + 1;
}

unsigned Lowering::chainFor(int64_t numel, int32_t earliest) {
  std::vector<uint32_t> &candidates = chainsBySize_[numel];
  size_t tried = 0;
  for (auto node = candidates.rbegin(); node != candidates.rend() && tried < kChainsTried; ++node, ++tried) {
    if (static_cast<int32_t>(*node) < earliest) {
      break;
    }
    if (nodes[*node].chain->steps.size() < kStepsPerChain) {
      return *node;
    }
  }
  Node node;
  node.chain = std::make_unique<Chain>();
  node.chain->numel = numel;
  node.origin = current_;
  node.name = "chain";
  nodes.push_back(std::move(node));
  candidates.push_back(static_cast<uint32_t>(nodes.size() - 1));
  return candidates.back();
}

ChainOperand Lowering::chainOperand(unsigned node, ValueId value) {
  const ValueInfo info = values_[value];
  Chain &chain = *nodes[node].chain;
  int64_t width = static_cast<int64_t>(byteWidth(type(value).element));
  ChainOperand operand;
  operand.base = info.base;
  if (bases_[info.base].cheap) {
    auto [entry, isNew] = chain.loads.try_emplace(value, kNoBase);
    if (isNew) {
      ChainStep step;
      step.in = step.out = type(value).element;
      step.block = bases_[info.base].cheap;
      step.origin = current_;
      step.result = newBase(type(value), static_cast<int32_t>(node));
      entry->second = step.result;
      chain.steps.push_back(std::move(step));
    }
    operand.kind = ChainOperand::Kind::value;
    operand.base = entry->second;
    return operand;
  }
  if (isWhole(value) && bases_[info.base].numel == chain.numel) {
    operand.kind = ChainOperand::Kind::value;
    if (bases_[info.base].node != static_cast<int32_t>(node)) {
      slots[forceSlot(info.base)].touch(node);
    }
    return operand;
  }
  slots[forceSlot(info.base)].touch(node);
  operand.bytes = info.offset * width;
  if (isSplat(value)) {
    operand.kind = ChainOperand::Kind::splat;
    return operand;
  }
  operand.kind = ChainOperand::Kind::memory;
  if (isDense(type(value).dims, info.strides)) {
    return operand;
  }
  // A window that is not one line is copied block by block into the chain, once per chain.
  auto [entry, isNew] = chain.loads.try_emplace(value, kNoBase);
  if (isNew) {
    StridedView view;
    view.element = type(value).element;
    view.dims = type(value).dims;
    view.strides = info.strides;
    ChainStep step;
    step.in = step.out = view.element;
    step.operands[0] = operand;
    step.operands[0].kind = ChainOperand::Kind::splat; // the window's start, whatever the block
    step.block = makeStridedLoad(view);
    step.origin = current_;
    step.result = newBase(type(value), static_cast<int32_t>(node));
    entry->second = step.result;
    chain.steps.push_back(std::move(step));
  }
  operand = ChainOperand();
  operand.kind = ChainOperand::Kind::value;
  operand.base = entry->second;
  return operand;
}

BaseId Lowering::materialize(ValueId value) {
  auto known = materialized_.find(value);
  if (known != materialized_.end()) {
    return known->second;
  }
  int64_t numel = type(value).numel();
  unsigned node = chainFor(numel, earliest(value, numel));
  ChainOperand operand = chainOperand(node, value);
  BaseId base;
  if (operand.kind == ChainOperand::Kind::value && operand.base != values_[value].base) {
    base = operand.base; // the load itself
  } else {
    ChainStep step;
    step.op = EOp::copy;
    step.in = step.out = type(value).element;
    step.operands[0] = operand;
    step.origin = current_;
    base = step.result = newBase(type(value), static_cast<int32_t>(node));
    nodes[node].chain->steps.push_back(std::move(step));
  }
  materialized_[value] = base;
  return base;
}

// --- For kernels ----------------------------------------------------------------------------------

Place Lowering::dense(ValueId value) {
  const ValueInfo &info = values_[value];
  BaseId base = info.base;
  int64_t bytes = info.offset * static_cast<int64_t>(byteWidth(type(value).element));
  if (bases_[base].cheap || !isDense(type(value).dims, info.strides)) {
    base = materialize(value);
    bytes = 0;
  }
  Place place{forceSlot(base), bytes};
  pendingTouches_.push_back(place.slot);
  return place;
}

StridedView Lowering::window(ValueId value) {
  StridedView view;
  view.element = type(value).element;
  view.dims = type(value).dims;
  if (bases_[values_[value].base].cheap) {
    view.slot = dense(value).slot;
    view.strides = denseStrides(view.dims);
    return view;
  }
  view.slot = forceSlot(values_[value].base);
  view.offset = values_[value].offset;
  view.strides = values_[value].strides;
  pendingTouches_.push_back(view.slot);
  return view;
}

Place Lowering::result(ValueId value) {
  BaseId base = newBase(type(value), 0); // the position is known at emit
  define(value, base);
  Slot slot;
  slot.bytes = bases_[base].bytes;
  bases_[base].slot = static_cast<SlotId>(slots.size());
  slots.push_back(slot);
  pendingTouches_.push_back(bases_[base].slot);
  pendingResults_.push_back(base);
  return {bases_[base].slot, 0};
}

Place Lowering::scratch(size_t bytes) {
  Slot slot;
  slot.bytes = bytes;
  slots.push_back(slot);
  pendingTouches_.push_back(static_cast<SlotId>(slots.size() - 1));
  return {pendingTouches_.back(), 0};
}

void Lowering::mayReuse(Place result, Place operand) {
  bool once = llvm::count(pendingTouches_, operand.slot) == 1;
  if (once && operand.bytes == 0) {
    pendingReuses_.push_back({result.slot, operand.slot});
  }
}

void Lowering::emit(const GraphOp &op, std::unique_ptr<Kernel> kernel) {
  uint32_t position = static_cast<uint32_t>(nodes.size());
  Node node;
  node.kernel = std::move(kernel);
  node.name = op.name;
  node.origin = current_;
  nodes.push_back(std::move(node));
  for (SlotId slot : pendingTouches_) {
    slots[slot].touch(position);
  }
  for (BaseId base : pendingResults_) {
    bases_[base].node = static_cast<int32_t>(position);
  }
  for (const Reuse &reuse : pendingReuses_) {
    reuses_.push_back({reuse, position});
  }
  pendingTouches_.clear();
  pendingResults_.clear();
  pendingReuses_.clear();
}

SlotId Lowering::tableSlot(ValueId value) { return forceSlot(values_[value].base); }

void Lowering::elementwise(const GraphOp &op, EOp kind) {
  ValueId result = op.results[0];
  int64_t numel = type(result).numel();
  int32_t position = 0;
  for (ValueId operand : op.operands) {
    position = std::max(position, earliest(operand, numel));
  }
  unsigned node = chainFor(numel, position);
  ChainStep step;
  step.op = kind;
  step.in = type(op.operands[kind == EOp::select ? 1 : 0]).element;
  step.out = type(result).element;
  step.origin = current_;
  for (auto [k, operand] : llvm::enumerate(op.operands)) {
    step.operands[k] = chainOperand(node, operand);
  }
  BaseId base = step.result = newBase(type(result), static_cast<int32_t>(node));
  nodes[node].chain->steps.push_back(std::move(step));
  define(result, base);
}

void Lowering::generate(const GraphOp &op, std::shared_ptr<BlockStep> block, ValueId seed, bool cheap) {
  ValueId result = op.results[0];
  if (cheap) {
    BaseId base = newBase(type(result), -1);
    bases_[base].cheap = std::move(block);
    define(result, base);
    return;
  }
  int64_t numel = type(result).numel();
  // A seed is read as a splat: everything it depends on comes before.
  int32_t position = seed == kNoValue ? 0 : std::max(0, bases_[values_[seed].base].node + 1);
  unsigned node = chainFor(numel, position);
  ChainStep step;
  step.in = step.out = type(result).element;
  step.block = std::move(block);
  step.origin = current_;
  if (seed != kNoValue) {
    const ValueInfo &info = values_[seed];
    slots[forceSlot(info.base)].touch(node);
    step.operands[0] = {ChainOperand::Kind::splat, info.base, info.offset * 8};
  }
  BaseId base = step.result = newBase(type(result), static_cast<int32_t>(node));
  nodes[node].chain->steps.push_back(std::move(step));
  define(result, base);
}

void Lowering::constant(const GraphOp &op) {
  ValueId result = op.results[0];
  BaseId base = newBase(type(result), -1);
  Slot slot;
  slot.kind = SlotKind::constant;
  slot.bytes = bases_[base].bytes;
  slot.index = static_cast<uint32_t>(constants.size());
  const Scalar &scalar = op.scalar("value");
  constants.insert(constants.end(), scalar.begin(), scalar.end());
  bases_[base].slot = static_cast<SlotId>(slots.size());
  bases_[base].isConstant = true;
  slots.push_back(slot);
  define(result, base);
}

void Lowering::alias(ValueId result, ValueId operand, int64_t offset, llvm::ArrayRef<int64_t> strides) {
  // Elements that are made from their index have no memory to look at; once made, they are dense.
  BaseId base = bases_[values_[operand].base].cheap ? materialize(operand) : values_[operand].base;
  values_[result].base = base;
  values_[result].offset = offset;
  values_[result].strides.assign(strides.begin(), strides.end());
}

void Lowering::reshape(const GraphOp &op) {
  ValueId operand = op.operands[0], result = op.results[0];
  llvm::SmallVector<int64_t, 4> strides;
  if (reshapeStrides(type(operand).dims, values_[operand].strides, type(result).dims, strides)) {
    alias(result, operand, values_[operand].offset, strides);
    return;
  }
  define(result, materialize(operand));
}

// --- The whole ------------------------------------------------------------------------------------

void Lowering::markLive() {
  live_.assign(graph_.types.size(), false);
  for (ValueId value : graph_.resultValues) {
    live_[value] = true;
  }
  for (const GraphOp &op : llvm::reverse(graph_.ops)) {
    if (llvm::any_of(op.results, [&](ValueId value) { return live_[value]; })) {
      for (ValueId operand : op.operands) {
        live_[operand] = true;
      }
    }
  }
}

void Lowering::lowerOp(const GraphOp &op) {
  auto entry = kernelTable().find(op.name);
  if (entry == kernelTable().end()) {
    fail("op '" + op.name + "' is not executed by this owner");
  }
  if (llvm::all_of(op.results, [&](ValueId value) { return type(value).numel() == 0; })) {
    // Nothing to compute, whatever the sizes of the dims that are not empty: a kernel would walk over them.
    for (ValueId value : op.results) {
      result(value);
    }
    return emit(op, makeKernel([](SlotTable, int64_t, int64_t) {}));
  }
  entry->second(*this, op);
}

void Lowering::placeResults() {
  llvm::DenseMap<BaseId, SlotId> outputs;
  for (ValueId value : graph_.resultValues) {
    const ValueInfo &info = values_[value];
    BaseId base = info.base;
    bool whole = isWhole(value) && !bases_[base].cheap && !bases_[base].isConstant;
    if (whole && bases_[base].argument >= 0) {
      results.push_back({true, static_cast<uint32_t>(bases_[base].argument)});
      continue;
    }
    if (!whole) {
      base = materialize(value);
    }
    SlotId slot = forceSlot(base);
    slots[slot].kind = SlotKind::output;
    results.push_back({false, slot});
  }
  uint32_t number = 0;
  for (Slot &slot : slots) {
    if (slot.kind == SlotKind::output) {
      slot.index = number++;
    }
  }
}

void Lowering::finish() {
  // A slot that dies in a chain may become the slot of a step's result, if the chain reads it
  // element by element and no later than that step.
  for (auto [position, node] : llvm::enumerate(nodes)) {
    if (!node.chain) {
      continue;
    }
    struct Use {
      size_t lastStep = 0;
      bool direct = true;
    };
    llvm::DenseMap<SlotId, Use> uses;
    for (auto [index, step] : llvm::enumerate(node.chain->steps)) {
      for (const ChainOperand &operand : step.operands) {
        if (operand.kind == ChainOperand::Kind::none || bases_[operand.base].slot == kNoSlot) {
          continue;
        }
        Use &use = uses[bases_[operand.base].slot];
        use.lastStep = index;
        use.direct &= operand.kind == ChainOperand::Kind::value;
      }
    }
    for (auto [index, step] : llvm::enumerate(node.chain->steps)) {
      SlotId result = bases_[step.result].slot;
      if (result == kNoSlot) {
        continue;
      }
      for (const ChainOperand &operand : step.operands) {
        if (operand.kind != ChainOperand::Kind::value || bases_[operand.base].slot == kNoSlot) {
          continue;
        }
        SlotId source = bases_[operand.base].slot;
        const Use &use = uses[source];
        if (use.direct && use.lastStep == index && slots[source].last == position) {
          reuses_.push_back({{result, source}, static_cast<uint32_t>(position)});
        }
      }
    }
  }
  std::vector<Reuse> reuses;
  for (const DatedReuse &dated : reuses_) {
    if (slots[dated.reuse.operand].last == dated.node) {
      reuses.push_back(dated.reuse);
    }
  }
  arenaBytes = planArena(slots, reuses);
  for (Node &node : nodes) {
    if (node.chain) {
      CompiledChain compiled = compileChain(*node.chain, *this, chainScratch, workers_);
      node.kernel = std::move(compiled.kernel);
      node.name = "chain of " + std::to_string(node.chain->steps.size()) + " over " + std::to_string(node.chain->numel);
      chainScratchBytes = std::max(chainScratchBytes, compiled.scratchBytes);
      node.chain.reset();
    }
  }
}

void Lowering::run() {
  markLive();
  for (auto [index, op] : llvm::enumerate(graph_.ops)) {
    current_ = static_cast<uint32_t>(index);
    if (llvm::any_of(op.results, [&](ValueId value) { return live_[value]; })) {
      lowerOp(op);
    }
  }
  placeResults();
  finish();
  if (arenaBytes > static_cast<size_t>(limits::kArenaBytes)) {
    throw PlanFailure{ErrorCode::Limit, "the program needs an arena of " + std::to_string(arenaBytes) +
                                            " bytes, more than " + std::to_string(limits::kArenaBytes)};
  }
}

const llvm::StringMap<LowerFn> &kernelTable() {
  static const llvm::StringMap<LowerFn> table = [] {
    llvm::StringMap<LowerFn> entries;
    addElementwiseKernels(entries);
    addLayoutKernels(entries);
    addIndexKernels(entries);
    addRandomKernels(entries);
    addScanKernels(entries);
    addPoolKernels(entries);
    addReduceKernels(entries);
    addContractKernels(entries);
    return entries;
  }();
  return table;
}

} // namespace sojourn::runtime
