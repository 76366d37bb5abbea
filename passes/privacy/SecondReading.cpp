// SPDX-License-Identifier: Apache-2.0
// The comparison (see SecondReading.h).
#include "passes/privacy/SecondReading.h"

#include "dialect/CoreForm.h"
#include "dialect/OwnerOps.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace sojourn;

/// Whether the rule of an op is trusted where the second reading cannot follow it. An entry of the list says why; today
/// there is none.
static bool isTrusted(StringRef) { return false; }

SlotClaim sojourn::claimOf(Value value, const rows::Analysis &analysis, const SlotReader &reader) {
  auto listOf = [&](unsigned draw) { // by its root, if the reader follows it to one
    Value list = analysis.draws()[draw].index;
    SlotReading reading = reader.readingOf(list);
    return reading.kind == SlotReading::Kind::Slots ? reading.place.root : list;
  };
  const rows::Fact fact = analysis.factOf(value);
  SlotClaim claim;
  switch (fact.kind) {
  case rows::Kind::Public: claim.kind = SlotClaim::Kind::Public; break;
  case rows::Kind::PerRow: {
    auto place = rows::placeOf(fact.rows, cast<RankedTensorType>(value.getType()).getShape());
    if (!place) {
      break;
    }
    claim = {.kind = SlotClaim::Kind::PerRow,
             .list = listOf(fact.rows.draw),
             .dim = place->dim,
             .outer = place->outer,
             .slots = fact.rows.slots,
             .inner = place->inner,
             .first = fact.rows.first,
             .step = fact.rows.step,
             .start = fact.rows.start};
    break;
  }
  case rows::Kind::Sum:
  case rows::Kind::Derived: {
    if (fact.cuts->empty()) {
      break;
    }
    unsigned draw = analysis.cuts()[fact.cuts->front()].draw;
    if (llvm::all_of(*fact.cuts, [&](unsigned cut) { return analysis.cuts()[cut].draw == draw; })) {
      claim.kind = SlotClaim::Kind::Sum;
      claim.list = listOf(draw);
    }
    break;
  }
  case rows::Kind::Mixed: break;
  }
  return claim;
}

/// Values that noise is added to or that a released result is made of, regions of clipped sums included, in no order.
static llvm::DenseSet<Value> neededValues(func::FuncOp step, const rows::Analysis &analysis) {
  llvm::DenseSet<Value> needed;
  SmallVector<Value> todo;
  auto add = [&](ValueRange values) {
    llvm::copy_if(values, std::back_inserter(todo), [&](Value value) { return needed.insert(value).second; });
  };
  for (NoiseOp noise : step.getOps<NoiseOp>()) {
    add(noise.getSums());
  }
  for (Value value : step.getBody().front().getTerminator()->getOperands()) {
    if (analysis.factOf(value).isPublic()) {
      add(value);
    }
  }
  while (!todo.empty()) {
    Operation *op = todo.pop_back_val().getDefiningOp();
    if (!op) {
      continue;
    }
    add(op->getOperands());
    if (auto sum = dyn_cast<ClippedSumOp>(op)) {
      add(sum.getBody().front().getTerminator()->getOperands());
    }
  }
  return needed;
}

FailureOr<SecondReading> sojourn::readAgain(func::FuncOp step, const RowInputs &inputs,
                                            const rows::Analysis &analysis) {
  auto isCoin = [&](unsigned number) {
    auto kind = step.getArgAttrOfType<StringAttr>(number, kKindAttr);
    return kind && kind.getValue() == stringify(StepArg::Coin);
  };
  SlotReader reader(
      step, [&](unsigned number) { return isCoin(number) || inputs.isPublic(number); },
      [&](unsigned number) { return number >= inputs.arguments.size() || inputs.arguments[number].table.isPrivate; });
  llvm::DenseSet<Value> needed = neededValues(step, analysis);
  SecondReading result;
  WalkResult walked = step.walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (Value value : op->getResults()) {
      if (!needed.contains(value) || !isa<RankedTensorType>(value.getType())) {
        continue;
      }
      SlotReading reading = reader.readingOf(value);
      switch (compare(reading, claimOf(value, analysis, reader))) {
      case Agreement::Agrees: ++result.agreed; break;
      case Agreement::Contradicts:
        op->emitError() << "two readings of this program disagree on which row a value belongs to (" +
                               describe(analysis.factOf(value)) +
                               "); this is a defect of the row analysis, please report it";
        return WalkResult::interrupt();
      case Agreement::CannotTell: {
        std::string name = reading.unread ? reading.unread->getName().stripDialect().str() : "argument";
        ++result.unread[name];
        if (!isTrusted(name)) {
          (reading.unread ? reading.unread : op)->emitError()
              << "the row of a value is uncertain: only one of two readings follows this use of '" << name
              << "', which is not on the list of trusted uses; write the step in another way, or report it";
          return WalkResult::interrupt();
        }
        break;
      }
      }
    }
    return WalkResult::advance();
  });
  if (walked.wasInterrupted()) {
    return failure();
  }
  return result;
}
