// SPDX-License-Identifier: Apache-2.0
// Columns of text, categories, dates, times and decimals as int64 or double.
#include "owner/Codes.h"

#include "owner/Entries.h"
#include "owner/Error.h"
#include "owner/Moment.h"
#include "owner/Text.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <arrow/api.h>
#include <cmath>
#include <filesystem>
#include <limits>
#include <unordered_map>
#include <unordered_set>

namespace sojourn::owner {

using llvm::Twine;
using ChunkedPtr = std::shared_ptr<arrow::ChunkedArray>;

namespace {

constexpr int64_t kMissing = -1, kUnknown = -2;

/// A whole number as its shortest decimal text.
std::optional<int64_t> wholeNumber(const std::string &text) {
  int64_t number = 0;
  return !llvm::StringRef(text).getAsInteger(10, number) && std::to_string(number) == text ? std::optional(number)
                                                                                           : std::nullopt;
}

/// A whole number without an exponent.
std::string shortest(double number) {
  constexpr double kExact = 0x1p53;
  return number == std::floor(number) && std::abs(number) <= kExact ? std::to_string(static_cast<int64_t>(number))
                                                                    : numberText(number);
}

bool areWholeNumbers(const std::vector<std::string> &texts) {
  return llvm::all_of(texts, [](const std::string &text) { return wholeNumber(text).has_value(); });
}

const arrow::DataType &entryType(const arrow::DataType &type) {
  return type.id() == arrow::Type::DICTIONARY ? *static_cast<const arrow::DictionaryType &>(type).value_type() : type;
}

int64_t perSecond(arrow::TimeUnit::type unit) {
  switch (unit) {
  case arrow::TimeUnit::SECOND: return 1;
  case arrow::TimeUnit::MILLI: return 1'000;
  case arrow::TimeUnit::MICRO: return 1'000'000;
  default: return 1'000'000'000;
  }
}

/// One column on its way to numbers.
class Encoder final {
public:
  Encoder(const arrow::Field &field, ChunkedPtr values, bool isCsv, RegisterOptions &options)
      : name(field.name()), type(*field.type()), values(std::move(values)), isCsv(isCsv), options(options) {
    if (auto declared = options.meanings.find(name); declared != options.meanings.end()) {
      meaning = declared->second;
    }
  }

  /// Null where the entries are numbers already.
  llvm::Expected<ChunkedPtr> encode(bool isFile);

private:
  llvm::Error failed(int64_t row, const Twine &what) const {
    return failure("column '" + name + "', row " + Twine(row) + " (counting from 0): " + what);
  }
  llvm::Expected<ChunkedPtr> numbers(bool isFile);
  llvm::Expected<ChunkedPtr> codes();
  llvm::Error checkSlips() const;
  llvm::Error findCategories();
  llvm::Error checkDeclared();
  llvm::Error checkCodes() const;
  llvm::Expected<ChunkedPtr> days();
  llvm::Expected<ChunkedPtr> seconds(int64_t parts);
  llvm::Expected<ChunkedPtr> decimals() const;
  llvm::Error resolveTerms();
  llvm::Expected<double> numberOf(const std::string &text, const char *what) const;

  /// Appends with `append(builder, array)` for each chunk.
  template <class Builder, class Append>
  llvm::Expected<ChunkedPtr> built(Append append) const {
    Builder builder;
    arrow::Status status = builder.Reserve(values->length());
    for (size_t at = 0; status.ok() && at < values->chunks().size(); ++at) {
      append(builder, *values->chunks()[at]);
    }
    std::shared_ptr<arrow::Array> array;
    status = status.ok() ? builder.Finish(&array) : status;
    if (!status.ok()) {
      return failure("column '" + name + "': " + status.message());
    }
    return std::make_shared<arrow::ChunkedArray>(std::move(array));
  }

  const std::string name;
  const arrow::DataType &type;
  const ChunkedPtr values;
  const bool isCsv;
  RegisterOptions &options;
  Meaning meaning;
};

llvm::Expected<ChunkedPtr> Encoder::encode(bool isFile) {
  auto encoded = numbers(isFile);
  if (!encoded) {
    return encoded;
  }
  if (llvm::Error error = isFile ? resolveTerms() : llvm::Error::success()) {
    return error;
  }
  if (auto fill = options.fills.find(name); fill != options.fills.end()) {
    meaning.fill = fill->second;
  }
  const auto last = static_cast<double>(meaning.categories()) - 1;
  if (auto bounds = options.bounds.find(name);
      last >= 0 && (bounds->second.lower != 0 || bounds->second.upper != last)) {
    return failure("column '" + name + "' has " + Twine(meaning.categories()) +
                   " categories and other bounds than those of their codes, 0 to " + Twine(meaning.categories() - 1) +
                   "; leave its bounds out");
  }
  if (std::string problem = problemOf(meaning); !problem.empty()) {
    return failure("column '" + name + "' " + problem);
  }
  options.meanings[name] = std::move(meaning);
  return encoded;
}

llvm::Expected<ChunkedPtr> Encoder::numbers(bool isFile) {
  if (!isFile) {
    if (llvm::Error error = checkCodes()) {
      return error;
    }
    return nullptr;
  }
  const bool hasOffsets = isText(type) || type.id() == arrow::Type::DICTIONARY;
  if (arrow::Status status = hasOffsets ? values->ValidateFull() : arrow::Status::OK(); !status.ok()) {
    return failure("column '" + name + "' is damaged: " + status.message());
  }
  if (meaning.unit == Unit::Days || arrow::is_date(type.id())) {
    return days();
  }
  if (meaning.categories() > 0 || isText(type) || type.id() == arrow::Type::DICTIONARY || options.untyped.count(name)) {
    return codes();
  }
  switch (type.id()) {
  case arrow::Type::TIMESTAMP:
    meaning.unit = Unit::Time;
    return seconds(perSecond(static_cast<const arrow::TimestampType &>(type).unit()));
  case arrow::Type::DURATION:
    meaning.unit = Unit::Seconds;
    return seconds(perSecond(static_cast<const arrow::DurationType &>(type).unit()));
  case arrow::Type::TIME32:
  case arrow::Type::TIME64:
    meaning.unit = Unit::Seconds;
    return seconds(perSecond(static_cast<const arrow::TimeType &>(type).unit()));
  case arrow::Type::DECIMAL32:
  case arrow::Type::DECIMAL64:
  case arrow::Type::DECIMAL128:
  case arrow::Type::DECIMAL256: return decimals();
  default: return nullptr;
  }
}

/// Arrays hold codes already.
llvm::Error Encoder::checkCodes() const {
  const auto count = static_cast<int64_t>(meaning.categories());
  if (count == 0) {
    return llvm::Error::success();
  }
  if (type.id() != arrow::Type::INT64) {
    return failure("column '" + name + "' has type " + type.ToString() + ", its categories need codes of type int64");
  }
  int64_t first = 0;
  for (const auto &chunk : values->chunks()) {
    int64_t wrong = kMissing;
    visitIntegers(*chunk, [&](int64_t row, std::optional<int64_t> code) {
      wrong = wrong == kMissing && code && (*code < 0 || *code >= count) ? first + row : wrong;
    });
    if (wrong != kMissing) {
      return failed(wrong,
                    "a code found outside of its " + Twine(count) + " categories, expected 0 to " + Twine(count - 1));
    }
    first += chunk->length();
  }
  options.bounds.try_emplace(name, Bounds{0, static_cast<double>(count - 1)});
  return llvm::Error::success();
}

/// Of an open table: those of its dictionaries in their order, else the texts in the rows, sorted.
llvm::Error Encoder::findCategories() {
  std::unordered_set<std::string_view> texts;
  std::unordered_set<int64_t> numbers;
  auto addText = [&](int64_t, std::optional<std::string_view> text) {
    if (texts.size() <= kCategories && text && !(isCsv && isNoValue(*text)) && texts.insert(*text).second) {
      meaning.texts.emplace_back(*text);
    }
  };
  auto addNumber = [&](int64_t, std::optional<int64_t> number) {
    if (numbers.size() <= kCategories && number && numbers.insert(*number).second) {
      meaning.numbers.push_back(*number);
    }
  };
  const bool isDictionary = type.id() == arrow::Type::DICTIONARY;
  for (const auto &chunk : values->chunks()) {
    const arrow::Array &entries =
        isDictionary ? *static_cast<const arrow::DictionaryArray &>(*chunk).dictionary() : *chunk;
    if (!visitTexts(entries, addText) && !(isInteger(*entries.type()) && visitIntegers(entries, addNumber))) {
      return failure("column '" + name + "' has type " + type.ToString() +
                     ", expected texts or whole numbers as its categories; cast it to one of them");
    }
  }
  if (!isDictionary) {
    llvm::sort(meaning.texts);
    llvm::sort(meaning.numbers);
  }
  meaning.isFound = true;
  return llvm::Error::success();
}

/// One slip in a text file makes a column of numbers or dates one of text.
llvm::Error Encoder::checkSlips() const {
  int64_t first = 0, slip = kMissing;
  bool hasNumbers = false;
  for (const auto &chunk : values->chunks()) {
    visitTexts(*chunk, [&](int64_t row, std::optional<std::string_view> text) {
      double number = 0;
      if (text && !isNoValue(*text)) {
        const bool isNumber = !llvm::StringRef(*text).getAsDouble(number) || parseMoment(*text);
        hasNumbers = hasNumbers || isNumber;
        slip = slip == kMissing && !isNumber ? first + row : slip;
      }
    });
    first += chunk->length();
  }
  return !hasNumbers || slip == kMissing
             ? llvm::Error::success()
             : failure("column '" + name + "' has type " + type.ToString() + ", because row " + Twine(slip) +
                       " (counting from 0) is the first without a number or a date; clean the data, or encode it as "
                       "numbers: declare its categories (categories, --categories " +
                       name + "=A,B)" +
                       (options.needsBounds ? "" : ", or take those that it holds (--categories " + name + "=*)"));
}

/// The categories are of the column's kind.
llvm::Error Encoder::checkDeclared() {
  const arrow::DataType &entries = entryType(type);
  if (isInteger(entries) && options.untyped.count(name) && areWholeNumbers(meaning.texts)) {
    for (const std::string &text : meaning.texts) {
      meaning.numbers.push_back(*wholeNumber(text));
    }
    meaning.texts.clear();
  }
  const bool fits = entries.id() == arrow::Type::NA || (meaning.texts.empty() ? isInteger(entries) : isText(entries));
  return fits ? llvm::Error::success()
              : failure("column '" + name + "' has type " + type.ToString() + ", its categories are " +
                        (meaning.texts.empty() ? "int" : "str") + "; declare categories of the column's type");
}

llvm::Expected<ChunkedPtr> Encoder::codes() {
  if (meaning.categories() == 0 && isCsv && !options.untyped.count(name)) {
    if (llvm::Error error = checkSlips()) {
      return error;
    }
  }
  if (meaning.categories() == 0 && options.needsBounds) {
    return failure("column '" + name +
                   "' holds text or categories; on a private table they must be declared, because those found in the "
                   "rows would tell of the rows: categories={'" +
                   name + "': [...]}, --categories " + name + "=A,B or a file: --bounds, from public knowledge");
  }
  if (llvm::Error error = meaning.categories() == 0 ? findCategories() : checkDeclared()) {
    return error;
  }
  if (std::string problem = problemOf(meaning); !problem.empty()) { // before a look-up that relies on it
    return failure("column '" + name + "' " + problem);
  }
  std::unordered_map<std::string_view, int64_t> ofText;
  std::unordered_map<int64_t, int64_t> ofNumber;
  for (size_t code = 0; code < meaning.categories(); ++code) {
    const auto number = static_cast<int64_t>(code);
    meaning.texts.empty() ? ofNumber[meaning.numbers[code]] = number : ofText[meaning.texts[code]] = number;
  }
  auto codesOf = [&](const arrow::Array &array) {
    std::vector<int64_t> found(static_cast<size_t>(array.length()), kMissing);
    auto text = [&](int64_t row, std::optional<std::string_view> entry) {
      if (entry) {
        auto known = ofText.find(*entry);
        found[static_cast<size_t>(row)] = known != ofText.end()        ? known->second
                                          : isCsv && isNoValue(*entry) ? kMissing
                                                                       : kUnknown;
      }
    };
    auto number = [&](int64_t row, std::optional<int64_t> entry) {
      if (entry) {
        auto known = ofNumber.find(*entry);
        found[static_cast<size_t>(row)] = known != ofNumber.end() ? known->second : kUnknown;
      }
    };
    if (!visitTexts(array, text)) {
      visitIntegers(array, number);
    }
    return found;
  };
  int64_t row = 0, unknown = kMissing;
  const bool isFilled = options.fills.count(name) || options.fillTexts.count(name);
  auto encoded = built<arrow::Int64Builder>([&](arrow::Int64Builder &builder, const arrow::Array &chunk) {
    auto add = [&](int64_t code) {
      unknown = code == kUnknown && unknown == kMissing ? row : unknown;
      code >= 0 ? builder.UnsafeAppend(code) : builder.UnsafeAppendNull();
      ++row;
    };
    if (chunk.type_id() == arrow::Type::DICTIONARY) {
      auto &typed = static_cast<const arrow::DictionaryArray &>(chunk);
      const std::vector<int64_t> known = codesOf(*typed.dictionary());
      for (int64_t at = 0; at < typed.length(); ++at) {
        add(typed.IsValid(at) ? known[static_cast<size_t>(typed.GetValueIndex(at))] : kMissing);
      }
    } else {
      llvm::for_each(codesOf(chunk), add);
    }
  });
  if (encoded && unknown != kMissing && !isFilled) {
    return failed(unknown, "a value found outside of its " + Twine(meaning.categories()) +
                               " categories; declare all of them, or a replacement (fills, --fill " + name +
                               "=CATEGORY), or clean the data");
  }
  options.bounds.try_emplace(name, Bounds{0, std::max(static_cast<double>(meaning.categories()) - 1, 0.0)});
  return encoded;
}

llvm::Expected<ChunkedPtr> Encoder::days() {
  if (meaning.categories() > 0) {
    return failure("column '" + name + "' is declared as dates and has categories; declare one of the two");
  }
  meaning.unit = Unit::Days;
  int64_t perDay = 1;
  switch (type.id()) {
  case arrow::Type::DATE32:
  case arrow::Type::NA: break;
  case arrow::Type::DATE64: perDay = int64_t{86'400} * 1'000; break;
  case arrow::Type::TIMESTAMP:
    perDay = 86'400 * perSecond(static_cast<const arrow::TimestampType &>(type).unit());
    break;
  default:
    if (!isText(type)) {
      return failure("column '" + name + "' has type " + type.ToString() +
                     ", expected dates, times or texts such as 2024-03-01");
    }
  }
  int64_t first = 0, wrong = kMissing;
  auto encoded = built<arrow::Int64Builder>([&](arrow::Int64Builder &builder, const arrow::Array &chunk) {
    auto add = [&](std::optional<int64_t> day) { day ? builder.UnsafeAppend(*day) : builder.UnsafeAppendNull(); };
    auto text = [&](int64_t row, std::optional<std::string_view> entry) {
      auto moment = entry ? parseMoment({entry->data(), entry->size()}) : std::nullopt;
      const bool isMissing = !entry || (isCsv && isNoValue(*entry));
      wrong = wrong == kMissing && !isMissing && !moment ? first + row : wrong;
      add(moment ? std::optional(moment->days()) : std::nullopt);
    };
    if (!visitTexts(chunk, text)) {
      visitIntegers(chunk, [&](int64_t, std::optional<int64_t> count) {
        add(count ? std::optional(floorDivide(*count, perDay)) : std::nullopt);
      });
    }
    first += chunk.length();
  });
  if (encoded && wrong != kMissing) {
    return failed(wrong, "a value found that is no date, expected one such as 2024-03-01; clean the data");
  }
  return encoded;
}

llvm::Expected<ChunkedPtr> Encoder::seconds(int64_t parts) {
  return built<arrow::DoubleBuilder>([&](arrow::DoubleBuilder &builder, const arrow::Array &chunk) {
    visitIntegers(chunk, [&](int64_t, std::optional<int64_t> count) {
      // Counts of nanoseconds exceed the whole numbers of a double.
      const int64_t whole = count ? floorDivide(*count, parts) : 0, part = count ? *count % parts : 0;
      count ? builder.UnsafeAppend(static_cast<double>(whole) +
                                   static_cast<double>(part < 0 ? part + parts : part) / static_cast<double>(parts))
            : builder.UnsafeAppendNull();
    });
  });
}

llvm::Expected<ChunkedPtr> Encoder::decimals() const {
  const int32_t scale = static_cast<const arrow::DecimalType &>(type).scale();
  return built<arrow::DoubleBuilder>([&](arrow::DoubleBuilder &builder, const arrow::Array &chunk) {
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

llvm::Expected<double> Encoder::numberOf(const std::string &text, const char *what) const {
  double number = 0;
  if (!llvm::StringRef(text).getAsDouble(number)) { // beside a date, as the other bound
    return number;
  }
  auto moment = parseMoment(text);
  if (moment && meaning.unit == Unit::Days) {
    return static_cast<double>(moment->days());
  }
  if (moment && meaning.unit == Unit::Time) {
    return moment->value();
  }
  const bool isDated = meaning.unit == Unit::Days || meaning.unit == Unit::Time;
  return failure(Twine(what) + " '" + text + "' of column '" + name + "' must be a number" +
                 (isDated ? " or a date such as 2024-03-01" : ""));
}

/// Fills and bounds in words.
llvm::Error Encoder::resolveTerms() {
  auto words = options.fillTexts.find(name);
  auto fill = options.fills.find(name);
  if (meaning.categories() > 0 && (words != options.fillTexts.end() || fill != options.fills.end())) {
    const std::string text = words != options.fillTexts.end() ? words->second : shortest(fill->second);
    const std::optional<int64_t> whole = wholeNumber(text);
    const auto ofText = llvm::find(meaning.texts, text) - meaning.texts.begin();
    const auto ofNumber = whole ? llvm::find(meaning.numbers, *whole) - meaning.numbers.begin()
                                : static_cast<std::ptrdiff_t>(meaning.numbers.size());
    const std::ptrdiff_t code = meaning.texts.empty() ? ofNumber : ofText;
    if (code < static_cast<std::ptrdiff_t>(meaning.categories())) {
      options.fills[name] = static_cast<double>(code);
    } else if (meaning.texts.empty() || fill == options.fills.end()) { // a number beside texts is a code
      return failure("fill '" + text + "' of column '" + name + "' is none of its " + Twine(meaning.categories()) +
                     " categories; declare one of them");
    }
  } else if (words != options.fillTexts.end() && fill == options.fills.end()) {
    auto number = numberOf(words->second, "fill");
    if (!number) {
      return number.takeError();
    }
    options.fills[name] = *number;
  }
  if (auto bounds = options.boundTexts.find(name); bounds != options.boundTexts.end()) {
    auto lower = numberOf(bounds->second.first, "bound");
    if (!lower) {
      return lower.takeError();
    }
    auto upper = numberOf(bounds->second.second, "bound");
    if (!upper) {
      return upper.takeError();
    }
    options.bounds[name] = {*lower, *upper};
  }
  return llvm::Error::success();
}

} // namespace

std::set<std::string> textColumns(const RegisterOptions &options) {
  std::set<std::string> names;
  for (const auto &[name, meaning] : options.meanings) {
    const bool isUntyped = options.untyped.count(name), areTexts = !areWholeNumbers(meaning.texts);
    const bool isFound = isUntyped && meaning.categories() == 0;
    if (meaning.unit == Unit::Days || isFound || (!meaning.texts.empty() && (areTexts || !isUntyped))) {
      names.insert(name);
    }
  }
  return names;
}

llvm::Expected<std::shared_ptr<arrow::Table>> encodeColumns(const std::shared_ptr<arrow::Table> &table,
                                                            llvm::ArrayRef<int> selection, const DatasetSource &source,
                                                            RegisterOptions &options) {
  std::string extension = std::filesystem::path(source.path).extension().string();
  const bool isCsv = extension == ".csv" || extension == ".tsv";
  std::vector<std::string> lacking;
  for (int index : selection) {
    const arrow::Field &field = *table->schema()->field(index);
    const bool isCoded = isText(*field.type()) || field.type()->id() == arrow::Type::DICTIONARY;
    if (options.needsBounds && isCoded && !source.path.empty() && !options.meanings.count(field.name())) {
      lacking.push_back(field.name());
    }
  }
  if (lacking.size() > 1) { // one is named with its own advice below
    return failure("columns '" + llvm::join(llvm::ArrayRef(lacking).take_front(20), "', '") + "'" +
                   (lacking.size() > 20 ? ", ..." : "") +
                   " hold text or categories; on a private table they must be declared, because those found in the "
                   "rows would tell of the rows: categories={'" +
                   lacking.front() + "': [...], ...}, --categories " + lacking.front() +
                   "=A,B or a file: --bounds, from public knowledge; or leave the columns out");
  }
  std::shared_ptr<arrow::Table> result = table;
  size_t bytes = 0;
  for (int index : selection) {
    const arrow::Field &field = *table->schema()->field(index);
    auto encoded = Encoder(field, table->column(index), isCsv, options).encode(!source.path.empty());
    if (!encoded) {
      return encoded.takeError();
    }
    bytes += categoryBytes(options.meanings[field.name()]);
    if (bytes > kTableCategoryBytes) {
      return failure("the categories up to column '" + field.name() + "' have " + Twine(bytes) +
                     " bytes, the limit of "
                     "a table is " +
                     Twine(kTableCategoryBytes) + "; shorten them, or leave columns out");
    }
    if (*encoded) {
      auto replaced = result->SetColumn(index, arrow::field(field.name(), (*encoded)->type()), *encoded);
      if (!replaced.ok()) {
        return failure("column '" + field.name() + "': " + replaced.status().message());
      }
      result = *replaced;
    }
  }
  return result;
}

} // namespace sojourn::owner
