// SPDX-License-Identifier: Apache-2.0
// Which columns of a source become other numbers, and the terms that are declared for them.
#include "owner/Codes.h"

#include "owner/Categories.h"
#include "owner/Entries.h"
#include "owner/Numbers.h"

#include "llvm/ADT/StringExtras.h"

#include <filesystem>

namespace sojourn::owner {

using llvm::Twine;

namespace {

/// Null where the entries are numbers already.
llvm::Expected<ChunkedPtr> encodeValues(SourceColumn &column, bool isFile) {
  const arrow::DataType &type = column.type;
  if (!isFile) {
    if (llvm::Error error = checkCodes(column)) {
      return error;
    }
    return nullptr;
  }
  const bool isDictionary = type.id() == arrow::Type::DICTIONARY, hasOffsets = isText(type) || isDictionary;
  if (arrow::Status status = hasOffsets ? column.values->ValidateFull() : arrow::Status::OK(); !status.ok()) {
    return failure("column '" + column.name +
                   "' is damaged: it has texts that are not UTF-8, or codes that have no entry; write the file again");
  }
  if (column.meaning.unit == Unit::Days || arrow::is_date(type.id())) {
    return days(column);
  }
  const bool isDeclared = column.meaning.categories() > 0 || column.options.untyped.count(column.name);
  return isDeclared || hasOffsets ? codes(column) : numbers(column);
}

/// Fills and bounds in words become numbers.
llvm::Error resolveTerms(SourceColumn &column) {
  RegisterOptions &options = column.options;
  if (column.meaning.categories() > 0) {
    if (llvm::Error error = resolveCategoryFill(column)) {
      return error;
    }
  } else if (auto fill = options.fillTexts.find(column.name);
             fill != options.fillTexts.end() && !options.fills.count(column.name)) {
    auto number = numberOf(column, fill->second, "fill");
    if (!number) {
      return number.takeError();
    }
    options.fills[column.name] = *number;
  }
  if (auto bounds = options.boundTexts.find(column.name); bounds != options.boundTexts.end()) {
    auto lower = numberOf(column, bounds->second.first, "bound");
    if (!lower) {
      return lower.takeError();
    }
    auto upper = numberOf(column, bounds->second.second, "bound");
    if (!upper) {
      return upper.takeError();
    }
    options.bounds[column.name] = {*lower, *upper};
  }
  return llvm::Error::success();
}

/// The numbers of a column, or null where it has them already. `options` gets its terms as numbers and its meaning.
llvm::Expected<ChunkedPtr> encode(SourceColumn &column, bool isFile) {
  RegisterOptions &options = column.options;
  Meaning &meaning = column.meaning;
  if (auto declared = options.meanings.find(column.name); declared != options.meanings.end()) {
    meaning = declared->second;
  }
  auto encoded = encodeValues(column, isFile);
  if (!encoded) {
    return encoded;
  }
  if (llvm::Error error = isFile ? resolveTerms(column) : llvm::Error::success()) {
    return error;
  }
  if (auto fill = options.fills.find(column.name); fill != options.fills.end()) {
    meaning.fill = fill->second;
  }
  const auto last = static_cast<double>(meaning.categories()) - 1;
  if (auto bounds = options.bounds.find(column.name);
      last >= 0 && (bounds->second.lower != 0 || bounds->second.upper != last)) {
    return failure("column '" + column.name + "' has " + Twine(meaning.categories()) +
                   " categories and other bounds than those of their codes, 0 to " + Twine(meaning.categories() - 1) +
                   "; leave its bounds out");
  }
  if (std::string problem = problemOf(meaning); !problem.empty()) {
    return failure("column '" + column.name + "' " + problem);
  }
  options.meanings[column.name] = std::move(meaning);
  return encoded;
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
                                                            RegisterOptions &options, ImportMemory &memory) {
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
    SourceColumn column{field.name(), *field.type(), table->column(index), isCsv, options, {}, memory};
    auto encoded = encode(column, !source.path.empty());
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
        return failure("column '" + field.name() + "' has numbers of another count than the table has rows");
      }
      result = *replaced;
    }
  }
  return result;
}

} // namespace sojourn::owner
