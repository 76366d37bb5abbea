// SPDX-License-Identifier: Apache-2.0
// Tables from CSV, Parquet and Arrow IPC files, as Arrow reads them.
#ifndef SOJOURN_OWNER_READFILE_H
#define SOJOURN_OWNER_READFILE_H

#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace arrow {
class Table;
}

namespace sojourn::owner {

/// Chooses the reader by the file's extension.
llvm::Expected<std::shared_ptr<arrow::Table>> readFile(const std::string &path);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_READFILE_H
