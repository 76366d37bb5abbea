// SPDX-License-Identifier: Apache-2.0
// Rows of datasets: sampling and reading.
#include "dialect/Dialect.h"

using namespace mlir;
using namespace sojourn;

LogicalResult SampleRowsOp::verify() {
  if (getRows() < 0 || getRows() > kMaxElements) {
    return emitOpError() << "rows is " << getRows() << ", expected a number in [0, 2^40]";
  }
  RankedTensorType type = getResult().getType();
  if (type.getRank() != 1) {
    return emitOpError() << "result has type " << type << ", expected rank 1";
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
  SmallVector<int64_t> expected = {indices.getDimSize(0), static_cast<int64_t>(getColumns().size())};
  if (result.getShape() != ArrayRef<int64_t>(expected)) {
    return emitOpError() << "result has type " << result << ", expected shape [" << expected[0] << ", " << expected[1]
                         << "]: one row per index, one column per name";
  }
  for (Attribute column : getColumns()) {
    if (!table.getColumnType(cast<StringAttr>(column).getValue())) {
      return emitOpError() << "reads column " << column << ", which " << table << " does not have";
    }
  }
  return success();
}
