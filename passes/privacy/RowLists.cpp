// SPDX-License-Identifier: Apache-2.0
// Lists of row numbers, by when they are known (see RowLists.h).
#include "passes/privacy/RowLists.h"

#include "dialect/CoreForm.h"
#include "dialect/OwnerOps.h"
#include "dialect/RowOps.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sojourn;

/// Not sure is private.
static bool isPrivateTable(Value table, const RowInputs &inputs) {
  unsigned number = cast<BlockArgument>(table).getArgNumber();
  return number >= inputs.arguments.size() || inputs.arguments[number].table.isPrivate;
}

/// When lists are known, and all that they are computed from: as soon as what they are computed from.
static llvm::DenseMap<Value, ListTime> timesOf(ArrayRef<Value> lists, func::FuncOp step, const RowInputs &inputs) {
  llvm::DenseMap<Value, ListTime> times;
  auto timeOf = [&](BlockArgument argument) {
    auto kind = step.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kKindAttr);
    bool isCoin = kind && kind.getValue() == stringify(StepArg::Coin);
    bool isTable = isa<TableType>(argument.getType()); // only how many rows it has: reads are late
    return isTable || (!isCoin && inputs.isPublic(argument.getArgNumber())) ? ListTime::Message : ListTime::Run;
  };
  SmallVector<Value> todo(lists.begin(), lists.end());
  while (!todo.empty()) {
    Value value = todo.back();
    Operation *op = value.getDefiningOp();
    size_t before = todo.size();
    if (!times.contains(value) && op) {
      llvm::copy_if(op->getOperands(), std::back_inserter(todo),
                    [&](Value operand) { return !times.contains(operand); });
    }
    if (todo.size() > before) {
      continue;
    }
    todo.pop_back();
    if (times.contains(value)) {
      continue;
    }
    if (!op) {
      times[value] = timeOf(cast<BlockArgument>(value));
      continue;
    }
    auto sample = dyn_cast<SampleRowsOp>(op); // coins may stand for one with `expected`
    bool isLate = isa<ReadRowsOp, ClippedSumOp, NoiseOp>(op) || (sample && sample.getExpected());
    ListTime time = isLate ? ListTime::Run : ListTime::Plan;
    for (Value operand : op->getOperands()) {
      time = std::max(time, times.lookup(operand));
    }
    for (Value result : op->getResults()) {
      times[result] = time;
    }
  }
  return times;
}

/// The lists that private tables are read at, and that clipped sums choose slots by, in the order of the program.
static llvm::SetVector<Value> rowLists(func::FuncOp step, const RowInputs &inputs) {
  llvm::SetVector<Value> lists;
  for (Operation &op : step.getBody().front()) {
    if (auto read = dyn_cast<ReadRowsOp>(op); read && isPrivateTable(read.getTable(), inputs)) {
      lists.insert(read.getIndices());
    } else if (auto sum = dyn_cast<ClippedSumOp>(op)) {
      lists.insert(sum.getSlots());
    }
  }
  return lists;
}

OwningOpRef<ModuleOp> sojourn::rowListsProgram(func::FuncOp step, const RowInputs &inputs, ListTime time) {
  llvm::SetVector<Value> lists = rowLists(step, inputs);
  auto times = timesOf(lists.getArrayRef(), step, inputs);
  lists.remove_if([&](Value list) { return times.lookup(list) != time; });
  if (lists.empty()) {
    return {};
  }
  llvm::DenseSet<Operation *> needed;
  SmallVector<Value> todo(lists.begin(), lists.end());
  while (!todo.empty()) {
    Operation *op = todo.pop_back_val().getDefiningOp();
    if (op && needed.insert(op).second) {
      llvm::append_range(todo, op->getOperands());
    }
  }
  OpBuilder builder(step.getContext());
  OwningOpRef<ModuleOp> module = ModuleOp::create(step.getLoc());
  (*module)->setAttrs(step->getParentOp()->getAttrs());
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> types;
  SmallVector<Attribute> kept;
  Attribute keep =
      builder.getDictionaryAttr(builder.getNamedAttr(kResultAttr, builder.getStringAttr(stringify(StepResult::Keep))));
  for (Value list : lists) {
    types.push_back(list.getType());
    kept.push_back(keep);
  }
  unsigned taken = 0; // coins are the last arguments
  for (BlockArgument argument : step.getArguments()) {
    auto kind = step.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kKindAttr);
    bool isCoin = kind && kind.getValue() == stringify(StepArg::Coin);
    taken += time == ListTime::Message && !isCoin;
  }
  auto type = builder.getFunctionType(step.getArgumentTypes().take_front(taken), types);
  auto copy = func::FuncOp::create(builder, step.getLoc(), kStepName, type);
  copy.setAllResultAttrs(kept);
  builder.setInsertionPointToStart(copy.addEntryBlock());
  IRMapping mapping;
  for (unsigned k = 0; k < taken; ++k) {
    copy.setArgAttrs(k, step.getArgAttrDict(k));
    mapping.map(step.getArgument(k), copy.getArgument(k));
  }
  for (Operation &op : step.getBody().front()) {
    if (needed.contains(&op)) {
      builder.clone(op, mapping);
    }
  }
  SmallVector<Value> results;
  for (Value list : lists) {
    results.push_back(mapping.lookup(list));
  }
  func::ReturnOp::create(builder, step.getLoc(), results);
  return module;
}

std::optional<bool> sojourn::namesRowTwice(ArrayRef<int64_t> rows, llvm::function_ref<bool()> isStopped) {
  bool isAscending = true; // as all rows of a table are
  for (size_t k = 1; k < rows.size() && isAscending; ++k) {
    isAscending = rows[k - 1] < rows[k];
  }
  if (isAscending) {
    return false;
  }
  std::vector<int64_t> sorted(rows.begin(), rows.end());
  constexpr size_t kPiece = size_t{1} << 20;
  auto at = [&](size_t k) { return sorted.begin() + static_cast<ptrdiff_t>(std::min(k, sorted.size())); };
  for (size_t k = 0; k < sorted.size(); k += kPiece) {
    if (isStopped()) {
      return std::nullopt;
    }
    std::sort(at(k), at(k + kPiece));
  }
  for (size_t width = kPiece; width < sorted.size(); width *= 2) {
    for (size_t k = 0; k < sorted.size(); k += 2 * width) {
      if (isStopped()) {
        return std::nullopt;
      }
      std::inplace_merge(at(k), at(k + width), at(k + 2 * width));
    }
  }
  auto first = llvm::lower_bound(sorted, 0);
  return std::adjacent_find(first, sorted.end()) != sorted.end();
}

void sojourn::guardRowLists(func::FuncOp step, const RowInputs &inputs) {
  OpBuilder builder(step.getContext());
  llvm::SetVector<Value> lists = rowLists(step, inputs);
  auto times = timesOf(lists.getArrayRef(), step, inputs);
  for (Value list : lists) {
    if (times.lookup(list) != ListTime::Run) {
      continue;
    }
    builder.setInsertionPointAfterValue(list);
    Value once = FirstRowsOp::create(builder, list.getLoc(), list.getType(), list);
    list.replaceUsesWithIf(once, [&](OpOperand &use) {
      auto read = dyn_cast<ReadRowsOp>(use.getOwner());
      bool isRead = read && isPrivateTable(read.getTable(), inputs);
      bool choosesSlots = isa<ClippedSumOp>(use.getOwner()) && use.getOperandNumber() == 0;
      return isRead || choosesSlots;
    });
  }
}
