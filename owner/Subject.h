// SPDX-License-Identifier: Apache-2.0
// Whom each row of a table is about.
#ifndef SOJOURN_OWNER_SUBJECT_H
#define SOJOURN_OWNER_SUBJECT_H

#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace arrow {
class Table;
} // namespace arrow

namespace sojourn::owner {

/// The normalised subject of each row, in order: what tells subjects apart, here and between owners. A whole number is
/// its shortest decimal text ("7", "-12"), of whatever width it was. A text is its bytes without white space of ASCII
/// around them, and otherwise as it is: no case is folded, no digit or accent rewritten, so "007" is not 7 and "Ada"
/// not "ada". Who aligns tables of two owners spells subjects alike in both.
///
/// One text for all, as tables have many rows; wiped when it goes.
class Subjects {
public:
  Subjects() = default;
  Subjects(Subjects &&) = default;
  Subjects &operator=(Subjects &&other) noexcept;
  Subjects(const Subjects &) = delete;
  Subjects &operator=(const Subjects &) = delete;
  ~Subjects() { wipe(); }

  int64_t size() const { return static_cast<int64_t>(ends.size()); }
  std::string_view operator[](int64_t row) const;
  /// `text` is normalised already.
  void add(std::string_view text);

private:
  void wipe();

  std::vector<char> texts;
  std::vector<uint64_t> ends; ///< in `texts`
};

/// Fails unless the column of this name has a whole number or a text in each row, and none of them twice once they are
/// normalised: what is proved about a row is then true of a subject. Names rows, never a value.
llvm::Expected<Subjects> readSubjects(const arrow::Table &table, const std::string &column);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SUBJECT_H
