// SPDX-License-Identifier: Apache-2.0
// Categories: declared or found, and the codes of entries among them.
#include "owner/Categories.h"

#include "owner/Entries.h"
#include "owner/Moment.h"
#include "owner/Text.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

namespace sojourn::owner {

using llvm::Twine;

namespace {

constexpr int64_t kMissing = -1, kUnknown = -2;

/// A whole number as its shortest decimal text.
std::optional<int64_t> wholeNumber(const std::string &text) {
  int64_t number = 0;
  return !llvm::StringRef(text).getAsInteger(10, number) && std::to_string(number) == text ? std::optional(number)
                                                                                           : std::nullopt;
}

/// The whole number that a double is.
std::optional<int64_t> wholeNumber(double number) {
  return number == std::floor(number) && number >= -0x1p63 && number < 0x1p63
             ? std::optional(static_cast<int64_t>(number))
             : std::nullopt;
}

template <class T>
std::optional<size_t> positionIn(const std::vector<T> &list, const std::optional<T> &entry) {
  auto found = entry ? std::find(list.begin(), list.end(), *entry) : list.end();
  return found != list.end() ? std::optional(static_cast<size_t>(found - list.begin())) : std::nullopt;
}

const arrow::DataType &entryType(const arrow::DataType &type) {
  return type.id() == arrow::Type::DICTIONARY ? *static_cast<const arrow::DictionaryType &>(type).value_type() : type;
}

/// Of an open table: those of its dictionaries in their order, else the texts in the rows, sorted.
llvm::Error findCategories(SourceColumn &column) {
  std::unordered_set<std::string_view> texts;
  std::unordered_set<int64_t> numbers;
  auto addText = [&](int64_t, std::optional<std::string_view> text) {
    if (texts.size() <= kCategories && text && !(column.isCsv && isNoValue(*text)) && texts.insert(*text).second) {
      column.meaning.texts.emplace_back(*text);
    }
  };
  auto addNumber = [&](int64_t, std::optional<int64_t> number) {
    if (numbers.size() <= kCategories && number && numbers.insert(*number).second) {
      column.meaning.numbers.push_back(*number);
    }
  };
  const bool isDictionary = column.type.id() == arrow::Type::DICTIONARY;
  for (const auto &chunk : column.values->chunks()) {
    const arrow::Array &entries =
        isDictionary ? *static_cast<const arrow::DictionaryArray &>(*chunk).dictionary() : *chunk;
    if (!visitTexts(entries, addText) && !(isInteger(*entries.type()) && visitIntegers(entries, addNumber))) {
      return failure("column '" + column.name + "' has type " + column.type.ToString() +
                     ", expected texts or whole numbers as its categories; cast it to one of them");
    }
  }
  if (!isDictionary) {
    llvm::sort(column.meaning.texts);
    llvm::sort(column.meaning.numbers);
  }
  column.meaning.isFound = true;
  return llvm::Error::success();
}

/// One slip in a text file makes a column of numbers or dates one of text.
llvm::Error checkSlips(const SourceColumn &column) {
  int64_t first = 0, slip = kMissing;
  bool hasNumbers = false;
  for (const auto &chunk : column.values->chunks()) {
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
             : failure(
                   "column '" + column.name + "' has type " + column.type.ToString() + ", because row " + Twine(slip) +
                   " (counting from 0) is the first without a number or a date; clean the data, or encode it as "
                   "numbers: declare its categories (categories, --categories " +
                   column.name + "=A,B)" +
                   (column.options.needsBounds ? ""
                                               : ", or take those that it holds (--categories " + column.name + "=*)"));
}

/// The categories are of the column's kind.
llvm::Error checkDeclared(SourceColumn &column) {
  const arrow::DataType &entries = entryType(column.type);
  if (isInteger(entries) && column.options.untyped.count(column.name) && areWholeNumbers(column.meaning.texts)) {
    for (const std::string &text : column.meaning.texts) {
      column.meaning.numbers.push_back(*wholeNumber(text));
    }
    column.meaning.texts.clear();
  }
  const bool fits =
      entries.id() == arrow::Type::NA || (column.meaning.texts.empty() ? isInteger(entries) : isText(entries));
  return fits ? llvm::Error::success()
              : failure("column '" + column.name + "' has type " + column.type.ToString() + ", its categories are " +
                        (column.meaning.texts.empty() ? "int" : "str") + "; declare categories of the column's type");
}

} // namespace

bool areWholeNumbers(const std::vector<std::string> &texts) {
  return llvm::all_of(texts, [](const std::string &text) { return wholeNumber(text).has_value(); });
}

llvm::Error checkCodes(const SourceColumn &column) {
  const auto count = static_cast<int64_t>(column.meaning.categories());
  if (count == 0) {
    return llvm::Error::success();
  }
  if (column.type.id() != arrow::Type::INT64) {
    return failure("column '" + column.name + "' has type " + column.type.ToString() +
                   ", its categories need codes of type int64");
  }
  int64_t first = 0;
  for (const auto &chunk : column.values->chunks()) {
    int64_t wrong = kMissing;
    visitIntegers(*chunk, [&](int64_t row, std::optional<int64_t> code) {
      wrong = wrong == kMissing && code && (*code < 0 || *code >= count) ? first + row : wrong;
    });
    if (wrong != kMissing) {
      return column.failed(wrong, "a code found outside of its " + Twine(count) + " categories, expected 0 to " +
                                      Twine(count - 1));
    }
    first += chunk->length();
  }
  column.options.bounds.try_emplace(column.name, Bounds{0, static_cast<double>(count - 1)});
  return llvm::Error::success();
}

llvm::Expected<ChunkedPtr> codes(SourceColumn &column) {
  if (column.meaning.categories() == 0 && column.isCsv && !column.options.untyped.count(column.name)) {
    if (llvm::Error error = checkSlips(column)) {
      return error;
    }
  }
  if (column.meaning.categories() == 0 && column.options.needsBounds) {
    return failure("column '" + column.name +
                   "' holds text or categories; on a private table they must be declared, because those found in the "
                   "rows would tell of the rows: categories={'" +
                   column.name + "': [...]}, --categories " + column.name +
                   "=A,B or a file: --bounds, from public knowledge");
  }
  if (llvm::Error error = column.meaning.categories() == 0 ? findCategories(column) : checkDeclared(column)) {
    return error;
  }
  if (std::string problem = problemOf(column.meaning); !problem.empty()) { // before a look-up that relies on it
    return failure("column '" + column.name + "' " + problem);
  }
  std::unordered_map<std::string_view, int64_t> ofText;
  std::unordered_map<int64_t, int64_t> ofNumber;
  for (size_t code = 0; code < column.meaning.categories(); ++code) {
    const auto number = static_cast<int64_t>(code);
    column.meaning.texts.empty() ? ofNumber[column.meaning.numbers[code]] = number
                                 : ofText[column.meaning.texts[code]] = number;
  }
  auto codesOf = [&](const arrow::Array &array) {
    std::vector<int64_t> found(static_cast<size_t>(array.length()), kMissing);
    auto text = [&](int64_t row, std::optional<std::string_view> entry) {
      if (entry) {
        auto known = ofText.find(*entry);
        found[static_cast<size_t>(row)] = known != ofText.end()               ? known->second
                                          : column.isCsv && isNoValue(*entry) ? kMissing
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
  if (llvm::Error error =
          column.memory.take(8 * column.values->length(), "finding the codes of column '" + column.name + "' takes")) {
    return error;
  }
  int64_t row = 0, unknown = kMissing;
  const bool isFilled = column.options.fills.count(column.name) || column.options.fillTexts.count(column.name);
  auto encoded = column.built<arrow::Int64Builder>([&](arrow::Int64Builder &builder, const arrow::Array &chunk) {
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
    return column.failed(unknown, "a value found outside of its " + Twine(column.meaning.categories()) +
                                      " categories; declare all of them, or a replacement (fills, --fill " +
                                      column.name + "=CATEGORY), or clean the data");
  }
  column.options.bounds.try_emplace(column.name,
                                    Bounds{0, std::max(static_cast<double>(column.meaning.categories()) - 1, 0.0)});
  return encoded;
}

llvm::Error resolveCategoryFill(SourceColumn &column) {
  auto words = column.options.fillTexts.find(column.name);
  auto number = column.options.fills.find(column.name);
  const bool hasWords = words != column.options.fillTexts.end(), hasNumber = number != column.options.fills.end();
  if (!hasWords && !hasNumber) {
    return llvm::Error::success();
  }
  const Meaning &meaning = column.meaning;
  // Beside a number there are words where it came as a text, or exceeds the whole numbers of a double.
  auto code = !meaning.texts.empty()
                  ? positionIn(meaning.texts, hasWords ? std::optional(words->second) : std::nullopt)
                  : positionIn(meaning.numbers, hasWords ? wholeNumber(words->second) : wholeNumber(number->second));
  if (code) {
    column.options.fills[column.name] = static_cast<double>(*code);
  } else if (meaning.texts.empty() || !hasNumber) {
    return failure("fill '" + (hasWords ? words->second : numberText(number->second)) + "' of column '" + column.name +
                   "' is none of its " + Twine(meaning.categories()) + " categories; declare one of them");
  }
  return llvm::Error::success();
}

} // namespace sojourn::owner
