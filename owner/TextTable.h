// SPDX-License-Identifier: Apache-2.0
// Tables for a terminal.
#ifndef SOJOURN_OWNER_TEXTTABLE_H
#define SOJOURN_OWNER_TEXTTABLE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace sojourn::owner {

/// Rows of equal length, printed as columns as wide as their widest cell; the first row heads.
void printTable(llvm::ArrayRef<std::vector<std::string>> rows, llvm::raw_ostream &out);

/// "2026-11-21 10:30:00", local time.
std::string timeText(int64_t milliseconds);

/// Four digits.
std::string shortText(double number);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_TEXTTABLE_H
