// SPDX-License-Identifier: Apache-2.0
// Whom each row of a table is about.
#ifndef SOJOURN_OWNER_SUBJECT_H
#define SOJOURN_OWNER_SUBJECT_H

#include "llvm/Support/Error.h"

#include <string>

namespace arrow {
class Table;
} // namespace arrow

namespace sojourn::owner {

/// Fails unless the column of this name has a whole number or a text in each row, and none of them twice: what is
/// proved about a row is then true of a subject. Names rows, never a value.
llvm::Error checkSubjects(const arrow::Table &table, const std::string &column);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SUBJECT_H
