// SPDX-License-Identifier: Apache-2.0
// The price of a program (see Price.h), and sojourn-price, which prints it.
#include "passes/Price.h"

#include "dialect/ContractionOps.h"
#include "dialect/CoreForm.h"
#include "dialect/LayoutOps.h"
#include "dialect/OwnerOps.h"
#include "passes/Passes.h"

#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace sojourn {
#define GEN_PASS_DEF_PRICE
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;

namespace {

/// What a plan keeps whatever it holds, and per op, result, operand and column beside the attributes: instructions,
/// slots and names.
constexpr uint64_t kBytesPerPlan = 4096, kBytesPerOp = 2048, kBytesPerValue = 256, kBytesPerOperand = 32,
                   kBytesPerColumn = 1024, kBytesPerConvolution = 4096;
/// Values start at multiples of this many bytes.
constexpr uint64_t kAlignment = 64;

/// A right side laid out: as f32, with columns rounded up by two thirds at most.
constexpr uint64_t kLayoutsPerByte = 4;

uint64_t aligned(uint64_t bytes) {
  uint64_t rounded = cost::sum({bytes, kAlignment - 1});
  return rounded == UINT64_MAX ? rounded : rounded / kAlignment * kAlignment;
}

uint64_t attributeBytes(Attribute attribute) {
  if (auto list = dyn_cast<DenseI64ArrayAttr>(attribute)) {
    return cost::times({8, static_cast<uint64_t>(list.size())});
  }
  if (auto text = dyn_cast<StringAttr>(attribute)) {
    return cost::sum({32, text.size()});
  }
  uint64_t total = 16;
  if (auto array = dyn_cast<ArrayAttr>(attribute)) {
    for (Attribute element : array) {
      auto text = dyn_cast<StringAttr>(element);
      total = cost::sum({total, 32, text ? text.size() : 0});
    }
  }
  return total;
}

/// Ops whose result is a window on their operand or cheap to make anew: a runtime may keep the operand instead of, or
/// as well as, the result.
bool isWindow(Operation *op) { return isa<SliceOp, ReshapeOp, TransposeOp, BroadcastOp, ReverseOp>(op); }

/// Walks the ops in order with the bytes of the values that live at each.
class Walk {
public:
  explicit Walk(func::FuncOp step) : step(step) {
    findLastUses();
    findShared();
  }

  /// Adds the op's price; `visit` sees the totals after each op and ends the walk by returning true.
  template <typename Visit>
  void run(Visit visit) {
    price.planBytes = cost::sum(
        {kBytesPerPlan, cost::times({kBytesPerValue, cost::sum({step.getNumArguments(), step.getNumResults()})})});
    for (Type type : step.getArgumentTypes()) {
      if (auto table = dyn_cast<TableType>(type)) {
        price.planBytes = cost::sum({price.planBytes, cost::times({kBytesPerColumn, table.getNames().size()})});
      }
    }
    for (Operation &op : step.getBody().front()) {
      if (op.hasTrait<OpTrait::IsTerminator>()) {
        break;
      }
      add(op);
      ++position;
      if (visit(op, price)) {
        return;
      }
    }
  }

  Price price;

private:
  /// Bytes that are of no use after each op, by its position; windows prolong what they look at.
  void findLastUses() {
    Block &block = step.getBody().front();
    uint32_t count = static_cast<uint32_t>(block.getOperations().size()), at = count;
    for (Operation &op : llvm::reverse(block)) {
      uint32_t last = --at;
      if (isWindow(&op)) {
        for (Value result : op.getResults()) {
          last = std::max(last, lastUse.lookup(result));
        }
      }
      for (Value operand : op.getOperands()) {
        uint32_t &known = lastUse[operand];
        known = std::max(known, last);
      }
    }
    dying.resize(count);
    for (auto [value, last] : lastUse) {
      if (value.getDefiningOp()) {
        dying[last] = cost::sum({dying[last], aligned(cost::bytes(value))});
      }
    }
  }

  /// Right sides that several products take alike: a runtime may lay them out once and keep that for as long.
  void findShared() {
    DenseMap<std::pair<Value, std::pair<Attribute, Attribute>>, unsigned> products;
    for (auto dot : step.getOps<DotOp>()) {
      if (++products[{dot.getB(), {dot.getRhsBatchAttr(), dot.getRhsContractAttr()}}] == 2) {
        shared[dot.getB()] += kLayoutsPerByte;
      }
    }
  }

  void add(Operation &op) {
    for (Value operand : op.getOperands()) {
      if (auto entry = shared.find(operand); entry != shared.end() && isa<DotOp>(op)) {
        const uint64_t kept = cost::times({entry->second, aligned(cost::bytes(operand))});
        live = cost::sum({live, kept});
        dying[lastUse[operand]] = cost::sum({dying[lastUse[operand]], kept});
        shared.erase(entry);
      }
    }
    uint64_t scratch = 0;
    if (auto priced = dyn_cast<PricedOp>(&op)) {
      price.operations = cost::sum({price.operations, priced.getOperations()});
      scratch = priced.getScratchBytes();
    }
    const bool isConvolution = isa<ConvOp, ConvGradInputOp, ConvGradWeightOp>(op);
    price.planBytes = cost::sum({price.planBytes, kBytesPerOp, isConvolution ? kBytesPerConvolution : 0,
                                 cost::times({kBytesPerValue, op.getNumResults()}),
                                 cost::times({kBytesPerOperand, op.getNumOperands()})});
    // One by one: a dictionary of them all would be made and kept in the context.
    auto addAttribute = [&](Attribute attribute) {
      price.planBytes = cost::sum({price.planBytes, attribute ? attributeBytes(attribute) : 0});
    };
    for (StringAttr name : op.getName().getAttributeNames()) {
      addAttribute(op.getInherentAttr(name).value_or(Attribute()));
    }
    for (NamedAttribute attribute : op.getDiscardableAttrs()) {
      addAttribute(attribute.getValue());
    }
    for (Value result : op.getResults()) {
      live = cost::sum({live, aligned(cost::bytes(result))});
    }
    // A window operand may have to be copied into a dense one for this op alone.
    for (Value operand : op.getOperands()) {
      if (Operation *source = operand.getDefiningOp(); source && isWindow(source) && !isWindow(&op)) {
        scratch = cost::sum({scratch, aligned(cost::bytes(operand))});
      }
    }
    if (isa<AcrossSumOp>(op)) {
      for (Value result : op.getResults()) {
        price.exchangedBytes = cost::sum({price.exchangedBytes, cost::times({2, cost::bytes(result)})});
      }
    }
    price.scratchBytes = std::max(price.scratchBytes, scratch);
    price.arenaBytes = std::max(price.arenaBytes, cost::sum({live, scratch}));
    // Nothing is given back from a sum that has saturated: it would look small again.
    if (live == UINT64_MAX) {
      return;
    }
    live -= dying[position];
    for (Value result : op.getResults()) {
      live -= result.use_empty() ? aligned(cost::bytes(result)) : 0;
    }
  }

  func::FuncOp step;
  uint64_t live = 0;
  size_t position = 0;
  DenseMap<Value, uint32_t> lastUse; ///< by position
  std::vector<uint64_t> dying;
  DenseMap<Value, uint64_t> shared; ///< times their bytes
};

func::FuncOp stepOf(ModuleOp module) {
  auto step = module.lookupSymbol<func::FuncOp>(kStepName);
  return step && !step.isExternal() ? step : func::FuncOp();
}

} // namespace

Price sojourn::priceOf(ModuleOp core) {
  func::FuncOp step = stepOf(core);
  if (!step) {
    return {};
  }
  Walk walk(step);
  walk.run([](Operation &, const Price &) { return false; });
  return walk.price;
}

std::optional<PriceExcess> sojourn::findExcess(ModuleOp core, const PriceLimits &limits) {
  func::FuncOp step = stepOf(core);
  if (!step) {
    return std::nullopt;
  }
  std::optional<PriceExcess> excess;
  Walk(step).run([&](Operation &op, const Price &price) {
    auto exceeds = [&](const char *what, uint64_t found, uint64_t allowed) {
      if (found > allowed && !excess) {
        bool most = found == UINT64_MAX;
        excess = PriceExcess{&op, ("brings the program to " + Twine(most ? "2^64 or more" : Twine(found)) + " " + what +
                                   ", expected at most " + Twine(allowed) + "; make the step or its tensors smaller")
                                      .str()};
      }
    };
    exceeds("operations", price.operations, limits.operations);
    exceeds("bytes of arena", price.arenaBytes, limits.arenaBytes);
    exceeds("bytes of scratch in one op", price.scratchBytes, limits.scratchBytes);
    exceeds("bytes of plan", price.planBytes, limits.planBytes);
    exceeds("bytes exchanged with other owners", price.exchangedBytes, limits.exchangedBytes);
    return excess.has_value();
  });
  return excess;
}

namespace {
struct PricePass : sojourn::impl::PriceBase<PricePass> {
  void runOnOperation() override {
    func::FuncOp step = stepOf(getOperation());
    if (!step) {
      getOperation().emitError() << "has no function @" << kStepName << " with a body";
      return signalPassFailure();
    }
    for (Operation &op : step.getBody().front()) {
      if (auto priced = dyn_cast<PricedOp>(&op)) {
        op.emitRemark() << priced.getOperations() << " operations, " << priced.getScratchBytes() << " bytes of scratch";
      }
    }
    Price price = priceOf(getOperation());
    step.emitRemark() << "price: " << price.operations << " operations, " << price.arenaBytes << " bytes of arena, "
                      << price.scratchBytes << " bytes of scratch, " << price.planBytes << " bytes of plan";
  }
};
} // namespace
