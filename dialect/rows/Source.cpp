// SPDX-License-Identifier: Apache-2.0
// Where rows come from: row numbers, draws, reading.
#include "dialect/Bounds.h"
#include "dialect/RowOps.h"
#include "dialect/SourceOps.h"
#include "dialect/rows/Support.h"

using namespace mlir;
using namespace sojourn;
using namespace sojourn::rows;

void rows::source(Operation *op, Operands operands, Analysis &analysis, Results results) {
  results[0] = analysis.derived(operands);
  if (anyPerRow(operands)) { // a seed of rank 0 cannot be
    results[0] = analysis.mixed(op, "draws with a seed that depends on rows", op->getOperand(0));
  }
  if (auto iota = dyn_cast<IotaOp>(op)) {
    auto type = iota.getResult().getType();
    if (type.getRank() == 1 && type.getElementType().isSignlessInteger(64)) {
      results[0].distinct = Distinct::Numbers;
    }
  }
}

void rows::sampleRows(Operation *op, Operands operands, Analysis &analysis, Results results) {
  auto sample = cast<SampleRowsOp>(op);
  const Fact &positions = operands[0];
  if (const Fact *bad = firstMixed(operands)) {
    results[0] = *bad;
    return;
  }
  if (!operands[1].isPublic() || !operands[2].isPublic()) {
    results[0] =
        analysis.mixed(op, "draws an order of rows with a seed or epoch that depends on rows", op->getOperand(1));
    return;
  }
  std::optional<int64_t> rows, ordered; // positions that stand for a row, and rows in the order
  if (std::optional<int64_t> all = analysis.rowsOf(sample.getTable())) {
    PartRows part = rowsOfPart(*all, partOf(sample));
    rows = part.rows;
    ordered = sample.getSplit() ? part.parent : part.rows;
  }
  if (std::optional<int64_t> expected = sample.getExpected()) {
    // Coins replace the draw only where a private table is read at it; elsewhere positions decide what it holds.
    if (!positions.isPublic()) {
      results[0] = analysis.mixed(op, "draws rows at positions that depend on rows", sample.getPositions());
      return;
    }
    ArrayRef<int64_t> shape = shapeOf(sample.getResult());
    if (shape.size() != 1 || shape[0] < 2) {
      results[0] = analysis.mixed(op, "draws into fewer than 2 slots");
      return;
    }
    if (!rows) {
      results[0] = analysis.mixed(op, "draws rows of a table with an unknown number of rows");
      return;
    }
    if (*expected > *rows) {
      results[0] =
          analysis.mixed(op, "expects a batch of " + Twine(*expected) + " rows, but there are only " + Twine(*rows));
      return;
    }
    results[0] = Fact::of(Kind::PerRow);
    results[0].rows = Alignment::of(analysis.sampledDraw(sample.getResult(), shape[0], *expected, *rows), shape[0]);
    results[0].distinct = Distinct::Rows;
    results[0].range = Range::of(-1, static_cast<double>(*rows) - 1, /*whole=*/true);
    return;
  }
  // A bijection, position by position.
  if (positions.isPerRow()) {
    results[0] = Fact::of(Kind::PerRow);
    results[0].rows = positions.rows;
  } else {
    results[0] = analysis.derived(operands);
  }
  // What lies outside becomes -1, at any number of places.
  bool isInside = rows && positions.range.isBounded() && positions.range.low >= 0 &&
                  positions.range.high < static_cast<double>(*rows);
  double last = static_cast<double>(ordered.value_or(bounds::kTableRows)) - 1;
  results[0].range = Range::of(isInside ? 0 : -1, std::max(last, -1.0), /*whole=*/true);
  results[0].distinct = isInside ? positions.distinct : std::min(positions.distinct, Distinct::Rows);
}

/// What the columns can hold.
static Range rangeOfColumns(ReadRowsOp op, const TableBounds &bounds) {
  std::optional<Range> range;
  TableType table = op.getTable().getType();
  for (Attribute name : op.getColumns()) {
    const auto *found = llvm::find(table.getNames(), cast<StringAttr>(name));
    size_t index = static_cast<size_t>(found - table.getNames().begin());
    if (index >= bounds.columns.size()) {
      return {};
    }
    range = range ? range->hull(bounds.columns[index]) : bounds.columns[index];
  }
  return range.value_or(Range());
}

void rows::readRows(Operation *op, Operands operands, Analysis &analysis, Results results) {
  auto read = cast<ReadRowsOp>(op);
  const Fact &index = operands[1];
  if (index.isMixed()) {
    results[0] = index;
    return;
  }
  auto known = analysis.tables.find(read.getTable());
  TableBounds unknown{.isPrivate = true, .columns = {}};
  const TableBounds &bounds = known == analysis.tables.end() ? unknown : known->second;
  ArrayRef<int64_t> shape = shapeOf(read.getResult());
  // Bounds hold for the stored numbers; the conversion to the result's type comes after.
  Range columns = rangeOfColumns(read, bounds), range = columns.hull(Range::of(0, 0, /*whole=*/true)); // absent: zeros
  Type element = getElementTypeOrSelf(read.getResult().getType());
  if (range.isBounded()) {
    range = convertedRange(range, element);
  }
  if (!bounds.isPrivate) {
    if (index.isPerRow()) {
      results[0] = perRowAt(index, shape, {.dim = 0, .outer = 1, .inner = 1});
    } else {
      results[0] = analysis.derived(operands.drop_front());
    }
    results[0].range = range;
    return;
  }
  if (index.hasCuts()) {
    results[0] = analysis.mixed(op, "chooses rows by a value that was computed from rows", read.getIndices());
    return;
  }
  if (!index.namesRowsOnce()) {
    results[0] = analysis.mixed(
        op, "reads row numbers that were not drawn at the owner: a row may be read more than once", read.getIndices());
    return;
  }
  if (shape[0] < 2) {
    results[0] =
        analysis.mixed(op, "reads fewer than 2 rows: a row cannot be distinguished from its batch", read.getIndices());
    return;
  }
  Fact rows = index;
  if (index.isPublic()) {
    rows = Fact::of(Kind::PerRow);
    rows.rows = Alignment::of(analysis.drawOf(read.getIndices(), shape[0]), shape[0]);
  }
  Draw &draw = analysis.draw(rows.rows.draw);
  if (draw.read && draw.read != read.getIndices()) {
    results[0] = analysis.mixed(op, "reads other rows into the slots of a draw: a row would be in several slots",
                                read.getIndices());
    return;
  }
  draw.read = read.getIndices();
  unsigned table = cast<BlockArgument>(read.getTable()).getArgNumber();
  if (!llvm::is_contained(draw.tables, table)) {
    draw.tables.insert(llvm::upper_bound(draw.tables, table), table);
  }
  results[0] = perRowAt(rows, shape, {.dim = 0, .outer = 1, .inner = 1});
  results[0].range = range;
  // A number past the end is no row, and yet its slot counts (it is not negative).
  std::optional<int64_t> count = analysis.rowsOf(read.getTable());
  if (columns.isBounded() && count && index.range.high < static_cast<double>(*count)) {
    results[0].present = convertedRange(columns, element);
  }
}
