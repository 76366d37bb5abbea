// SPDX-License-Identifier: Apache-2.0
// What the numbers of a table's column stand for: categories, dates, and the replacement of missing entries.
#ifndef SOJOURN_RUNTIME_WIRE_MEANING_H
#define SOJOURN_RUNTIME_WIRE_MEANING_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sojourn {

/// Categories of one column.
inline constexpr size_t kCategories = 65'536;
/// One category, as UTF-8 text.
inline constexpr size_t kCategoryBytes = 1'024;
/// All categories of one table; a number counts as 8 bytes.
inline constexpr size_t kTableCategoryBytes = 16 << 20;

/// The unit of a column of dates or times.
enum class Unit : uint8_t {
  None,
  Days,   ///< since 1970-01-01
  Time,   ///< seconds since 1970-01-01, UTC
  Seconds ///< of a duration, or since midnight
};
/// "days since 1970-01-01"; empty for None.
const char *unitText(Unit unit);
/// None for a number of a later release.
Unit unitOfNumber(uint8_t number);

/// What the numbers of a column stand for, as its data owner declared it. Public, as bounds are.
struct Meaning {
  /// The category behind each code 0, 1, ...: texts or whole numbers, never both. Both empty: the column has no codes.
  std::vector<std::string> texts = {};
  std::vector<int64_t> numbers = {};
  Unit unit = Unit::None;
  /// Replaces missing entries, as a number of the column.
  std::optional<double> fill = std::nullopt;
  /// The categories were found in the rows of an open table. The owner's own knowledge: it does not travel.
  bool isFound = false;

  size_t categories() const { return texts.size() + numbers.size(); }
  /// Category `code` for people, without control characters.
  std::string category(size_t code) const;
  bool isEmpty() const { return categories() == 0 && unit == Unit::None && !fill; }
  bool hasSameCategories(const Meaning &other) const { return texts == other.texts && numbers == other.numbers; }
};
/// Null: the numbers stand for themselves. Shared, because lists of categories are long.
using MeaningPtr = std::shared_ptr<const Meaning>;

/// "0 placebo, 1 low, 2 high; missing entries are 1 low", with the first categories of many; "days since 1970-01-01".
std::string textOf(const Meaning &meaning);
/// What is wrong with a meaning, as the end of a sentence about its column ("has 70000 categories, ..."); empty if it
/// is valid.
std::string problemOf(const Meaning &meaning);
/// The bytes that its categories count as.
size_t categoryBytes(const Meaning &meaning);
/// Whether bytes are UTF-8.
bool isUtf8(const std::string &text);

} // namespace sojourn

#endif // SOJOURN_RUNTIME_WIRE_MEANING_H
