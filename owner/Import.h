// SPDX-License-Identifier: Apache-2.0
// From files and arrays to checked columns.
#ifndef SOJOURN_OWNER_IMPORT_H
#define SOJOURN_OWNER_IMPORT_H

#include "owner/Dataset.h"

#include "llvm/Support/Error.h"

namespace sojourn::owner {

/// Reads a source and enforces what the options declare: known names, numbers (of texts, dates and times see Codes.h),
/// finite values (or a fill), bounds by clamping. Messages name column and row, never a value. Where a column names the
/// subjects they come with the table, for its owner alone.
llvm::Expected<ImportedTable> importTable(const DatasetSource &source, const RegisterOptions &options);

/// Of a private table: which of its `columns` columns have no bounds, and the way out.
std::string lackingBounds(llvm::ArrayRef<std::string> names, size_t columns);

/// BLAKE2b-256 over schema and contents, as hex: for the owner's own books only.
std::string contentHash(const ImportedTable &table);

/// Reads `[column]` rules from a TOML file: `age = [0, 120]` or `age = {lower = 0, upper = 120,
/// fill = 0}`, `arm = {categories = ["low", "high"], fill = "low"}`, `visit = [2020-01-01, 2024-12-31]`, at top level
/// or in a table `bounds`.
llvm::Error readBoundsFile(const std::string &path, RegisterOptions &options);

/// Parses `column=lower:upper`, `column=value`, and `column=a,b,c`, `column=@FILE` with one category per line or
/// `column=*` for those found in the rows.
llvm::Error parseBound(const std::string &text, RegisterOptions &options);
llvm::Error parseFill(const std::string &text, RegisterOptions &options);
llvm::Error parseCategories(const std::string &text, RegisterOptions &options);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_IMPORT_H
