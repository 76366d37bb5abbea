// SPDX-License-Identifier: Apache-2.0
// The entries of Arrow's arrays one after another: texts, or whole numbers of any width and unit.
#ifndef SOJOURN_OWNER_ENTRIES_H
#define SOJOURN_OWNER_ENTRIES_H

#include <algorithm>
#include <arrow/api.h>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace sojourn::owner {

/// How text files write a missing number, as Arrow reads them.
inline constexpr const char *kNoValue[] = {"",     "#N/A", "#N/A N/A", "#NA",     "-1.#IND", "-1.#QNAN",
                                           "-NaN", "-nan", "1.#IND",   "1.#QNAN", "N/A",     "NA",
                                           "NULL", "NaN",  "n/a",      "nan",     "null"};

inline bool isNoValue(std::string_view text) {
  return std::any_of(std::begin(kNoValue), std::end(kNoValue), [&](const char *each) { return text == each; });
}

/// Calls `take(row, text or nothing)` for each entry; false where they are no texts.
template <class Take>
bool visitTexts(const arrow::Array &array, Take take) {
  auto visit = [&](const auto &typed) {
    for (int64_t row = 0; row < typed.length(); ++row) {
      take(row, typed.IsValid(row) ? std::optional<std::string_view>(typed.GetView(row)) : std::nullopt);
    }
    return true;
  };
  switch (array.type_id()) {
  case arrow::Type::STRING: return visit(static_cast<const arrow::StringArray &>(array));
  case arrow::Type::LARGE_STRING: return visit(static_cast<const arrow::LargeStringArray &>(array));
  case arrow::Type::STRING_VIEW: return visit(static_cast<const arrow::StringViewArray &>(array));
  default: return false;
  }
}

/// Likewise for whole numbers.
template <class Take>
bool visitIntegers(const arrow::Array &array, Take take) {
  auto visit = [&](const auto &typed) {
    for (int64_t row = 0; row < typed.length(); ++row) {
      take(row, typed.IsValid(row) ? std::optional(static_cast<int64_t>(typed.Value(row))) : std::nullopt);
    }
    return true;
  };
  switch (array.type_id()) {
  case arrow::Type::UINT8: return visit(static_cast<const arrow::UInt8Array &>(array));
  case arrow::Type::INT8: return visit(static_cast<const arrow::Int8Array &>(array));
  case arrow::Type::UINT16: return visit(static_cast<const arrow::UInt16Array &>(array));
  case arrow::Type::INT16: return visit(static_cast<const arrow::Int16Array &>(array));
  case arrow::Type::UINT32: return visit(static_cast<const arrow::UInt32Array &>(array));
  case arrow::Type::INT32: return visit(static_cast<const arrow::Int32Array &>(array));
  case arrow::Type::INT64: return visit(static_cast<const arrow::Int64Array &>(array));
  case arrow::Type::DATE32: return visit(static_cast<const arrow::Date32Array &>(array));
  case arrow::Type::DATE64: return visit(static_cast<const arrow::Date64Array &>(array));
  case arrow::Type::TIMESTAMP: return visit(static_cast<const arrow::TimestampArray &>(array));
  case arrow::Type::DURATION: return visit(static_cast<const arrow::DurationArray &>(array));
  case arrow::Type::TIME32: return visit(static_cast<const arrow::Time32Array &>(array));
  case arrow::Type::TIME64: return visit(static_cast<const arrow::Time64Array &>(array));
  case arrow::Type::NA:
    for (int64_t row = 0; row < array.length(); ++row) {
      take(row, std::optional<int64_t>());
    }
    return true;
  default: return false;
  }
}

inline bool isText(const arrow::DataType &type) {
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING ||
         type.id() == arrow::Type::STRING_VIEW;
}

inline bool isInteger(const arrow::DataType &type) {
  return arrow::is_integer(type.id()) && type.id() != arrow::Type::UINT64;
}

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_ENTRIES_H
