// SPDX-License-Identifier: Apache-2.0
// Columns of dates, times, durations and decimals as numbers.
#ifndef SOJOURN_OWNER_NUMBERS_H
#define SOJOURN_OWNER_NUMBERS_H

#include "owner/SourceColumn.h"

namespace sojourn::owner {

/// Dates, times and texts that name them, as days since 1970-01-01.
llvm::Expected<ChunkedPtr> days(SourceColumn &column);

/// Times and durations as seconds, decimals as doubles, with their unit; null for columns that are numbers already.
llvm::Expected<ChunkedPtr> numbers(SourceColumn &column);

/// The number that a fill or a bound in words stands for; `what` names it in messages.
llvm::Expected<double> numberOf(const SourceColumn &column, const std::string &text, const char *what);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_NUMBERS_H
