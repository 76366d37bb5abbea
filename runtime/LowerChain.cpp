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

/// Whether the value is a number of each row, spread along a chain's rows: the chain that makes them may do that.
bool Lowering::isSpread(ValueId value, int64_t numel) const {
  const ValueInfo &info = values_[value];
  const Base &base = bases_[info.base];
  const Chain *chain = base.node < 0 ? nullptr : nodes[static_cast<size_t>(base.node)].chain.get();
  if (chain == nullptr || chain->row == 0 || chain->numel != numel || base.numel * chain->row != numel ||
      info.offset != 0 || spreadRowsKernel(type(value).element) == nullptr) {
    return false;
  }
  llvm::ArrayRef<int64_t> dims = type(value).dims, strides = info.strides;
  int64_t row = 1;
  while (row < chain->row && !dims.empty() && (dims.back() == 1 || strides.back() == 0)) {
    row *= dims.back();
    dims = dims.drop_back();
    strides = strides.drop_back();
  }
  return row == chain->row && isDense(dims, strides);
}

int32_t Lowering::earliest(ValueId value, int64_t numel) const {
  const Base &base = bases_[values_[value].base];
  if (base.cheap || base.node < 0) {
    return 0;
  }
  // Over the same elements, and rows, a chain may read what it has just computed; any other access needs
  // all of it, so the producer comes strictly before.
  bool sameElements = isWhole(value) && base.numel == numel;
  return sameElements || isSpread(value, numel) ? base.node : base.node + 1;
}

/// `row`: the chain's rows must be of that length, or become so; 0 for any.
unsigned Lowering::chainFor(int64_t numel, int32_t earliest, int64_t row) {
  auto withRows = [&](uint32_t node) {
    if (Chain &chain = *nodes[node].chain; chain.row != row && row != 0) {
      chain.row = row;
      std::vector<uint32_t> &others = chainsBySize_[numel / row];
      others.insert(llvm::upper_bound(others, node), node);
    }
    return node;
  };
  std::vector<uint32_t> &candidates = chainsBySize_[numel];
  size_t tried = 0;
  for (auto node = candidates.rbegin(); node != candidates.rend() && tried < kChainsTried; ++node, ++tried) {
    if (static_cast<int32_t>(*node) < earliest) {
      break;
    }
    const Chain &chain = *nodes[*node].chain;
    bool fits = row == 0 || (chain.numel == numel && (chain.row == 0 || chain.row == row));
    if (fits && chain.steps.size() < kStepsPerChain) {
      return withRows(*node);
    }
  }
  Node node;
  node.chain = std::make_unique<Chain>();
  node.chain->numel = numel;
  node.origin = current_;
  node.name = "chain";
  nodes.push_back(std::move(node));
  candidates.push_back(static_cast<uint32_t>(nodes.size() - 1));
  return withRows(candidates.back());
}

/// The result of a step that brings a value into a chain, once per chain.
BaseId Lowering::loadInChain(unsigned node, ValueId value, ChainStep step) {
  Chain &chain = *nodes[node].chain;
  auto [entry, isNew] = chain.loads.try_emplace(value, kNoBase);
  if (isNew) {
    step.in = step.out = type(value).element;
    step.origin = current_;
    step.result = entry->second = newBase(type(value), static_cast<int32_t>(node));
    chain.steps.push_back(std::move(step));
  }
  return entry->second;
}

/// For a step over `numel` elements; a single number may be an operand of any.
ChainOperand Lowering::chainOperand(unsigned node, ValueId value, int64_t numel) {
  const ValueInfo info = values_[value];
  const Element element = type(value).element;
  ChainOperand operand;
  operand.base = info.base;
  operand.perRow = numel != nodes[node].chain->numel;
  if (bases_[info.base].cheap) {
    ChainStep step;
    step.block = bases_[info.base].cheap;
    step.perRow = operand.perRow;
    operand.kind = ChainOperand::Kind::value;
    operand.base = loadInChain(node, value, std::move(step));
    return operand;
  }
  const bool isOfChain = bases_[info.base].node == static_cast<int32_t>(node);
  if (isWhole(value) && bases_[info.base].numel == numel) {
    operand.kind = ChainOperand::Kind::value;
    if (!isOfChain) {
      slots[forceSlot(info.base)].touch(node);
    }
    return operand;
  }
  if (isOfChain && isSpread(value, numel)) {
    ChainStep step;
    step.rows = spreadRowsKernel(element);
    step.operands[0] = {ChainOperand::Kind::value, info.base, 0, /*perRow=*/true};
    operand.kind = ChainOperand::Kind::value;
    operand.base = loadInChain(node, value, std::move(step));
    return operand;
  }
  slots[forceSlot(info.base)].touch(node);
  operand.bytes = info.offset * static_cast<int64_t>(byteWidth(element));
  if (isSplat(value)) {
    operand.kind = ChainOperand::Kind::splat;
    return operand;
  }
  operand.kind = ChainOperand::Kind::memory;
  if (isDense(type(value).dims, info.strides)) {
    return operand;
  }
  // A window that is not one line is copied block by block into the chain.
  StridedView view;
  view.element = element;
  view.dims = type(value).dims;
  view.strides = info.strides;
  ChainStep step;
  step.operands[0] = operand;
  step.operands[0].kind = ChainOperand::Kind::splat; // the window's start, whatever the block
  step.block = makeStridedLoad(view);
  step.perRow = operand.perRow;
  operand.kind = ChainOperand::Kind::value;
  operand.bytes = 0;
  operand.base = loadInChain(node, value, std::move(step));
  return operand;
}

BaseId Lowering::materialize(ValueId value) {
  auto known = materialized_.find(value);
  if (known != materialized_.end()) {
    return known->second;
  }
  int64_t numel = type(value).numel();
  unsigned node = chainFor(numel, earliest(value, numel));
  ChainOperand operand = chainOperand(node, value, numel);
  BaseId base;
  if (operand.kind == ChainOperand::Kind::value && operand.base != values_[value].base) {
    base = operand.base; // the load itself
  } else {
    ChainStep step;
    step.op = EOp::copy;
    step.in = step.out = type(value).element;
    step.operands[0] = operand;
    step.perRow = operand.perRow;
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
  step.perRow = operand.perRow;
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
    entry->second = convertInChain(node, chainOperand(node, value, wide.numel()), type(value).element, wide);
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
  step.perRow = numel != nodes[node].chain->numel;
  step.origin = current_;
  for (auto [k, operand] : llvm::enumerate(op.operands)) {
    step.operands[k] = chainOperand(node, operand, numel);
  }
  BaseId base = step.result = newBase(type(result), static_cast<int32_t>(node));
  nodes[node].chain->steps.push_back(std::move(step));
  define(result, base);
}

static bool isElementwise(const GraphOp &op) {
  static const llvm::StringSet<> ops = {
#define SOJOURN_ELEMENTWISE(name, op, arity, kernel, library, libm) #op,
#include "runtime/Elementwise.def"
      "bitcast", "special_binary"};
  return ops.contains(op.name);
}

/// Whether the op makes a single number of what is there, or was made so, before all else.
bool Lowering::isNumber(const GraphOp &op) const {
  auto isThere = [&](ValueId value) {
    return value < graph_.args.size() ? type(value).numel() == 1 : values_[value].base != kNoBase;
  };
  return (op.name == "constant" || isElementwise(op)) && type(op.results[0]).numel() == 1 &&
         llvm::all_of(op.operands, isThere);
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

std::optional<Lowering::Rest> Lowering::reduceRows(const GraphOp &op, RowOp kind, ValueId operand) {
  // Shorter ones cost more than a pass over memory; of longer ones a block would leave the cache.
  constexpr int64_t kRowLeast = 2, kRowMost = 16384;
  const TensorType from = type(operand); // a copy: types move
  Rest rest{op.results[0], op.ints("dims")};
  llvm::sort(rest.dims);
  int64_t row = 1;
  size_t kept = from.rank();
  while (kept > 0 && !rest.dims.empty() && rest.dims.back() == static_cast<int64_t>(kept) - 1 &&
         row * from.dims[kept - 1] <= kRowMost) {
    row *= from.dims[--kept];
    rest.dims.pop_back();
  }
  RowsFn rows = reduceRowsKernel(kind, from.element);
  if (rows == nullptr || from.numel() == 0 || row < kRowLeast) {
    return std::nullopt;
  }
  // A window whose rows are not together in memory is better walked in its own order.
  const ValueInfo &info = values_[operand];
  for (size_t d = from.rank(); d-- > kept;) {
    if (from.dims[d] != 1) {
      if (info.strides[d] != 1 && info.strides[d] != 0) {
        return std::nullopt;
      }
      break;
    }
  }
  unsigned node = chainFor(from.numel(), std::max(chainFloor_, earliest(operand, from.numel())), row);
  ChainStep step;
  step.in = step.out = from.element;
  step.rows = rows;
  step.perRow = true;
  step.origin = current_;
  step.operands[0] = chainOperand(node, operand, from.numel());
  if (step.operands[0].kind == ChainOperand::Kind::splat) {
    ChainStep copy;
    copy.op = EOp::copy;
    copy.operands[0] = step.operands[0];
    step.operands[0] = {ChainOperand::Kind::value, loadInChain(node, operand, std::move(copy)), 0, false};
  }
  TensorType result = from;
  result.dims.truncate(kept);
  step.result = newBase(result, static_cast<int32_t>(node));
  if (!rest.dims.empty()) {
    rest.value = static_cast<ValueId>(values_.size());
    types_.push_back(result);
    values_.emplace_back();
  }
  define(rest.value, step.result);
  nodes[node].chain->steps.push_back(std::move(step));
  return rest;
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
  step.perRow = numel != nodes[node].chain->numel;
  step.origin = current_;
  if (seed != kNoValue) {
    const ValueInfo &info = values_[seed];
    slots[forceSlot(info.base)].touch(node);
    step.operands[0] = {ChainOperand::Kind::splat, info.base, info.offset * 8, step.perRow};
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
        if (operand.kind != ChainOperand::Kind::value || operand.perRow != step.perRow ||
            bases_[operand.base].slot == kNoSlot) {
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
  auto elements = [&](bool perRow) { return static_cast<size_t>(perRow ? chain.numel / chain.row : chain.numel); };
  for (const ChainStep &step : chain.steps) {
    for (const ChainOperand &operand : step.operands) {
      if (operand.kind != ChainOperand::Kind::none) {
        // A window's start is given as a splat, but the step walks the window.
        bool one = operand.kind == ChainOperand::Kind::splat && !step.block;
        count(operand.base, one ? 1 : elements(operand.perRow), bases_[operand.base].element);
      }
    }
    count(step.result, elements(step.perRow), step.out);
  }
  return bytes;
}

} // namespace sojourn::runtime
