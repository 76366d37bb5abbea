// SPDX-License-Identifier: Apache-2.0
// Where a value of a joint step lies: at all roles, at one, or in parts.
#ifndef SOJOURN_PASSES_PARTIES_WHERE_H
#define SOJOURN_PASSES_PARTIES_WHERE_H

#include "dialect/rows/Fact.h"

#include "llvm/ADT/ArrayRef.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::parties {

/// Rows that lie one after another at one role, at least one.
struct Segment {
  unsigned role = 0;
  int64_t rows = 0;
  friend auto operator<=>(const Segment &, const Segment &) = default;
};
/// The rows of a value in order. Neighbours have different roles.
using Segments = std::vector<Segment>;

int64_t rowsOf(const Segments &segments);
/// Those at one role.
int64_t rowsAt(const Segments &segments, unsigned role);
/// The set of their roles, bit by bit.
int64_t rolesOf(const Segments &segments);

struct Where {
  enum class Kind : uint8_t {
    All,  ///< each role has it
    At,   ///< one role has it
    Parts ///< each role has the rows of its segments
  };
  Kind kind = Kind::All;
  unsigned role = 0;                  ///< of At
  const Segments *segments = nullptr; ///< of Parts; equal ones are one object. Rows that are read may be one role's
  int64_t stride = 0;                 ///< of Parts: as in rows::Alignment

  static Where all() { return {}; }
  static Where at(unsigned role) { return {.kind = Kind::At, .role = role}; }
  bool isAll() const { return kind == Kind::All; }
  bool isAt() const { return kind == Kind::At; }
  bool isParts() const { return kind == Kind::Parts; }
  friend bool operator==(const Where &, const Where &) = default;
};

/// "known to all", "at role 1", "parts: 12 rows at role 0, 84 at role 1; stride 30".
std::string describe(const Where &where);

/// "role 2", "roles 0, 1 and 4", of a set of them.
std::string listed(int64_t roles);

/// Of a value in parts, the dim that holds its rows; nothing where they straddle dims.
std::optional<rows::Place> placeOf(const Where &where, llvm::ArrayRef<int64_t> shape);

} // namespace sojourn::parties

#endif // SOJOURN_PASSES_PARTIES_WHERE_H
