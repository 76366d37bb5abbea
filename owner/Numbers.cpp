// SPDX-License-Identifier: Apache-2.0
// Dates, times, durations and decimals as numbers, and what stands for them in words.
#include "owner/Numbers.h"

#include "owner/Entries.h"
#include "owner/Moment.h"

namespace sojourn::owner {

using llvm::Twine;

namespace {

int64_t perSecond(arrow::TimeUnit::type unit) {
  switch (unit) {
  case arrow::TimeUnit::SECOND: return 1;
  case arrow::TimeUnit::MILLI: return 1'000;
  case arrow::TimeUnit::MICRO: return 1'000'000;
  default: return 1'000'000'000;
  }
}

llvm::Expected<ChunkedPtr> seconds(SourceColumn &column, Unit unit, int64_t parts) {
  column.meaning.unit = unit;
  return column.built<arrow::DoubleBuilder>([&](arrow::DoubleBuilder &builder, const arrow::Array &chunk) {
    visitIntegers(chunk, [&](int64_t, std::optional<int64_t> count) {
      // Counts of nanoseconds exceed the whole numbers of a double.
      const int64_t whole = count ? floorDivide(*count, parts) : 0, part = count ? *count % parts : 0;
      count ? builder.UnsafeAppend(static_cast<double>(whole) +
                                   static_cast<double>(part < 0 ? part + parts : part) / static_cast<double>(parts))
            : builder.UnsafeAppendNull();
    });
  });
}

llvm::Expected<ChunkedPtr> decimals(const SourceColumn &column) {
  const int32_t scale = static_cast<const arrow::DecimalType &>(column.type).scale();
  return column.built<arrow::DoubleBuilder>([&](arrow::DoubleBuilder &builder, const arrow::Array &chunk) {
    auto visit = [&](const auto &typed, auto zero) {
      for (int64_t row = 0; row < typed.length(); ++row) {
        typed.IsValid(row) ? builder.UnsafeAppend(decltype(zero)(typed.GetValue(row)).ToDouble(scale))
                           : builder.UnsafeAppendNull();
      }
    };
    switch (chunk.type_id()) {
    case arrow::Type::DECIMAL32: return visit(static_cast<const arrow::Decimal32Array &>(chunk), arrow::Decimal32());
    case arrow::Type::DECIMAL64: return visit(static_cast<const arrow::Decimal64Array &>(chunk), arrow::Decimal64());
    case arrow::Type::DECIMAL128: return visit(static_cast<const arrow::Decimal128Array &>(chunk), arrow::Decimal128());
    default: return visit(static_cast<const arrow::Decimal256Array &>(chunk), arrow::Decimal256());
    }
  });
}

} // namespace

llvm::Expected<ChunkedPtr> days(SourceColumn &column) {
  if (column.meaning.categories() > 0) {
    return failure("column '" + column.name + "' is declared as dates and has categories; declare one of the two");
  }
  column.meaning.unit = Unit::Days;
  int64_t perDay = 1;
  switch (column.type.id()) {
  case arrow::Type::DATE32:
  case arrow::Type::NA: break;
  case arrow::Type::DATE64: perDay = int64_t{86'400} * 1'000; break;
  case arrow::Type::TIMESTAMP:
    perDay = 86'400 * perSecond(static_cast<const arrow::TimestampType &>(column.type).unit());
    break;
  default:
    if (!isText(column.type)) {
      return failure("column '" + column.name + "' has type " + column.type.ToString() +
                     ", expected dates, times or texts such as 2024-03-01");
    }
  }
  int64_t first = 0;
  std::optional<int64_t> wrong;
  auto encoded = column.built<arrow::Int64Builder>([&](arrow::Int64Builder &builder, const arrow::Array &chunk) {
    auto add = [&](std::optional<int64_t> day) { day ? builder.UnsafeAppend(*day) : builder.UnsafeAppendNull(); };
    auto text = [&](int64_t row, std::optional<std::string_view> entry) {
      auto moment = entry ? parseMoment({entry->data(), entry->size()}) : std::nullopt;
      const bool isMissing = !entry || (column.isCsv && isNoValue(*entry));
      wrong = !wrong && !isMissing && !moment ? std::optional(first + row) : wrong;
      add(moment ? std::optional(moment->days()) : std::nullopt);
    };
    if (!visitTexts(chunk, text)) {
      visitIntegers(chunk, [&](int64_t, std::optional<int64_t> count) {
        add(count ? std::optional(floorDivide(*count, perDay)) : std::nullopt);
      });
    }
    first += chunk.length();
  });
  if (encoded && wrong) {
    return column.failed(*wrong, "a value found that is no date, expected one such as 2024-03-01; clean the data");
  }
  return encoded;
}

llvm::Expected<ChunkedPtr> numbers(SourceColumn &column) {
  switch (column.type.id()) {
  case arrow::Type::TIMESTAMP:
    return seconds(column, Unit::Time, perSecond(static_cast<const arrow::TimestampType &>(column.type).unit()));
  case arrow::Type::DURATION:
    return seconds(column, Unit::Seconds, perSecond(static_cast<const arrow::DurationType &>(column.type).unit()));
  case arrow::Type::TIME32:
  case arrow::Type::TIME64:
    return seconds(column, Unit::Seconds, perSecond(static_cast<const arrow::TimeType &>(column.type).unit()));
  case arrow::Type::DECIMAL32:
  case arrow::Type::DECIMAL64:
  case arrow::Type::DECIMAL128:
  case arrow::Type::DECIMAL256: return decimals(column);
  default: return nullptr;
  }
}

llvm::Expected<double> numberOf(const SourceColumn &column, const std::string &text, const char *what) {
  double number = 0;
  if (!llvm::StringRef(text).getAsDouble(number)) { // beside a date, as the other bound
    return number;
  }
  auto moment = parseMoment(text);
  if (moment && column.meaning.unit == Unit::Days) {
    return static_cast<double>(moment->days());
  }
  if (moment && column.meaning.unit == Unit::Time) {
    return moment->value();
  }
  const bool isDated = column.meaning.unit == Unit::Days || column.meaning.unit == Unit::Time;
  return failure(Twine(what) + " '" + text + "' of column '" + column.name + "' must be a number" +
                 (isDated ? " or a date such as 2024-03-01" : ""));
}

} // namespace sojourn::owner
