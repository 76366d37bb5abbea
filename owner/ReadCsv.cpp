// SPDX-License-Identifier: Apache-2.0
// Texts through Arrow, with errors of our own.
#include "owner/ReadCsv.h"

#include "owner/Error.h"

#include "llvm/ADT/StringRef.h"

#include <arrow/api.h>
#include <arrow/csv/api.h>
#include <arrow/io/api.h>
#include <arrow/util/io_util.h>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>

namespace sojourn::owner {

using llvm::StringRef;

namespace {

/// How often a delimiter stands in a line, outside of quotes.
size_t countOf(char delimiter, StringRef line) {
  size_t count = 0;
  bool isQuoted = false;
  for (char each : line) {
    isQuoted = isQuoted != (each == '"');
    count += !isQuoted && each == delimiter ? 1 : 0;
  }
  return count;
}

char delimiterOf(const std::string &path) { return std::filesystem::path(path).extension() == ".tsv" ? '\t' : ','; }

std::string nameOf(char delimiter) { return delimiter == '\t' ? "a tab" : std::string("'") + delimiter + "'"; }

/// The problem with a text whose columns another delimiter separates: it would be read as one column, or as rows of
/// other lengths where numbers have a decimal comma.
std::string delimiterProblem(char expected, StringRef begin) {
  auto [header, rest] = begin.split('\n');
  const StringRef row = rest.split('\n').first;
  for (char other : {';', '\t', '|', ',', ':'}) {
    const size_t count = countOf(other, header);
    const size_t least = other == ':' ? 3 : 1; // times have colons, too
    if (other != expected && count >= least && countOf(expected, header) == 0 && countOf(other, row) == count) {
      return "its first line is delimited by " + nameOf(other) + ", expected " + nameOf(expected) +
             "; write the file with " + nameOf(expected) +
             ", or register the columns as a dict of arrays "
             "(pandas.read_csv(FILE, sep=" +
             (other == '\t' ? "'\\t'" : nameOf(other)) + "))";
    }
  }
  return {};
}

/// The first row with another number of columns than the first line.
struct BadRow {
  std::mutex mutex;
  std::optional<arrow::csv::InvalidRow> found;

  void add(const arrow::csv::InvalidRow &row) {
    std::lock_guard lock(mutex);
    if (!found) {
      found.emplace(arrow::csv::InvalidRow{row.expected_columns, row.actual_columns, row.number, {}});
    }
  }
};

/// Rows are counted if one thread reads them.
arrow::Result<std::shared_ptr<arrow::Table>> readRows(int descriptor, char delimiter,
                                                      const std::set<std::string> &texts, ImportMemory &memory,
                                                      bool isCounting, const std::shared_ptr<BadRow> &bad) {
  ARROW_ASSIGN_OR_RAISE(auto input, arrow::io::ReadableFile::Open(descriptor));
  auto reading = arrow::csv::ReadOptions::Defaults();
  reading.block_size = 16 << 20; // column types are inferred from the first block
  reading.use_threads = !isCounting;
  auto parsing = arrow::csv::ParseOptions::Defaults();
  parsing.delimiter = delimiter;
  parsing.invalid_row_handler = [bad](const arrow::csv::InvalidRow &row) {
    bad->add(row);
    return arrow::csv::InvalidRowResult::Error;
  };
  auto converting = arrow::csv::ConvertOptions::Defaults();
  for (const std::string &name : texts) {
    converting.column_types[name] = arrow::utf8();
  }
  ARROW_ASSIGN_OR_RAISE(auto reader, arrow::csv::TableReader::Make(arrow::io::IOContext(&memory, memory.token()), input,
                                                                   reading, parsing, converting));
  return reader->Read();
}

/// What was wrong, from numbers alone.
std::string reasonOfCsv(const arrow::Status &status, BadRow &bad, const ImportMemory &memory) {
  std::lock_guard lock(bad.mutex);
  if (bad.found) { // the first line counts as 1
    return (bad.found->number > 1 ? "row " + std::to_string(bad.found->number - 2) + " (counting from 0)"
                                  : std::string("a row")) +
           " has " + std::to_string(bad.found->actual_columns) + " columns, the first line has " +
           std::to_string(bad.found->expected_columns) +
           "; write the file with one entry per column, and texts with delimiters in quotes";
  }
  const std::string message = status.message();
  if (StringRef text = message; text.consume_front("In CSV column #")) { // Arrow's own words come first
    uint64_t column = 0, row = 0;
    text.consumeInteger(10, column);
    const bool hasRow = text.consume_front(": Row #") && !text.consumeInteger(10, row) && row > 1;
    return "column " + std::to_string(column) + " (counting from 0) " +
           (hasRow ? "has an entry in row " + std::to_string(row - 2) + " (counting from 0) " : "has an entry ") +
           "that is no UTF-8 text; save the file as UTF-8";
  }
  if (StringRef(message).starts_with("Empty CSV file")) {
    return "it is empty, expected a first line with the names of its columns";
  }
  if (StringRef(message).starts_with("straddling") || StringRef(message).starts_with("CSV parser got out of sync")) {
    return "it has a row of more than 16 MiB, or a quote that is not closed";
  }
  return reasonOf(status, "CSV", &memory);
}

} // namespace

std::string reasonOf(const arrow::Status &status, const std::string &format, const ImportMemory *memory) {
  if (memory && (status.IsOutOfMemory() || status.IsCapacityError())) {
    return memory->full();
  }
  if (status.IsOutOfMemory()) {
    return "there is not enough memory";
  }
  if (const int code = arrow::internal::ErrnoFromStatus(status)) {
    return std::strerror(code);
  }
  if (status.IsNotImplemented()) {
    return "it has a compression, an encryption or a type of " + format +
           " files that this release does not read; write it again without";
  }
  return "it is damaged, cut off, or no " + format + " file; write it again";
}

llvm::Expected<std::shared_ptr<arrow::Table>> readCsv(const std::string &path, const SourceFile &file,
                                                      const std::set<std::string> &texts, ImportMemory &memory) {
  const char delimiter = delimiterOf(path);
  auto begin = file.read(0, 1 << 20);
  if (!begin) {
    return begin.takeError();
  }
  if (std::string problem = delimiterProblem(delimiter, *begin); !problem.empty()) {
    return failure("cannot read '" + path + "': " + problem);
  }
  for (bool isCounting = false;; isCounting = true) { // once more for the number of the row
    auto descriptor = file.descriptor();
    if (!descriptor) {
      return descriptor.takeError();
    }
    auto bad = std::make_shared<BadRow>(); // tasks of Arrow may go on for a moment after an error
    memory.stopBeyond(true);
    auto table = readRows(*descriptor, delimiter, texts, memory, isCounting, bad);
    if (memory.isBeyond() || table.status().IsOutOfMemory() || table.status().IsCancelled()) {
      return failure("cannot read '" + path + "': " + memory.full());
    }
    if (table.ok()) {
      memory.stopBeyond(false);
      return std::move(*table);
    }
    if (isCounting) {
      return failure("cannot read '" + path + "': " + reasonOfCsv(table.status(), *bad, memory));
    }
  }
}

} // namespace sojourn::owner
