// SPDX-License-Identifier: Apache-2.0
// Text, categories, dates, times and decimals of a source as numbers, and what these numbers stand for.
#ifndef SOJOURN_OWNER_CODES_H
#define SOJOURN_OWNER_CODES_H

#include "owner/Dataset.h"
#include "owner/ImportMemory.h"

#include "llvm/Support/Error.h"

#include <memory>

namespace arrow {
class Table;
}

namespace sojourn::owner {

/// The columns of a text file that are read as text, whatever type their first rows suggest.
std::set<std::string> textColumns(const RegisterOptions &options);

/// The table with numbers in the columns of `selection`. Afterwards `options` has bounds and fills of these columns as
/// numbers, and their full meanings. Messages name column and row, never a value.
///
/// Where the table is to be private (`needsBounds`), categories must be declared: those found in the rows would tell of
/// the rows. An entry outside of the categories takes the fill, as a missing one does. Categories of a command line
/// (`untyped`) are whole numbers where the column holds such; without any, those in the rows are asked for.
llvm::Expected<std::shared_ptr<arrow::Table>> encodeColumns(const std::shared_ptr<arrow::Table> &table,
                                                            llvm::ArrayRef<int> selection, const DatasetSource &source,
                                                            RegisterOptions &options, ImportMemory &memory);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_CODES_H
