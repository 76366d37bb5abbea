// SPDX-License-Identifier: Apache-2.0
// Tables from CSV, Parquet and Arrow IPC files, as Arrow reads them; and the file that a table rests in.
#ifndef SOJOURN_OWNER_READFILE_H
#define SOJOURN_OWNER_READFILE_H

#include "owner/Dataset.h"
#include "owner/ImportMemory.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <set>
#include <string>

namespace arrow {
class Table;
}

namespace sojourn::owner {

/// Chooses the reader by the file's extension. `texts`: columns of a text file that are read as text, whatever they
/// hold. The table's memory is the import's.
llvm::Expected<std::shared_ptr<arrow::Table>> readFile(const std::string &path, const std::set<std::string> &texts,
                                                       ImportMemory &memory);

/// Writes a table as one Arrow IPC file of mode 0600 (atomically: beside it, then renamed).
llvm::Error writeTable(const ImportedTable &table, const std::string &path);

/// Maps a file that `writeTable` wrote into memory. `expected` gives names, elements and bounds.
llvm::Expected<ImportedTable> mapTable(const std::string &path, int64_t rows, std::vector<Column> expected);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_READFILE_H
