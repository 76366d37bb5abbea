// SPDX-License-Identifier: Apache-2.0
// Rows of datasets: sampling and reading.
#include "dialect/RowOps.h"

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

LogicalResult SampleRowsOp::verify() {
  if (getRows() < 0 || getRows() > bounds::kDimension) {
    return emitOpError() << "rows is " << getRows() << ", expected a number in [0, " << boundText(bounds::kDimension)
                         << "]";
  }
  if (std::optional<int64_t> expected = getExpected(); expected && (*expected < 1 || *expected > getRows())) {
    return emitOpError() << "expected is " << *expected << ", expected a number of rows in [1, " << getRows() << "]";
  }
  return success();
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
        return emitOpError() << "reads " << count << " columns and among them " << column
                             << ", whose entries have shape [" << entry.getShape()
                             << "], expected a shaped column to be named alone";
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
