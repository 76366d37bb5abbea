// SPDX-License-Identifier: Apache-2.0
// One column of a source on its way to numbers.
#ifndef SOJOURN_OWNER_SOURCECOLUMN_H
#define SOJOURN_OWNER_SOURCECOLUMN_H

#include "owner/Dataset.h"
#include "owner/Error.h"
#include "owner/ImportMemory.h"

#include <arrow/api.h>

namespace sojourn::owner {

using ChunkedPtr = std::shared_ptr<arrow::ChunkedArray>;

struct SourceColumn {
  std::string name;
  const arrow::DataType &type;
  ChunkedPtr values;
  bool isCsv; ///< of a text file, where some texts say that there is no value
  RegisterOptions &options;
  Meaning meaning; ///< as declared; as found, too, once there are numbers
  ImportMemory &memory;

  /// Names column and row, never a value.
  llvm::Error failed(int64_t row, const llvm::Twine &what) const {
    return failure("column '" + name + "', row " + llvm::Twine(row) + " (counting from 0): " + what);
  }

  /// Another column of as many rows: `append(builder, chunk)` appends without further checks.
  template <class Builder, class Append>
  llvm::Expected<ChunkedPtr> built(Append append) const {
    Builder builder(&memory);
    arrow::Status status = builder.Reserve(values->length());
    for (size_t at = 0; status.ok() && at < values->chunks().size(); ++at) {
      append(builder, *values->chunks()[at]);
    }
    std::shared_ptr<arrow::Array> array;
    status = status.ok() ? builder.Finish(&array) : status;
    if (!status.ok()) {
      return failure("column '" + name + "': " + memory.full());
    }
    return std::make_shared<arrow::ChunkedArray>(std::move(array));
  }
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SOURCECOLUMN_H
