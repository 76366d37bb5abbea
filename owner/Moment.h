// SPDX-License-Identifier: Apache-2.0
// Dates and times in words, as ISO 8601 writes them.
#ifndef SOJOURN_OWNER_MOMENT_H
#define SOJOURN_OWNER_MOMENT_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>

namespace sojourn::owner {

/// A moment in UTC, counted from the start of 1970-01-01.
struct Moment {
  int64_t seconds = 0; ///< rounded down
  int64_t microseconds = 0;

  /// Rounded down.
  int64_t days() const;
  double value() const { return static_cast<double>(seconds) + static_cast<double>(microseconds) / 1e6; }
};

/// "2024-03-01", "2024-03-01 12:30", "2024-03-01T12:30:15.25+02:00"; UTC where no zone is named. Nothing for other
/// texts.
std::optional<Moment> parseMoment(llvm::StringRef text);
/// The greatest whole number that is at most a / b, for a positive b.
int64_t floorDivide(int64_t a, int64_t b);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_MOMENT_H
