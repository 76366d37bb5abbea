// SPDX-License-Identifier: Apache-2.0
// Slices of columns become reads of fewer columns (see ReadColumns.h).
#include "passes/privacy/ReadColumns.h"
#include "dialect/LayoutOps.h"
#include "dialect/RowOps.h"
#include "dialect/UnaryOps.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>

using namespace mlir;
using namespace sojourn;
using rows::Range;

/// Casts between a read and a slice; and columns that all new reads of a step name, for a stranger may slice many
/// columns many times. Beyond that slices stay.
static constexpr size_t kCastsMost = 8, kNamesMost = size_t{1} << 16;

namespace {

class ReadColumns {
public:
  ReadColumns(func::FuncOp step, const RowInputs &inputs) : step(step), inputs(inputs), builder(step.getContext()) {
    for (BlockArgument argument : step.getArguments()) {
      auto type = dyn_cast<TableType>(argument.getType());
      size_t number = argument.getArgNumber();
      if (!type || number >= inputs.arguments.size() || !inputs.arguments[number].table.isPrivate) {
        continue;
      }
      for (auto [name, range] : llvm::zip(type.getNames(), inputs.arguments[number].table.columns)) {
        ranges[{argument, name}] = range;
      }
    }
  }

  void run() {
    for (auto slice : llvm::make_early_inc_range(step.getOps<DynamicSliceOp>())) {
      settle(slice);
    }
    SmallVector<SliceOp> replaced; // erased last: reads are found by address
    for (SliceOp slice : step.getOps<SliceOp>()) {
      auto [read, casts] = readBehind(slice.getX());
      ArrayAttr taken = read ? columnsOf(slice, read) : ArrayAttr();
      if (!taken) {
        continue;
      }
      builder.setInsertionPoint(slice);
      Value columns = readAlone(read, taken);
      for (ConvertOp op : llvm::reverse(casts)) {
        auto type = op.getType().clone(cast<RankedTensorType>(columns.getType()).getShape());
        columns = ConvertOp::create(builder, op.getLoc(), type, columns);
      }
      if (columns.getType() != slice.getType()) { // it takes a part of the rows, too
        columns = SliceOp::create(builder, slice.getLoc(), slice.getType(), columns,
                                  ArrayRef<int64_t>{slice.getStart()[0], 0},
                                  ArrayRef<int64_t>{slice.getLimit()[0], slice.getType().getDimSize(1)},
                                  ArrayRef<int64_t>{slice.getStride()[0], 1});
      }
      slice.replaceAllUsesWith(columns);
      replaced.push_back(slice);
    }
    for (Operation *unused : llvm::reverse(replaced)) {
      while (unused && unused->use_empty() && isa<SliceOp, ConvertOp, ReadRowsOp>(unused)) {
        Operation *operand = isa<ReadRowsOp>(unused) ? nullptr : unused->getOperand(0).getDefiningOp();
        unused->erase();
        unused = operand;
      }
    }
  }

private:
  /// The read that a value is a cast of, and the casts, the last one first.
  static std::pair<ReadRowsOp, SmallVector<ConvertOp>> readBehind(Value value) {
    SmallVector<ConvertOp> casts;
    for (ConvertOp op; casts.size() < kCastsMost && (op = value.getDefiningOp<ConvertOp>()); value = op.getX()) {
      casts.push_back(op);
    }
    return {value.getDefiningOp<ReadRowsOp>(), casts};
  }

  /// A slice of a read at numbers of the step becomes one at their values, for which alone the owner makes this plan.
  void settle(DynamicSliceOp slice) {
    RankedTensorType from = slice.getX().getType(), type = slice.getType();
    if (!readBehind(slice.getX()).first) {
      return;
    }
    SmallVector<int64_t> start(static_cast<size_t>(from.getRank()), 0), limit(from.getShape());
    for (auto [number, dim, size] : llvm::zip(slice.getStarts(), slice.getDims(), slice.getSizes())) {
      auto argument = dyn_cast<BlockArgument>(number);
      if (!argument || argument.getArgNumber() >= inputs.arguments.size()) {
        return;
      }
      const RowInputs::Argument &known = inputs.arguments[argument.getArgNumber()];
      if (!known.isPublic || !known.range.isConstant()) {
        return;
      }
      double last = static_cast<double>(from.getDimSize(static_cast<unsigned>(dim)) - size);
      auto index = static_cast<size_t>(dim);
      start[index] = static_cast<int64_t>(std::clamp(known.range.low, 0.0, last));
      limit[index] = start[index] + size;
    }
    builder.setInsertionPoint(slice);
    SmallVector<int64_t> stride(start.size(), 1);
    Value settled = SliceOp::create(builder, slice.getLoc(), type, slice.getX(), start, limit, stride);
    slice.replaceAllUsesWith(settled);
    slice.erase();
  }

  /// What these columns of a table can hold together; nothing where that is unknown.
  std::optional<Range> hull(Value table, ArrayRef<Attribute> columns) const {
    std::optional<Range> all;
    for (Attribute name : columns) {
      auto known = ranges.find({table, name});
      if (known == ranges.end()) {
        return std::nullopt;
      }
      all = all ? all->hull(known->second) : known->second;
    }
    return all;
  }

  /// The columns that a slice takes; null where they may hold as much as all that are read.
  ArrayAttr columnsOf(SliceOp slice, ReadRowsOp read) {
    RankedTensorType type = slice.getType();
    if (type.getRank() != 2 || type.getNumElements() == 0 || read.getColumns().size() < 2) {
      return {};
    }
    auto [whole, isNew] = wholes.try_emplace(read);
    if (isNew) {
      whole->second = hull(read.getTable(), read.getColumns().getValue());
    }
    auto count = static_cast<size_t>(type.getDimSize(1));
    if (!whole->second || named + count > kNamesMost) {
      return {};
    }
    named += count;
    SmallVector<Attribute> taken;
    for (size_t k = 0; k < count; ++k) {
      taken.push_back(
          read.getColumns()[static_cast<size_t>(slice.getStart()[1]) + k * static_cast<size_t>(slice.getStride()[1])]);
    }
    return hull(read.getTable(), taken) == whole->second ? ArrayAttr() : builder.getArrayAttr(taken);
  }

  /// Equal reads are one.
  Value readAlone(ReadRowsOp read, ArrayAttr columns) {
    Value &known = alone[{read.getResult(), columns}];
    if (!known) {
      RankedTensorType type = read.getType();
      known = ReadRowsOp::create(builder, read.getLoc(),
                                 type.clone({type.getDimSize(0), static_cast<int64_t>(columns.size())}),
                                 read.getTable(), read.getIndices(), columns);
    }
    return known;
  }

  func::FuncOp step;
  const RowInputs &inputs;
  OpBuilder builder;
  llvm::DenseMap<std::pair<Value, Attribute>, Range> ranges; ///< by table and name
  llvm::DenseMap<Operation *, std::optional<Range>> wholes;
  llvm::DenseMap<std::pair<Value, Attribute>, Value> alone; ///< by read and columns
  size_t named = 0;
};

} // namespace

void sojourn::readSlicedColumns(func::FuncOp step, const RowInputs &inputs) { ReadColumns(step, inputs).run(); }
