// SPDX-License-Identifier: Apache-2.0
// Maximum poolings whose positions only their own gradients read.
#include "runtime/Lower.h"
#include "llvm/ADT/STLExtras.h"

namespace sojourn::runtime {

namespace {

using Makers = llvm::DenseMap<ValueId, uint32_t>;

/// The op that makes a value, behind ops of this name; null where it is an argument.
const GraphOp *makerBehind(const Graph &graph, const Makers &makers, ValueId value, llvm::StringRef name,
                           llvm::function_ref<bool(ValueId)> accepts) {
  for (auto maker = makers.find(value); maker != makers.end() && accepts(value); maker = makers.find(value)) {
    const GraphOp &op = graph.ops[maker->second];
    if (op.name != name) {
      return &op;
    }
    value = op.operands[0];
  }
  return nullptr;
}

} // namespace

void Lowering::findPools() {
  Makers makers;
  for (auto [index, op] : llvm::enumerate(graph_.ops)) {
    if (op.name == "pool_max" || op.name == "reshape" || op.name == "broadcast" || op.name == "constant") {
      makers[op.results[0]] = static_cast<uint32_t>(index);
    }
    if (op.name == "pool_max") {
      makers[op.results[1]] = static_cast<uint32_t>(index);
      if (live_[op.results[0]] && !live_[op.results[1]] && codesPositions(*this, op)) {
        coded_.insert(op.results[1]);
      }
    }
    if (op.name != "put_along" || !live_[op.results[0]] || op.string("kind") != "add") {
      continue;
    }
    // put_along(zeros, positions, gradient) over planes laid flat.
    auto isAny = [](ValueId) { return true; };
    auto isOnce = [&](ValueId value) { return uses_.lookup(value) == 1; };
    const GraphOp *zeros = makerBehind(graph_, makers, op.operands[0], "broadcast", isAny);
    const GraphOp *pool = makerBehind(graph_, makers, op.operands[1], "reshape", isOnce);
    if (zeros == nullptr || zeros->name != "constant" || zeros->scalar("value") != Scalar{} || pool == nullptr ||
        pool->name != "pool_max" || !codesPositions(*this, *pool)) {
      continue;
    }
    const TensorType &to = type(op.results[0]), &x = type(pool->operands[0]);
    int64_t planes = x.dims[0] * x.dims[1];
    if (to.element == x.element && to.rank() == 2 && op.integer("dim") == 1 && to.dims[0] == planes &&
        type(op.operands[1]).dims[0] == planes && to.numel() == x.numel()) {
      pools_[op.results[0]] = makers[pool->results[0]];
      coded_.insert(pool->results[1]);
    }
  }
}

const GraphOp *Lowering::poolOf(const GraphOp &op) const {
  auto entry = pools_.find(op.results[0]);
  return entry == pools_.end() ? nullptr : &graph_.ops[entry->second];
}

} // namespace sojourn::runtime
