// SPDX-License-Identifier: Apache-2.0
// Tables from texts whose columns a comma or a tab delimits.
#ifndef SOJOURN_OWNER_READCSV_H
#define SOJOURN_OWNER_READCSV_H

#include "owner/ImportMemory.h"
#include "owner/SourceFile.h"

#include <memory>
#include <set>
#include <string>

namespace arrow {
class Status;
class Table;
} // namespace arrow

namespace sojourn::owner {

/// `texts`: columns that are read as text, whatever they hold. Errors name rows and counts, never what stands there.
llvm::Expected<std::shared_ptr<arrow::Table>> readCsv(const std::string &path, const SourceFile &file,
                                                      const std::set<std::string> &texts, ImportMemory &memory);

/// Why Arrow could not read a file of `format`, as the end of a sentence about it. Its own messages may show the row
/// that it could not read, so none of them is passed on.
std::string reasonOf(const arrow::Status &status, const std::string &format, const ImportMemory *memory);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_READCSV_H
