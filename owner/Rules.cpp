// SPDX-License-Identifier: Apache-2.0
// What a data owner declares about columns: from the command line and from TOML files.
#include "owner/Error.h"
#include "owner/Import.h"
#include "owner/Moment.h"
#include "owner/SourceFile.h"
#include "owner/Toml.h"

#include <sstream>

namespace sojourn::owner {

using llvm::Twine;

namespace {

/// Of a file of bounds, categories among them.
constexpr int64_t kRulesBytes = int64_t{64} << 20;

/// A date or a time of TOML as text; nothing for other values.
std::optional<std::string> momentText(const toml::node &node) {
  std::ostringstream text;
  if (const auto *date = node.as_date()) {
    text << date->get();
  } else if (const auto *time = node.as_date_time()) {
    text << time->get();
  } else {
    return std::nullopt;
  }
  return text.str();
}

bool addBounds(const std::string &column, const toml::node &lower, const toml::node &upper, RegisterOptions &options) {
  if (auto low = lower.value<double>(), high = upper.value<double>(); low && high) {
    options.bounds[column] = {*low, *high};
    return true;
  }
  auto low = momentText(lower), high = momentText(upper);
  if (low && high) {
    options.boundTexts[column] = {*low, *high};
  }
  return low && high;
}

bool addFill(const std::string &column, const toml::node &fill, RegisterOptions &options) {
  if (const auto *whole = fill.as_integer()) {
    constexpr int64_t kExact = int64_t{1} << 53;
    const int64_t number = whole->get();
    options.fills[column] = static_cast<double>(number);
    if (number < -kExact || number > kExact) {
      options.fillTexts[column] = std::to_string(number); // as a category it is exact
    }
    return true;
  }
  if (const auto *number = fill.as_floating_point()) {
    options.fills[column] = number->get();
    return true;
  }
  auto text = fill.is_string() ? fill.value<std::string>() : momentText(fill);
  if (text) {
    options.fillTexts[column] = *text;
  }
  return text.has_value();
}

bool addCategories(const std::string &column, const toml::node &categories, RegisterOptions &options) {
  const toml::array *list = categories.as_array();
  Meaning &meaning = options.meanings[column];
  for (size_t k = 0; list && k < list->size(); ++k) {
    if (const auto *text = list->get(k)->as_string()) {
      meaning.texts.push_back(text->get());
    } else if (const auto *number = list->get(k)->as_integer()) {
      meaning.numbers.push_back(number->get());
    } else {
      return false;
    }
  }
  return list && !list->empty() && (meaning.texts.empty() || meaning.numbers.empty());
}

bool addTerms(const std::string &column, const toml::table &table, RegisterOptions &options) {
  const toml::node *lower = table.get("lower"), *upper = table.get("upper"), *fill = table.get("fill"),
                   *categories = table.get("categories"), *date = table.get("date");
  size_t known = 0;
  for (const toml::node *node : {lower, upper, fill, categories, date}) {
    known += node ? 1 : 0;
  }
  if (known == 0 || known != table.size() || !lower != !upper || (date && !date->is_boolean())) {
    return false;
  }
  if (date && date->value_or(false)) {
    options.meanings[column].unit = Unit::Days;
  }
  return (!lower || addBounds(column, *lower, *upper, options)) && (!fill || addFill(column, *fill, options)) &&
         (!categories || addCategories(column, *categories, options));
}

llvm::Error addRule(const std::string &path, const std::string &column, const toml::node &rule,
                    RegisterOptions &options) {
  const toml::array *pair = rule.as_array();
  const toml::table *table = rule.as_table();
  const bool isPair = pair && pair->size() == 2 && addBounds(column, *pair->get(0), *pair->get(1), options);
  if (isPair || (table && addTerms(column, *table, options))) {
    return llvm::Error::success();
  }
  return failure(
      "'" + path + "', line " + Twine(rule.source().begin.line) + ": column '" + column +
      "' expects [lower, upper] or {lower = .., upper = .., fill = .., categories = [..], date = true}, with "
      "numbers or dates as bounds, and texts or whole numbers as categories");
}

/// The lines of a file, without those that end it.
llvm::Expected<std::vector<std::string>> readLines(const std::string &path) {
  auto opened = SourceFile::open(path, "cannot read categories from");
  if (!opened) {
    return opened.takeError();
  }
  if (opened->size() > static_cast<int64_t>(kTableCategoryBytes)) {
    return failure("'" + path + "' has " + Twine(opened->size()) + " bytes, the limit of a table's categories is " +
                   Twine(kTableCategoryBytes));
  }
  auto text = opened->read(0, opened->size());
  if (!text) {
    return text.takeError();
  }
  std::istringstream file(*text);
  std::vector<std::string> lines; // one more than a column may have, at most
  for (std::string line; lines.size() <= kCategories && std::getline(file, line);) {
    if (lines.empty() && llvm::StringRef(line).starts_with("\xef\xbb\xbf")) { // written by some editors
      line.erase(0, 3);
    }
    if (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    if (line.empty()) {
      return failure("'" + path + "', line " + Twine(lines.size() + 1) +
                     ": found an empty line, expected one category per line");
    }
    lines.push_back(std::move(line));
  }
  if (lines.empty()) {
    return failure("cannot read categories from '" + path + "'; expected a file with one category per line");
  }
  return lines;
}

/// Splits `column=rest`. Before numbers the name may itself contain '=' (`isLast`); texts may, too.
llvm::Expected<std::pair<std::string, llvm::StringRef>> splitColumn(llvm::StringRef text, const char *form,
                                                                    bool isLast) {
  auto [column, rest] = isLast ? text.rsplit('=') : text.split('=');
  if (column.empty() || rest.empty() || column.size() == text.size()) {
    return failure("'" + text + "' is not of the form " + form);
  }
  return std::pair(column.str(), rest);
}

} // namespace

llvm::Error readBoundsFile(const std::string &path, RegisterOptions &options) {
  auto file = SourceFile::open(path);
  if (!file) {
    return file.takeError();
  }
  if (file->size() > kRulesBytes) {
    return failure("'" + path + "' has " + Twine(file->size()) + " bytes, the limit of a file of bounds is " +
                   Twine(kRulesBytes));
  }
  auto text = file->read(0, file->size());
  if (!text) {
    return text.takeError();
  }
  toml::parse_result parsed = toml::parse(*text, path);
  if (!parsed) { // the parser's own words show what stands there, which may be another file's
    const toml::source_position at = parsed.error().source().begin;
    return failure("cannot read '" + path + "': line " + Twine(at.line) + " is no TOML from its character " +
                   Twine(at.column) + " on, expected lines such as age = [0, 120]");
  }
  const toml::table *rules = &parsed.table();
  if (const toml::table *inner = rules->get_as<toml::table>("bounds");
      inner && rules->size() == 1 && !inner->contains("lower")) {
    rules = inner;
  }
  for (auto &&[column, rule] : *rules) {
    if (llvm::Error error = addRule(path, std::string(column.str()), rule, options)) {
      return error;
    }
  }
  return llvm::Error::success();
}

llvm::Error parseBound(const std::string &text, RegisterOptions &options) {
  constexpr const char *form = "column=lower:upper";
  auto split = splitColumn(text, form, /*isLast=*/true);
  if (!split) {
    return split.takeError();
  }
  llvm::StringRef range = split->second;
  for (size_t at = range.find(':'); at != llvm::StringRef::npos;
       at = range.find(':', at + 1)) { // times have colons, too
    llvm::StringRef lower = range.take_front(at), upper = range.drop_front(at + 1);
    Bounds bounds;
    if (!lower.getAsDouble(bounds.lower) && !upper.getAsDouble(bounds.upper)) {
      options.bounds[split->first] = bounds;
      return llvm::Error::success();
    }
    if (parseMoment(lower) && parseMoment(upper)) {
      options.boundTexts[split->first] = {lower.str(), upper.str()};
      return llvm::Error::success();
    }
  }
  return failure("'" + text + "' is not of the form " + form + " with two numbers or two dates");
}

llvm::Error parseFill(const std::string &text, RegisterOptions &options) {
  constexpr const char *form = "column=value";
  double fill = 0;
  const bool isNumber = !llvm::StringRef(text).rsplit('=').second.getAsDouble(fill);
  auto split = splitColumn(text, form, isNumber);
  if (!split) {
    return split.takeError();
  }
  if (isNumber) {
    options.fills[split->first] = fill;
  }
  options.fillTexts[split->first] = split->second.str(); // a number may be a category
  return llvm::Error::success();
}

llvm::Error parseCategories(const std::string &text, RegisterOptions &options) {
  constexpr const char *form = "column=a,b,c or column=@FILE or column=*";
  auto split = splitColumn(text, form, /*isLast=*/false);
  if (!split) {
    return split.takeError();
  }
  const std::string &column = split->first;
  std::vector<std::string> texts;
  if (split->second.consume_front("@")) {
    auto lines = readLines(split->second.str());
    if (!lines) {
      return lines.takeError();
    }
    texts = std::move(*lines);
  } else if (split->second != "*") {
    llvm::SmallVector<llvm::StringRef> parts;
    split->second.split(parts, ',');
    for (llvm::StringRef part : parts) {
      if (part.empty() || part.trim() != part) {
        return failure("the categories '" + split->second + "' of column '" + column + "' have " +
                       (part.empty() ? "an empty one" : "white space around '" + part.str() + "'") +
                       "; write a,b,c without spaces, or column=@FILE with one per line");
      }
      texts.push_back(part.str());
    }
  }
  options.meanings[column].texts = std::move(texts);
  options.untyped.insert(column);
  return llvm::Error::success();
}

} // namespace sojourn::owner
