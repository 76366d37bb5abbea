// SPDX-License-Identifier: Apache-2.0
// Where elementwise steps run: which chain an op joins, and how a chain reads its operands.
#include "runtime/Lower.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"
#include <algorithm>

namespace sojourn::runtime {

namespace {
constexpr size_t kStepsPerChain = 128;
/// How many chains of one size are looked at for a place.
constexpr size_t kChainsTried = 4;
} // namespace

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

BaseId Lowering::convertInChain(unsigned node, ChainOperand operand, Element from, const TensorType &to) {
  ChainStep step;
  step.op = EOp::convert;
  step.in = from;
  step.out = to.element;
  step.operands[0] = operand;
  step.origin = current_;
  BaseId base = step.result = newBase(to, static_cast<int32_t>(node));
  nodes[node].chain->steps.push_back(std::move(step));
  return base;
}

BaseId Lowering::converted(ValueId value, Element element) {
  auto [entry, isNew] = converted_.try_emplace({value, static_cast<unsigned>(element)}, kNoBase);
  if (isNew) {
    TensorType wide = type(value);
    wide.element = element;
    unsigned node = chainFor(wide.numel(), earliest(value, wide.numel()));
    entry->second = convertInChain(node, chainOperand(node, value), type(value).element, wide);
  }
  return entry->second;
}

// --- Ops ------------------------------------------------------------------------------------------

void Lowering::elementwise(const GraphOp &op, EOp kind) {
  ValueId result = op.results[0];
  int64_t numel = type(result).numel();
  int32_t position = chainFloor_;
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

static bool isElementwise(const GraphOp &op) {
  static const llvm::StringSet<> ops = {
#define SOJOURN_ELEMENTWISE(name, op, arity, kernel, library, libm) #op,
#include "runtime/Elementwise.def"
      "bitcast"};
  return ops.contains(op.name);
}

bool Lowering::mayWait(const GraphOp &op) const {
  /// Smaller ones cost too little to look at.
  constexpr int64_t kElements = 4096;
  return isElementwise(op) && type(op.results[0]).numel() >= kElements && llvm::all_of(op.operands, [&](ValueId value) {
           return waiting_.contains(value) || type(value).numel() == 1 || bases_[values_[value].base].node < 0;
         });
}

void Lowering::bringInFor(const GraphOp &op) {
  if (waiting_.empty()) {
    return;
  }
  // Where a chain asks, not before what else it needs: so they share one.
  int32_t floor = 0;
  int64_t numel = isElementwise(op) ? type(op.results[0]).numel() : 0;
  for (ValueId operand : op.operands) {
    if (numel != 0 && !waiting_.contains(operand)) {
      floor = std::max(floor, earliest(operand, numel));
    }
  }
  llvm::SmallVector<ValueId> values(op.operands.begin(), op.operands.end());
  if (const GraphOp *sum = sumOf(op)) {
    values.append(sum->operands.begin(), sum->operands.end());
  }
  for (ValueId operand : op.operands) {
    if (rootOf(operand) != kNoValue) {
      values.push_back(rootOf(operand));
    }
  }
  bringIn(values, floor, numel);
}

void Lowering::bringIn(llvm::ArrayRef<ValueId> values, int32_t floor, int64_t numel) {
  std::vector<uint32_t> wanted;
  std::vector<ValueId> todo(values.begin(), values.end());
  while (!todo.empty()) {
    auto entry = waiting_.find(todo.back());
    todo.pop_back();
    if (entry != waiting_.end()) {
      wanted.push_back(entry->second);
      const GraphOp &op = graph_.ops[entry->second];
      waiting_.erase(entry);
      todo.insert(todo.end(), op.operands.begin(), op.operands.end());
    }
  }
  llvm::sort(wanted);
  for (uint32_t index : wanted) {
    const GraphOp &op = graph_.ops[index];
    uint32_t current = std::exchange(current_, index);
    chainFloor_ = type(op.results[0]).numel() == numel ? floor : 0;
    lowerOp(op);
    chainFloor_ = 0;
    current_ = current;
  }
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

// --- At the end -----------------------------------------------------------------------------------

void Lowering::reuseInChains() {
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
}

size_t Lowering::chainBytes(const Chain &chain) const {
  size_t bytes = 0;
  llvm::DenseSet<BaseId> counted;
  auto count = [&](BaseId base, size_t elements, Element element) {
    if (slotOf(base) != kNoSlot && counted.insert(base).second) {
      bytes += elements * byteWidth(element);
    }
  };
  size_t numel = static_cast<size_t>(chain.numel);
  for (const ChainStep &step : chain.steps) {
    for (const ChainOperand &operand : step.operands) {
      if (operand.kind != ChainOperand::Kind::none) {
        // A window's start is given as a splat, but the step walks the window.
        bool one = operand.kind == ChainOperand::Kind::splat && !step.block;
        count(operand.base, one ? 1 : numel, bases_[operand.base].element);
      }
    }
    count(step.result, numel, step.out);
  }
  return bytes;
}

} // namespace sojourn::runtime
