// SPDX-License-Identifier: Apache-2.0
// Rows of datasets: sampling and reading.
#include "dialect/Bounds.h"
#include "dialect/Families.h"
#include "dialect/RowOps.h"
#include "dialect/rows/Rules.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace sojourn;

LogicalResult SampleRowsOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                             SmallVectorImpl<Type> &results) {
  auto positions = dyn_cast<RankedTensorType>(adaptor.getPositions().getType());
  if (!positions || !positions.getElementType().isSignlessInteger(64)) {
    return emitOptionalError(location, "positions have type ", adaptor.getPositions().getType(),
                             ", expected an i64 tensor of static shape");
  }
  results.push_back(positions);
  return success();
}

SmallVector<Side> sojourn::partOf(SampleRowsOp sample) {
  SmallVector<Side> part;
  for (auto [fraction, side] : llvm::zip(sample.getFractions(), sample.getSides())) {
    part.push_back({fraction, side != 0});
  }
  return part;
}

LogicalResult SampleRowsOp::verify() {
  ArrayRef<double> fractions = getFractions();
  ArrayRef<int64_t> sides = getSides();
  if (fractions.size() != sides.size()) {
    return emitOpError() << "fractions has " << fractions.size() << " entries and sides has " << sides.size()
                         << ", expected one side for each fraction";
  }
  if (fractions.size() > static_cast<size_t>(kSplitsMost)) {
    return emitOpError() << "a part of " << fractions.size() << " splits, expected at most " << kSplitsMost;
  }
  for (auto [fraction, side] : llvm::zip_equal(fractions, sides)) {
    if (!(fraction > 0 && fraction < 1)) {
      return emitOpError() << "fraction " << FloatAttr::get(Float64Type::get(getContext()), fraction)
                           << " of a split, expected a number above 0 and below 1";
    }
    if (side != 0 && side != 1) {
      return emitOpError() << "side " << side << " of a split, expected 0 (first) or 1 (other)";
    }
  }
  if (getSplit() && fractions.empty()) {
    return emitOpError() << "a split's own order needs a part: give split at least one (side, fraction)";
  }
  if (getSplit() && getExpected()) {
    return emitOpError()
           << "a split's own order is drawn by its seed; attribute expected belongs to an order of a part's rows";
  }
  if (std::optional<int64_t> expected = getExpected(); expected && (*expected < 1 || *expected > bounds::kTableRows)) {
    return emitOpError() << "attribute expected is " << *expected << ", expected a number of rows in [1, "
                         << boundText(bounds::kTableRows) << "]";
  }
  return success();
}

void SampleRowsOp::build(OpBuilder &builder, OperationState &state, Type result, Value positions, Value seed,
                         Value epoch, Value table, ArrayRef<Side> part, bool isSplit, std::optional<int64_t> expected) {
  SmallVector<double> fractions;
  SmallVector<int64_t> sides;
  for (const Side &side : part) {
    fractions.push_back(side.fraction);
    sides.push_back(side.isOther ? 1 : 0);
  }
  build(builder, state, result, positions, seed, epoch, table, builder.getDenseF64ArrayAttr(fractions),
        builder.getDenseI64ArrayAttr(sides), builder.getBoolAttr(isSplit),
        expected ? builder.getI64IntegerAttr(*expected) : IntegerAttr());
}

/// `, part = [first 0.8, other 0.5]` or `, split = [...]`; `, expected = 64`.
static ParseResult parseDraw(OpAsmParser &parser, DenseF64ArrayAttr &fractions, DenseI64ArrayAttr &sides,
                             BoolAttr &split, IntegerAttr &expected) {
  SmallVector<double> numbers;
  SmallVector<int64_t> which;
  bool hasPart = false, isSplit = false;
  auto item = [&]() -> ParseResult {
    StringRef side;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&side)) {
      return failure();
    }
    if (side != "first" && side != "other") {
      return parser.emitError(loc) << "side '" << side << "' of a split, expected first or other";
    }
    which.push_back(side == "other" ? 1 : 0);
    return parser.parseFloat(numbers.emplace_back());
  };
  while (succeeded(parser.parseOptionalComma())) {
    StringRef word;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&word) || parser.parseEqual()) {
      return failure();
    }
    bool isPart = word == "part" || word == "split";
    if (isPart && !hasPart) {
      hasPart = true;
      isSplit = word == "split";
      if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, item)) {
        return failure();
      }
    } else if (word == "expected" && !expected) {
      int64_t number;
      if (parser.parseInteger(number)) {
        return failure();
      }
      expected = parser.getBuilder().getI64IntegerAttr(number);
    } else {
      return parser.emitError(loc) << "'" << word << "', expected at most one part or split and one 'expected'";
    }
  }
  fractions = DenseF64ArrayAttr::get(parser.getContext(), numbers);
  sides = DenseI64ArrayAttr::get(parser.getContext(), which);
  split = BoolAttr::get(parser.getContext(), isSplit);
  return success();
}

static void printDraw(OpAsmPrinter &printer, Operation *, DenseF64ArrayAttr fractions, DenseI64ArrayAttr sides,
                      BoolAttr split, IntegerAttr expected) {
  if (!fractions.empty() || split.getValue()) {
    printer << (split.getValue() ? ", split = [" : ", part = [");
    llvm::interleaveComma(llvm::zip(fractions.asArrayRef(), sides.asArrayRef()), printer, [&](auto item) {
      auto [fraction, side] = item;
      printer << (side == 0 ? "first " : "other ");
      printer.printFloat(APFloat(fraction));
    });
    printer << "]";
  }
  if (expected) {
    printer << ", expected = " << expected.getInt();
  }
}

LogicalResult ReadRowsOp::verify() {
  TableType table = getTable().getType();
  RankedTensorType indices = getIndices().getType();
  RankedTensorType result = getResult().getType();
  if (indices.getRank() != 1) {
    return emitOpError() << "indices have type " << indices << ", expected rank 1";
  }
  int64_t count = static_cast<int64_t>(getColumns().size());
  RankedTensorType shaped;
  for (Attribute column : getColumns()) {
    Type type = table.getColumnType(cast<StringAttr>(column).getValue());
    if (!type) {
      return emitOpError() << "reads column " << column << ", which " << table << " does not have";
    }
    if (auto entry = dyn_cast<RankedTensorType>(type)) {
      if (count != 1) {
        return emitOpError() << "reads " << count << " columns including " << column << ", whose entries have shape ["
                             << entry.getShape() << "], expected a shaped column alone";
      }
      shaped = entry;
    }
  }
  SmallVector<int64_t> expected = {indices.getDimSize(0)};
  if (shaped) {
    llvm::append_range(expected, shaped.getShape());
    if (result.getShape() != ArrayRef<int64_t>(expected)) {
      return emitOpError() << "result has type " << result << ", expected shape [" << ArrayRef<int64_t>(expected)
                           << "]: one entry of column " << getColumns()[0] << " per index";
    }
    return success();
  }
  if (count == 1 && result.getShape() == ArrayRef<int64_t>(expected)) {
    return success();
  }
  expected.push_back(count);
  if (result.getShape() != ArrayRef<int64_t>(expected)) {
    return emitOpError() << "result has type " << result << ", expected shape [" << expected[0] << ", " << expected[1]
                         << "]" << (count == 1 ? " or [" + std::to_string(expected[0]) + "]" : std::string())
                         << ": one row per index, one column per name";
  }
  return success();
}

#define GET_OP_CLASSES
#include "dialect/RowOps.cpp.inc"

void sojourn::detail::registerRowOps(SojournDialect &dialect) {
  dialect.add<
#define GET_OP_LIST
#include "dialect/RowOps.cpp.inc"
      >();
}
