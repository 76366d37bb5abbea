// SPDX-License-Identifier: Apache-2.0
// The walk of the second reading (see SlotReading.h): sources, draws, regions of clipped_sum; and the comparison.
#include "passes/SlotReading.h"

#include "dialect/Base.h"
#include "dialect/Dialect.h"
#include "passes/SlotRules.h"

using namespace mlir;
using namespace sojourn;

namespace {

using Kind = SlotReading::Kind;

SlotReading unknown(Operation *op) { return {Kind::Unknown, {}, op}; }

/// Whether a list of row numbers is the root, or computed from it element by element.
bool comesFrom(Value list, Value root) {
  SmallVector<Value> toSee = {outside(list)};
  DenseSet<Value> seen;
  while (!toSee.empty()) {
    Value value = toSee.pop_back_val();
    if (value == root) {
      return true;
    }
    Operation *op = value ? value.getDefiningOp() : nullptr;
    if (op && seen.insert(value).second && (isa<SampleRowsOp>(op) || op->hasTrait<Elementwise>())) {
      llvm::append_range(toSee, op->getOperands());
    }
  }
  return false;
}

} // namespace

/// Of a table that rows are drawn of only its number of rows matters, which is public.
static OperandRange contentsOf(Operation *op) {
  OperandRange operands = op->getOperands();
  return isa<SampleRowsOp>(op) ? operands.drop_back() : operands;
}

SlotReader::SlotReader(func::FuncOp step, llvm::function_ref<bool(unsigned)> isPublicArgument,
                       llvm::function_ref<bool(unsigned)> isPrivateTable) {
  if (step.isExternal() || !step.getBody().hasOneBlock()) {
    return;
  }
  readings.reserve(static_cast<unsigned>(step.getNumArguments() + step.getBody().front().getOperations().size()));
  for (BlockArgument argument : step.getArguments()) {
    bool isTable = isa<TableType>(argument.getType()), isPrivate = isTable && isPrivateTable(argument.getArgNumber());
    if (isPrivate) {
      contents.insert(argument);
    }
    bool isPublic = isTable ? !isPrivate : isPublicArgument(argument.getArgNumber());
    set(argument, isPublic ? SlotReading() : unknown(nullptr));
  }
  findDraws(step.getBody().front());
  readBlock(step.getBody().front());
}

/// Each value is followed once: a later list that was made of an earlier one begins where that one ended.
Value SlotReader::originalOf(Value index) {
  auto isNoRow = [](Value value) {
    auto constant = value.getDefiningOp<ConstantOp>();
    auto number = constant ? dyn_cast<IntegerAttr>(constant.getValue()) : IntegerAttr();
    return number && number.getValue().isNegative();
  };
  SmallVector<Value> way;
  while (Operation *op = index.getDefiningOp()) {
    if (Value known = originals.lookup(index)) {
      index = known;
      break;
    }
    auto select = dyn_cast<SelectOp>(op);
    Value next;
    if (select && (isNoRow(select.getA()) || isNoRow(select.getB()))) {
      next = isNoRow(select.getA()) ? select.getB() : select.getA();
    } else if (isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp, DynamicSliceOp, ReverseOp>(op)) {
      next = op->getOperand(0);
    } else {
      break;
    }
    way.push_back(index);
    index = next;
  }
  for (Value value : way) {
    originals[value] = index;
  }
  return index;
}

SlotReading SlotReader::readingOf(Value value) const {
  auto found = readings.find(value);
  return found == readings.end() ? unknown(value.getDefiningOp()) : found->second;
}

void SlotReader::findDraws(Block &body) {
  SmallVector<Value> toSee;
  for (auto read : body.getOps<ReadRowsOp>()) {
    if (contents.contains(read.getTable())) {
      toSee.push_back(read.getIndices());
    }
  }
  DenseSet<Operation *> seen;
  while (!toSee.empty()) {
    Operation *op = toSee.pop_back_val().getDefiningOp();
    if (op && seen.insert(op).second) {
      auto sample = dyn_cast<SampleRowsOp>(op);
      if (sample && sample.getExpected()) {
        draws.insert(op);
      }
      llvm::append_range(toSee, op->getOperands());
    }
  }
}

void SlotReader::set(Value value, SlotReading reading) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (type && type.hasStaticShape() && type.getNumElements() == 0) {
    reading = SlotReading();
  }
  SlotPlace &place = reading.place;
  if (reading.kind == Kind::Slots && place.slots == 1) {
    // Any dim will do for one slot; that of the op's rule serves what follows, where it has one.
    int64_t rank = type.getRank();
    if (place.dim >= rank || place.dim < 0 || type.getDimSize(place.dim) != place.outer * place.inner) {
      place.dim = 0;
      place.outer = 1;
      place.inner = rank > 0 ? type.getDimSize(0) : 1;
    }
  }
  assert(reading.kind != Kind::Slots || place.slots == 1 || place.dim < 0 ||
         type.getDimSize(place.dim) == place.outer * place.slots * place.inner);
  readings[value] = reading;
}

void SlotReader::readBlock(Block &body) {
  for (Operation &op : body.without_terminator()) {
    bool isFresh = isa<NoiseOp>(op) || draws.contains(&op);
    if (!isFresh && llvm::any_of(contentsOf(&op), [&](Value value) { return contents.contains(value); })) {
      contents.insert(op.result_begin(), op.result_end());
    }
    if (isa<ClippedSumOp>(op)) {
      readClippedSum(&op);
      continue;
    }
    SlotReading reading;
    if (draws.contains(&op)) {
      Value drawn = op.getResult(0);
      reading = rankOf(drawn) != 1
                    ? unknown(&op)
                    : SlotReading{Kind::Slots, {drawn, 0, 1, shapeOf(drawn).front(), 1, 0, 1, Value()}, nullptr};
    } else if (!isa<NoiseOp>(op)) {
      reading = isa<ReadRowsOp>(op) ? readRows(&op) : readCore(&op);
    }
    for (Value result : op.getResults()) {
      set(result, reading);
    }
  }
}

SlotReading SlotReader::readRows(Operation *op) {
  auto read = cast<ReadRowsOp>(op);
  Value index = read.getIndices();
  SlotReading reading = readingOf(index);
  if (!contents.contains(read.getTable()) || reading.kind == Kind::Unknown) {
    return reading;
  }
  if (reading.kind == Kind::None && rankOf(index) == 1) {
    return {Kind::Slots, {index, 0, 1, shapeOf(index).front(), 1, 0, 1, Value()}, nullptr};
  }
  Value original = originalOf(index);
  bool isList = reading.kind == Kind::Slots && rankOf(index) == 1 && !contents.contains(index) &&
                lists.try_emplace(reading.place.root, original).first->second == original;
  return isList ? reading : unknown(op);
}

SlotReading SlotReader::readCore(Operation *op) const {
  Found slots, sum;
  // Of slots that lie in no dim, only elementwise ops and reshapes are read.
  bool isOneSlot = true, hasScalar = false, staysFlat = op->hasTrait<Elementwise>() || isa<ReshapeOp>(op);
  for (Value operand : contentsOf(op)) {
    SlotReading reading = readingOf(operand);
    if (reading.kind == Kind::Unknown) {
      return reading;
    }
    if (reading.kind == Kind::Slots && reading.place.dim < 0 && !staysFlat) {
      return unknown(op);
    }
    if (reading.kind == Kind::Slots) {
      isOneSlot &= reading.place.slots == 1 && (!slots || samePlace(*slots, reading.place));
      hasScalar |= rankOf(operand) == 0;
      slots = reading.place;
    } else if (reading.kind == Kind::Summed) {
      bool isSameList = !sum || sum->root == reading.place.root;
      sum = reading.place;
      sum->root = isSameList ? sum->root : Value();
    }
  }
  if ((slots && sum) || (!op->hasTrait<CoreOp>() && (slots || sum))) {
    return unknown(op);
  }
  if (!slots) {
    return sum ? SlotReading{Kind::Summed, *sum, nullptr} : SlotReading();
  }
  Found found = hasScalar ? std::nullopt : placeAfter(op, readings);
  if (isOneSlot && (!found || found->slots == 0)) {
    found = moved(*slots, -1); // whatever the op does: all its results are the slot's
  }
  return found ? SlotReading{found->slots == 0 ? Kind::Summed : Kind::Slots, *found, nullptr} : unknown(op);
}

void SlotReader::readClippedSum(Operation *op) {
  auto sum = cast<ClippedSumOp>(op);
  Block &body = sum.getBody().front();
  for (auto [argument, input] : llvm::zip_equal(body.getArguments(), sum.getInputs())) {
    set(argument, readingOf(input));
    if (contents.contains(input)) {
      contents.insert(argument);
    }
  }
  readBlock(body);
  SlotReading rows = readingOf(sum.getSlots());
  bool isList =
      rankOf(sum.getSlots()) == 1 && (rows.kind == Kind::None || (rows.kind == Kind::Slots && isWhole(rows.place)));
  SlotReading result = isList ? SlotReading{Kind::Summed, {}, nullptr} : unknown(op);
  result.place.root = rows.kind == Kind::None ? sum.getSlots() : rows.place.root;
  // One norm may bind all results, so that one that cannot be read spoils them all.
  for (Value value : body.getTerminator()->getOperands()) {
    SlotReading reading = readingOf(value);
    bool isSum = reading.kind == Kind::Summed || (reading.kind == Kind::Slots && reading.place.slots == 1);
    if (reading.kind == Kind::Unknown) {
      result = reading;
      break;
    }
    if (reading.kind != Kind::None && (!isSum || reading.place.root != result.place.root)) {
      result = unknown(op);
    }
  }
  for (Value value : sum.getSums()) {
    set(value, result);
  }
}

Agreement sojourn::compare(const SlotReading &reading, const SlotClaim &claim) {
  bool isPublic = claim.kind == SlotClaim::Kind::Public;
  if (claim.kind == SlotClaim::Kind::Nothing) {
    return Agreement::Agrees;
  }
  if (reading.kind == Kind::Unknown) {
    return Agreement::CannotTell;
  }
  bool agrees = reading.kind == Kind::None;
  if (!agrees && !isPublic && reading.place.root && comesFrom(claim.list, reading.place.root)) {
    Value root = reading.place.root;
    SlotPlace place = {root,        claim.dim,   claim.outer, claim.slots,
                       claim.inner, claim.first, claim.step,  outside(claim.start)};
    bool isOneSlot = reading.kind == Kind::Slots && reading.place.slots == 1;
    agrees = claim.kind == SlotClaim::Kind::Sum ? reading.kind == Kind::Summed || isOneSlot
                                                : reading.kind == Kind::Slots && samePlace(reading.place, place);
  }
  return agrees ? Agreement::Agrees : Agreement::Contradicts;
}
