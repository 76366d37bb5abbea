// SPDX-License-Identifier: Apache-2.0
// The schedule: instructions in order, memory of operands and results, the plan as a whole.
#include "runtime/Lower.h"
#include "runtime/Buffer.h"
#include "runtime/Library.h"
#include "runtime/Limits.h"
#include "runtime/Stop.h"
#include "runtime/VectorKernels.h"
#include "llvm/ADT/StringSet.h"
#include <algorithm>
#include <utility>

namespace sojourn::runtime {

Lowering::Lowering(const Graph &graph)
    : graph_(graph), types_(graph.types.begin(), graph.types.end()), values_(graph.types.size()) {
  for (auto [index, arg] : llvm::enumerate(graph.args)) {
    ValueId value = static_cast<ValueId>(index);
    BaseId base = newBase(arg.type, -1);
    bases_[base].argument = static_cast<int32_t>(index);
    define(value, base);
  }
}

Lowering::~Lowering() = default;

void Lowering::libraryMemory(size_t bytes, int64_t calls) {
  const int64_t atOnce = std::min<int64_t>(calls, libraryThreads());
  libraryBytes = std::max(libraryBytes, bytes * static_cast<size_t>(std::max<int64_t>(atOnce, 1)));
}

void Lowering::libraryCalls(const GraphOp &op, int64_t count) {
  const auto index = static_cast<size_t>(&op - graph_.ops.data());
  if (index >= graph_.ops.size()) { // a copy of an op
    throw PlanFailure{ErrorCode::Internal, "calls of the library for no op of the program", current_};
  }
  calls.push_back({index, std::max<int64_t>(count, 1)});
}

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

Place Lowering::denseAs(ValueId value, Element element) {
  if (element == type(value).element) {
    return dense(value);
  }
  Place place{forceSlot(converted(value, element)), 0};
  pendingTouches_.push_back(place.slot);
  return place;
}

ValueId Lowering::permuted(ValueId value, llvm::ArrayRef<int64_t> perm) {
  ValueId result = static_cast<ValueId>(values_.size());
  TensorType &to = types_.emplace_back();
  to.element = type(value).element;
  ValueInfo &info = values_.emplace_back();
  // Elements that are made from their index have no memory to look at; once made, they are dense.
  bool cheap = bases_[values_[value].base].cheap != nullptr;
  info.base = cheap ? materialize(value) : values_[value].base;
  info.offset = cheap ? 0 : values_[value].offset;
  auto from = cheap ? denseStrides(type(value).dims) : values_[value].strides;
  for (int64_t dim : perm) {
    to.dims.push_back(type(value).dims[static_cast<size_t>(dim)]);
    info.strides.push_back(from[static_cast<size_t>(dim)]);
  }
  return result;
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

Place Lowering::fresh(BaseId base) {
  Slot slot;
  slot.bytes = bases_[base].bytes;
  bases_[base].slot = static_cast<SlotId>(slots.size());
  slots.push_back(slot);
  pendingTouches_.push_back(bases_[base].slot);
  pendingResults_.push_back(base);
  return {bases_[base].slot, 0};
}

Place Lowering::result(ValueId value) {
  BaseId base = newBase(type(value), 0); // the position is known at emit
  define(value, base);
  return fresh(base);
}

Place Lowering::resultAs(ValueId value, Element element) {
  if (element == type(value).element) {
    return result(value);
  }
  TensorType wide = type(value);
  wide.element = element;
  BaseId base = newBase(wide, 0);
  pendingNarrowed_.push_back({value, base});
  return fresh(base);
}

void Lowering::workerScratch(size_t bytes) { scratchBytes = std::max(scratchBytes, (bytes + 63) / 64 * 64); }

Place Lowering::scratch(size_t bytes) {
  Slot slot;
  slot.bytes = bytes;
  slots.push_back(slot);
  pendingTouches_.push_back(static_cast<SlotId>(slots.size() - 1));
  return {pendingTouches_.back(), 0};
}

Place Lowering::shared(const std::vector<int64_t> &key, size_t bytes, bool &isNew) {
  auto [entry, isFirst] = shared_.try_emplace(key, kNoSlot);
  isNew = isFirst;
  if (isFirst) {
    entry->second = scratch(bytes).slot;
  } else {
    pendingTouches_.push_back(entry->second);
  }
  return {entry->second, 0};
}

void Lowering::mayReuse(Place result, Place operand) {
  bool once = llvm::count(pendingTouches_, operand.slot) == 1;
  if (once && operand.bytes == 0) {
    pendingReuses_.push_back({result.slot, operand.slot});
  }
}

void Lowering::push(std::string name, std::unique_ptr<Kernel> kernel, size_t bytes) {
  uint32_t position = static_cast<uint32_t>(nodes.size());
  Node node;
  node.kernel = std::move(kernel);
  node.name = std::move(name);
  node.origin = current_;
  node.bytes = bytes;
  nodes.push_back(std::move(node));
  for (SlotId slot : pendingTouches_) {
    slots[slot].touch(position);
  }
}

void Lowering::emitPart(const GraphOp &op, std::unique_ptr<Kernel> kernel) {
  size_t bytes = 0;
  for (ValueId operand : op.operands) {
    bytes += type(operand).bytes();
  }
  push(op.name, std::move(kernel), bytes);
  pendingParts_ = true;
}

void Lowering::emitFor(const GraphOp &op, std::string name, std::unique_ptr<Kernel> kernel, size_t bytes) {
  push(op.name + ": " + name, std::move(kernel), bytes);
}

void Lowering::emit(const GraphOp &op, std::unique_ptr<Kernel> kernel) {
  size_t bytes = 0;
  for (ValueId operand : op.operands) {
    bytes += pendingParts_ ? 0 : type(operand).bytes();
  }
  for (ValueId result : op.results) {
    bytes += type(result).bytes();
  }
  push(op.name, std::move(kernel), bytes);
  uint32_t position = static_cast<uint32_t>(nodes.size() - 1);
  for (BaseId base : pendingResults_) {
    bases_[base].node = static_cast<int32_t>(position);
  }
  for (const Reuse &reuse : pendingReuses_) {
    reuses_.push_back({reuse, position});
  }
  auto narrowed = std::exchange(pendingNarrowed_, {});
  pendingTouches_.clear();
  pendingResults_.clear();
  pendingReuses_.clear();
  pendingParts_ = false;
  for (auto [value, wide] : narrowed) {
    unsigned node = chainFor(type(value).numel(), static_cast<int32_t>(position) + 1);
    slots[bases_[wide].slot].touch(node);
    define(value, convertInChain(node, {ChainOperand::Kind::value, wide, 0}, bases_[wide].element, type(value)));
  }
}

SlotId Lowering::tableSlot(ValueId value) { return forceSlot(values_[value].base); }

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

void Lowering::countUses() {
  for (ValueId value : graph_.resultValues) {
    ++uses_[value];
  }
  for (const GraphOp &op : graph_.ops) {
    bool isLive = llvm::any_of(op.results, [&](ValueId value) { return live_[value]; });
    for (ValueId operand : op.operands) {
      uses_[operand] += isLive ? 1 : 0;
    }
  }
}

void Lowering::findSquares() {
  llvm::DenseMap<ValueId, const GraphOp *> squares;
  for (const GraphOp &op : graph_.ops) {
    if (op.name == "mul" && op.operands[0] == op.operands[1] &&
        reduceRowsKernel(RowOp::squares, type(op.results[0]).element) != nullptr) {
      squares[op.results[0]] = &op;
    }
  }
  for (const GraphOp &op : graph_.ops) {
    if (op.name != "reduce_sum") {
      continue;
    }
    auto square = squares.find(op.operands[0]);
    if (square == squares.end() || uses_[op.operands[0]] != 1) {
      continue;
    }
    // Sums along the last dims, of enough elements; a few long ones are better cut.
    constexpr int64_t kElements = 16, kRows = 16, kLong = 16384;
    const std::vector<int64_t> &dims = op.ints("dims");
    const TensorType &from = type(op.operands[0]);
    int64_t kept = static_cast<int64_t>(from.rank() - dims.size()), count = 1;
    for (int64_t dim : dims) {
      count *= from.dims[static_cast<size_t>(dim)];
    }
    bool isFew = count > kLong && type(op.results[0]).numel() < kRows;
    if (count >= kElements && !isFew && llvm::all_of(dims, [&](int64_t dim) { return dim >= kept; })) {
      roots_[op.operands[0]] = square->second->operands[0];
    }
  }
}

void Lowering::findSums() {
  // What is a window, or made from its index, joins a chain: to be added it would have to be made first.
  static const llvm::StringSet<> windows = {"slice",   "reshape",  "transpose", "broadcast",
                                            "reverse", "constant", "iota"};
  llvm::DenseMap<ValueId, uint32_t> makers;
  for (auto [index, op] : llvm::enumerate(graph_.ops)) {
    for (ValueId result : op.results) {
      makers[result] = static_cast<uint32_t>(index);
    }
    if (op.name != "add" || !live_[op.results[0]]) {
      continue;
    }
    for (unsigned k : {1u, 0u}) {
      ValueId product = op.operands[k], addend = op.operands[1 - k];
      auto maker = makers.find(product), other = makers.find(addend);
      if (uses_[product] != 1 || maker == makers.end() || graph_.ops[maker->second].name != "dot") {
        continue;
      }
      // There before the product, so that nothing lives longer than it would.
      bool isThere =
          other == makers.end() || (other->second < maker->second && !windows.contains(graph_.ops[other->second].name));
      if (isThere && type(product) == type(addend) && addsInProduct(*this, graph_.ops[maker->second])) {
        sums_[product] = static_cast<uint32_t>(index);
        madeEarlier_.insert(op.results[0]);
        break;
      }
    }
  }
}

const GraphOp *Lowering::sumOf(const GraphOp &dot) const {
  auto entry = sums_.find(dot.results[0]);
  return entry == sums_.end() ? nullptr : &graph_.ops[entry->second];
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
  if (const GraphOp *sum = sumOf(op)) {
    return lowerProductSum(*this, op, *sum);
  }
  if (const GraphOp *pool = poolOf(op)) {
    return lowerPoolMaxGradient(*this, op, *pool);
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
  reuseInChains();
  std::vector<Reuse> reuses;
  for (const DatedReuse &dated : reuses_) {
    if (slots[dated.reuse.operand].last == dated.node) {
      reuses.push_back(dated.reuse);
    }
  }
  arenaBytes = planArena(slots, reuses);
  for (Node &node : nodes) {
    if (node.chain) {
      CompiledChain compiled = compileChain(*node.chain, *this);
      node.kernel = std::move(compiled.kernel);
      node.bytes = chainBytes(*node.chain);
      node.name = "chain of " + std::to_string(node.chain->steps.size()) + " over " +
                  std::to_string(node.chain->numel) +
                  (node.chain->row == 0 ? "" : ", rows of " + std::to_string(node.chain->row));
      workerScratch(compiled.scratchBytes);
      node.chain.reset();
    }
  }
}

void Lowering::run() {
  markLive();
  countUses();
  findSquares();
  findSums();
  findPools();
  auto skips = [&](const GraphOp &op) {
    return llvm::none_of(op.results, [&](ValueId value) { return live_[value]; }) || roots_.contains(op.results[0]) ||
           madeEarlier_.contains(op.results[0]);
  };
  // Single numbers that arguments alone give come first: a chain that asks for one then need not end before it.
  std::vector<bool> isLowered(graph_.ops.size());
  for (auto [index, op] : llvm::enumerate(graph_.ops)) {
    checkStop();
    if (isNumber(op) && !skips(op)) {
      current_ = static_cast<uint32_t>(index);
      lowerOp(op);
      isLowered[index] = true;
    }
  }
  for (auto [index, op] : llvm::enumerate(graph_.ops)) {
    checkStop();
    current_ = static_cast<uint32_t>(index);
    if (isLowered[index] || skips(op)) {
      continue;
    }
    // What is computed from arguments and single numbers joins the chain that first asks for it: they
    // stay, and its result need not.
    if (mayWait(op)) {
      waiting_[op.results[0]] = current_;
      continue;
    }
    bringInFor(op);
    lowerOp(op);
  }
  bringIn(graph_.resultValues, 0, 0);
  placeResults();
  finish();
  if (arenaBytes > static_cast<size_t>(limits::kArenaBytes)) {
    throw PlanFailure{ErrorCode::Limit, "the program needs an arena of " + std::to_string(arenaBytes) +
                                            " bytes, more than " + std::to_string(limits::kArenaBytes)};
  }
}

const llvm::StringMap<LowerFn> &kernelTable() {
  static const llvm::StringMap<LowerFn> table = {
#define SOJOURN_KERNEL_implemented(name) {#name, kernels::lower_##name},
#define SOJOURN_KERNEL_planned(name)
#define SOJOURN_CORE_OP(name, tier, status, note) SOJOURN_KERNEL_##status(name)
#include "dialect/CoreOps.def"
      {"first_rows", kernels::lower_first_rows},
  };
  return table;
}

} // namespace sojourn::runtime
