// SPDX-License-Identifier: Apache-2.0
// Reading and writing table files through Apache Arrow.
#include "owner/ReadFile.h"

#include "owner/Entry.h"
#include "owner/Error.h"
#include "owner/MappedFile.h"

#include <algorithm>
#include <arrow/api.h>
#include <arrow/csv/api.h>
#include <arrow/io/api.h>
#include <arrow/ipc/api.h>
#include <filesystem>
#include <fstream>
#include <parquet/arrow/reader.h>

namespace sojourn::owner {

using llvm::Twine;
using runtime::Element;
namespace fs = std::filesystem;

namespace {

llvm::Error unreadable(const std::string &path, const arrow::Status &status) {
  return failure("cannot read '" + path + "': " + status.message());
}

/// How often a delimiter stands in a line, outside of quotes.
size_t countOf(char delimiter, const std::string &line) {
  size_t count = 0;
  bool isQuoted = false;
  for (char each : line) {
    isQuoted = isQuoted != (each == '"');
    count += !isQuoted && each == delimiter ? 1 : 0;
  }
  return count;
}

char delimiterOf(const std::string &path) { return fs::path(path).extension() == ".tsv" ? '\t' : ','; }

std::string nameOf(char delimiter) { return delimiter == '\t' ? "a tab" : std::string("'") + delimiter + "'"; }

/// The problem with a text whose columns another delimiter separates: it would be read as one column, or as rows of
/// other lengths where numbers have a decimal comma.
std::string delimiterProblem(const std::string &path) {
  std::ifstream file(path);
  std::string header, row;
  std::getline(file, header);
  std::getline(file, row);
  const char expected = delimiterOf(path);
  for (char other : {';', '\t', '|', ','}) {
    const size_t count = countOf(other, header);
    if (other != expected && count > 0 && countOf(expected, header) == 0 && countOf(other, row) == count) {
      return "its first line is delimited by " + nameOf(other) + ", expected " + nameOf(expected) +
             "; write the file with " + nameOf(expected) +
             ", or register the columns as a dict of arrays "
             "(pandas.read_csv(FILE, sep=" +
             (other == '\t' ? "'\\t'" : nameOf(other)) + "))";
    }
  }
  return {};
}

arrow::Result<std::shared_ptr<arrow::Table>> readCsv(const std::string &path, const std::set<std::string> &texts) {
  ARROW_ASSIGN_OR_RAISE(auto input, arrow::io::ReadableFile::Open(path));
  auto reading = arrow::csv::ReadOptions::Defaults();
  reading.block_size = 16 << 20; // column types are inferred from the first block
  auto parsing = arrow::csv::ParseOptions::Defaults();
  parsing.delimiter = delimiterOf(path);
  auto converting = arrow::csv::ConvertOptions::Defaults();
  for (const std::string &name : texts) {
    converting.column_types[name] = arrow::utf8();
  }
  ARROW_ASSIGN_OR_RAISE(
      auto reader, arrow::csv::TableReader::Make(arrow::io::default_io_context(), input, reading, parsing, converting));
  return reader->Read();
}

arrow::Result<std::shared_ptr<arrow::Table>> readParquet(const std::string &path) {
  ARROW_ASSIGN_OR_RAISE(auto input, arrow::io::ReadableFile::Open(path));
  ARROW_ASSIGN_OR_RAISE(auto reader, parquet::arrow::OpenFile(input, arrow::default_memory_pool()));
  return reader->ReadTable();
}

arrow::Result<std::shared_ptr<arrow::Table>> readIpc(const std::string &path) {
  ARROW_ASSIGN_OR_RAISE(auto input, arrow::io::MemoryMappedFile::Open(path, arrow::io::FileMode::READ));
  ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchFileReader::Open(input));
  return reader->ToTable();
}

/// The Arrow type in which an element rests; booleans take a byte, as in memory.
std::shared_ptr<arrow::DataType> restingType(Element element) {
  switch (element) {
  case Element::i1:
  case Element::u8: return arrow::uint8();
  case Element::i8: return arrow::int8();
  case Element::i16: return arrow::int16();
  case Element::i32: return arrow::int32();
  case Element::i64: return arrow::int64();
  case Element::f32: return arrow::float32();
  default: return arrow::float64();
  }
}

arrow::Status writeFile(const ImportedTable &table, const std::string &path) {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (const Column &column : table.columns) {
    auto type = restingType(column.element);
    int64_t elements = table.rows * entryElements(column.dims);
    auto bytes = elements * static_cast<int64_t>(runtime::byteWidth(column.element));
    auto buffer = std::make_shared<arrow::Buffer>(static_cast<const uint8_t *>(column.data), bytes);
    fields.push_back(arrow::field(column.name, nestedType(type, column.dims), /*nullable=*/false));
    auto values = arrow::MakeArray(arrow::ArrayData::Make(type, elements, {nullptr, buffer}, 0));
    arrays.push_back(nestedArray(std::move(values), column.dims));
  }
  auto schema = arrow::schema(fields);
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.alignment = 64; // asked for; what Arrow writes is aligned to 8, enough for any element in the mapped file
  ARROW_ASSIGN_OR_RAISE(auto output, arrow::io::FileOutputStream::Open(path));
  ARROW_ASSIGN_OR_RAISE(auto writer, arrow::ipc::MakeFileWriter(output, schema, options));
  ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(*arrow::RecordBatch::Make(schema, table.rows, arrays)));
  ARROW_RETURN_NOT_OK(writer->Close());
  return output->Close();
}

} // namespace

llvm::Expected<std::shared_ptr<arrow::Table>> readFile(const std::string &path, const std::set<std::string> &texts) {
  std::error_code code;
  if (!fs::is_regular_file(path, code)) {
    return failure("cannot read '" + path + "': " + (fs::exists(path, code) ? "not a file" : "no such file"));
  }
  std::string extension = fs::path(path).extension().string();
  arrow::Result<std::shared_ptr<arrow::Table>> table = arrow::Status::UnknownError("");
  if (extension == ".csv" || extension == ".tsv") {
    if (std::string problem = delimiterProblem(path); !problem.empty()) {
      return failure("cannot read '" + path + "': " + problem);
    }
    table = readCsv(path, texts);
  } else if (extension == ".parquet" || extension == ".pq") {
    table = readParquet(path);
  } else if (extension == ".arrow" || extension == ".feather" || extension == ".ipc") {
    table = readIpc(path);
  } else {
    return failure("cannot tell the format of '" + path +
                   "': expected a name ending in .csv, .tsv, .parquet, .arrow, .feather or .npz");
  }
  if (!table.ok()) {
    return unreadable(path, table.status());
  }
  // Lengths of buffers and of the values inside lists: nothing is read past an end.
  if (arrow::Status status = (*table)->Validate(); !status.ok()) {
    return unreadable(path, status);
  }
  return std::move(*table);
}

llvm::Error writeTable(const ImportedTable &table, const std::string &path) {
  std::string unfinished = path + ".unfinished";
  arrow::Status status = writeFile(table, unfinished);
  std::error_code code;
  if (status.ok()) {
    fs::rename(unfinished, path, code);
  }
  if (!status.ok() || code) {
    std::error_code ignored;
    fs::remove(unfinished, ignored);
    return failure("cannot write '" + path + "': " + (code ? code.message() : status.message()));
  }
  return llvm::Error::success();
}

llvm::Expected<ImportedTable> mapTable(const std::string &path, int64_t rows, std::vector<Column> expected) {
  auto opened = readFile(path);
  if (!opened) {
    return opened.takeError();
  }
  std::shared_ptr<arrow::Table> table = *opened;
  auto wrong = [&](const Twine &what) {
    return failure("'" + path + "' does not match the catalogue: " + what + "; import the dataset again");
  };
  if (table->num_rows() != rows || table->num_columns() != static_cast<int>(expected.size())) {
    return wrong(Twine(table->num_rows()) + " rows and " + Twine(table->num_columns()) + " columns found, expected " +
                 Twine(rows) + " and " + Twine(expected.size()));
  }
  const char *first = nullptr, *last = nullptr;
  for (size_t index = 0; index < expected.size(); ++index) {
    Column &column = expected[index];
    auto field = table->schema()->field(static_cast<int>(index));
    auto chunks = table->column(static_cast<int>(index))->chunks();
    if (field->name() != column.name || !field->type()->Equals(nestedType(restingType(column.element), column.dims)) ||
        chunks.size() != 1 || chunks[0]->null_count() != 0) {
      return wrong("column '" + column.name + "' differs");
    }
    Elements elements = elementsOf(chunks[0]);
    if (!elements.gaps.empty() || elements.values->null_count() != 0) {
      return wrong("column '" + column.name + "' has missing values");
    }
    const arrow::ArrayData &data = *elements.values->data();
    column.data = data.buffers[1]->data() + data.offset * static_cast<int64_t>(runtime::byteWidth(column.element));
    auto *begin = static_cast<const char *>(column.data);
    const auto bytes = rows * entryElements(column.dims) * static_cast<int64_t>(runtime::byteWidth(column.element));
    first = index == 0 ? begin : std::min(first, begin);
    last = index == 0 ? begin + bytes : std::max(last, begin + bytes);
  }
  // All columns lie in one mapping.
  std::shared_ptr<void> storage = guardMapped(first, static_cast<size_t>(last - first), table);
  if (!storage) {
    return failure("cannot use '" + path + "': more than 65536 tables are in use; restart the owner");
  }
  return ImportedTable{rows, std::move(expected), std::move(storage)};
}

} // namespace sojourn::owner
