// SPDX-License-Identifier: Apache-2.0
// Reading and writing table files through Apache Arrow.
#include "owner/ReadFile.h"

#include "dialect/Bounds.h"
#include "owner/Entry.h"
#include "owner/Error.h"
#include "owner/MappedFile.h"
#include "owner/ReadCsv.h"

#include <algorithm>
#include <arrow/api.h>
#include <arrow/io/api.h>
#include <arrow/ipc/api.h>
#include <arrow/util/io_util.h>
#include <fcntl.h>
#include <filesystem>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>
#include <sys/stat.h>

namespace sojourn::owner {

using llvm::Twine;
using runtime::Element;
namespace fs = std::filesystem;

namespace {

/// More rows, or more bytes than fit, are refused by what the file says of itself, before its data is read.
llvm::Error checkClaims(const std::string &path, int64_t rows, int64_t bytes, const ImportMemory &memory) {
  if (rows > bounds::kTableRows) {
    return failure("'" + path + "' has " + Twine(rows) + " rows; a table holds up to " + Twine(bounds::kTableRows));
  }
  return memory.check(bytes, "'" + path + "' unpacks to");
}

/// Bytes of a row in memory, without its texts.
int64_t rowBytes(const parquet::SchemaDescriptor &schema) {
  int64_t bytes = 0;
  for (int column = 0; column < schema.num_columns(); ++column) {
    switch (schema.Column(column)->physical_type()) {
    case parquet::Type::BOOLEAN: break;
    case parquet::Type::INT32:
    case parquet::Type::FLOAT: bytes += 4; break;
    default: bytes += 8;
    }
  }
  return bytes;
}

llvm::Expected<std::shared_ptr<arrow::Table>> wrong(const std::string &path, const arrow::Status &status,
                                                    const std::string &format, const ImportMemory &memory) {
  return failure("cannot read '" + path + "': " + reasonOf(status, format, &memory));
}

llvm::Expected<std::shared_ptr<arrow::Table>> readParquet(const std::string &path, int descriptor,
                                                          ImportMemory &memory) {
  auto input = arrow::io::ReadableFile::Open(descriptor);
  if (!input.ok()) {
    return wrong(path, input.status(), "Parquet", memory);
  }
  auto reader = parquet::arrow::OpenFile(*input, &memory);
  if (!reader.ok()) {
    return wrong(path, reader.status(), "Parquet", memory);
  }
  const auto metadata = (*reader)->parquet_reader()->metadata();
  int64_t bytes = 0;
  if (__builtin_mul_overflow(std::max<int64_t>(metadata->num_rows(), 0), rowBytes(*metadata->schema()), &bytes)) {
    bytes = INT64_MAX;
  }
  if (llvm::Error error = checkClaims(path, metadata->num_rows(), bytes, memory)) {
    return error;
  }
  auto table = (*reader)->ReadTable();
  return table.ok() ? llvm::Expected<std::shared_ptr<arrow::Table>>(std::move(*table))
                    : wrong(path, table.status(), "Parquet", memory);
}

llvm::Expected<std::shared_ptr<arrow::Table>> readIpc(const std::string &path, int descriptor, ImportMemory &memory) {
  auto input = arrow::io::ReadableFile::Open(descriptor);
  if (!input.ok()) {
    return wrong(path, input.status(), "Arrow", memory);
  }
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.memory_pool = &memory;
  auto reader = arrow::ipc::RecordBatchFileReader::Open(*input, options);
  if (!reader.ok()) {
    return wrong(path, reader.status(), "Arrow", memory);
  }
  auto rows = (*reader)->CountRows();
  if (!rows.ok()) {
    return wrong(path, rows.status(), "Arrow", memory);
  }
  if (llvm::Error error = checkClaims(path, *rows, 0, memory)) {
    return error;
  }
  auto table = (*reader)->ToTable();
  return table.ok() ? llvm::Expected<std::shared_ptr<arrow::Table>>(std::move(*table))
                    : wrong(path, table.status(), "Arrow", memory);
}

/// A file of our own.
arrow::Result<std::shared_ptr<arrow::Table>> mapIpc(const std::string &path, const char *&begin) {
  ARROW_ASSIGN_OR_RAISE(auto input, arrow::io::MemoryMappedFile::Open(path, arrow::io::FileMode::READ));
  ARROW_ASSIGN_OR_RAISE(auto first, input->ReadAt(0, 1));
  begin = reinterpret_cast<const char *>(first->data());
  ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchFileReader::Open(input));
  ARROW_ASSIGN_OR_RAISE(auto table, reader->ToTable());
  ARROW_RETURN_NOT_OK(table->Validate());
  return table;
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
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    return arrow::internal::IOErrorFromErrno(errno, "cannot make the file");
  }
  ARROW_ASSIGN_OR_RAISE(auto output, arrow::io::FileOutputStream::Open(file));
  if (fchmod(file, 0600) != 0) { // whatever the umask
    return arrow::internal::IOErrorFromErrno(errno, "cannot restrict the file");
  }
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
  ARROW_ASSIGN_OR_RAISE(auto writer, arrow::ipc::MakeFileWriter(output, schema, options));
  ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(*arrow::RecordBatch::Make(schema, table.rows, arrays)));
  ARROW_RETURN_NOT_OK(writer->Close());
  return output->Close();
}

} // namespace

llvm::Expected<std::shared_ptr<arrow::Table>> readFile(const std::string &path, const std::set<std::string> &texts,
                                                       ImportMemory &memory) {
  auto file = SourceFile::open(path);
  if (!file) {
    return file.takeError();
  }
  std::string extension = fs::path(path).extension().string();
  const bool isParquet = extension == ".parquet" || extension == ".pq";
  const bool isIpc = extension == ".arrow" || extension == ".feather" || extension == ".ipc";
  llvm::Expected<std::shared_ptr<arrow::Table>> table = nullptr;
  if (extension == ".csv" || extension == ".tsv") {
    table = readCsv(path, *file, texts, memory);
  } else if (isParquet || isIpc) {
    auto descriptor = file->descriptor();
    if (!descriptor) {
      return descriptor.takeError();
    }
    table = isParquet ? readParquet(path, *descriptor, memory) : readIpc(path, *descriptor, memory);
  } else {
    return failure("cannot tell the format of '" + path +
                   "': expected a name ending in .csv, .tsv, .parquet, .arrow, .feather or .npz");
  }
  // Lengths of buffers and of the values inside lists: nothing is read past an end.
  if (arrow::Status status = table ? (*table)->Validate() : arrow::Status::OK(); !status.ok()) {
    return wrong(path, status, isParquet ? "Parquet" : "Arrow", memory);
  }
  return table;
}

llvm::Error writeTable(const ImportedTable &table, const std::string &path) {
  uintmax_t bytes = 0;
  for (const Column &column : table.columns) {
    bytes += static_cast<uintmax_t>(table.rows * entryElements(column.dims)) * runtime::byteWidth(column.element);
  }
  std::error_code unknown;
  const fs::space_info space = fs::space(fs::path(path).parent_path(), unknown);
  if (!unknown && space.capacity > 0 && bytes > space.available) {
    return failure("cannot write '" + path + "': the table has " + Twine(bytes) +
                   " bytes, its file system has room for " + Twine(space.available) +
                   "; free some, leave columns out, or use a store on another one");
  }
  std::string unfinished = path + ".unfinished";
  arrow::Status status = writeFile(table, unfinished);
  std::error_code code;
  if (status.ok()) {
    fs::rename(unfinished, path, code);
  }
  if (!status.ok() || code) {
    std::error_code ignored;
    fs::remove(unfinished, ignored);
    return failure("cannot write '" + path + "': " + (code ? code.message() : reasonOf(status, "Arrow", nullptr)));
  }
  return llvm::Error::success();
}

llvm::Expected<ImportedTable> mapTable(const std::string &path, int64_t rows, std::vector<Column> expected) {
  if (auto file = SourceFile::open(path); !file) {
    return file.takeError();
  }
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return failure("cannot read '" + path + "': " + std::generic_category().message(errno));
  }
  auto file = std::make_shared<TableFile>(descriptor);
  file->size = static_cast<uint64_t>(std::max<off_t>(lseek(descriptor, 0, SEEK_END), 0));
  const char *mapped = nullptr;
  auto opened = mapIpc(path, mapped);
  if (!opened.ok()) {
    return failure("cannot read '" + path + "': " + reasonOf(opened.status(), "Arrow", nullptr));
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
    file->offsets.push_back(static_cast<uint64_t>(begin - mapped));
  }
  // All columns lie in one mapping.
  std::shared_ptr<void> storage = guardMapped(first, static_cast<size_t>(last - first), table);
  if (!storage) {
    return failure("cannot use '" + path + "': more than 65536 tables are in use; restart the owner");
  }
  return ImportedTable{rows, std::move(expected), std::move(storage), std::move(file)};
}

} // namespace sojourn::owner
