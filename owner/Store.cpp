// SPDX-License-Identifier: Apache-2.0
// Registration and loading of datasets.
#include "owner/Store.h"

#include "owner/Error.h"
#include "runtime/Limits.h"

#include "llvm/ADT/StringExtras.h"

#include <filesystem>

namespace sojourn::owner {

using llvm::Twine;
namespace fs = std::filesystem;

llvm::Expected<std::unique_ptr<Store>> Store::open(const Environment &environment) {
  const std::string &directory = environment.storeDirectory;
  if (!directory.empty()) {
    std::error_code code;
    fs::create_directories(directory + "/datasets", code);
    if (code) {
      return failure("cannot make the store '" + directory + "': " + code.message());
    }
    // The tables are the owner's alone. On a file system without permissions this does nothing.
    fs::permissions(directory, fs::perms::owner_all, code);
  }
  auto books = Catalogue::open(directory);
  if (!books) {
    return books.takeError();
  }
  return std::unique_ptr<Store>(new Store(environment, std::move(*books)));
}

std::string Store::filePath(const std::string &file) const { return environment.storeDirectory + "/datasets/" + file; }

std::shared_ptr<const LoadedDataset> Store::keep(const DatasetRecord &record, ImportedTable table) {
  auto entry = std::make_shared<LoadedDataset>();
  entry->dataset = std::make_unique<Dataset>(record.name, record.version, table.rows, std::move(table.columns),
                                             std::move(table.storage));
  entry->label = Label::of({record.name, record.version});
  loaded[record.name] = entry;
  return entry;
}

static llvm::Error checkName(const std::string &name) {
  bool plain =
      llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '-' || c == '_' || c == '.' || c == ' '; });
  if (name.empty() || name.size() > runtime::limits::kNameBytes || !plain) {
    return failure("'" + name + "' cannot name a dataset: expected 1 to " + Twine(runtime::limits::kNameBytes) +
                   " letters, digits, spaces and - _ . characters");
  }
  return llvm::Error::success();
}

static llvm::Error nameTaken(const std::string &name) {
  return failure("a dataset named '" + name + "' is registered already; choose another name");
}

llvm::Expected<DatasetRecord> Store::begin(const RegisterOptions &options) {
  if (llvm::Error error = checkName(options.name)) {
    return error;
  }
  auto present = find(options.name); // a damaged one also holds its name
  if (!present) {
    return present.takeError();
  }
  if (*present) {
    return nameTaken(options.name);
  }
  DatasetRecord record;
  record.name = options.name;
  record.policy = options.policy;
  unsigned char version[8];
  environment.randomBytes(version, sizeof(version));
  record.version = llvm::toHex(llvm::ArrayRef(version), /*LowerCase=*/true);
  return record;
}

llvm::Expected<ImportedTable> Store::import(DatasetRecord &record, const DatasetSource &source,
                                            const RegisterOptions &options) const {
  auto table = importTable(source, options);
  if (!table) {
    return table.takeError();
  }
  record.contentHash = contentHash(*table);
  record.source = source.path.empty() ? "memory" : fs::absolute(source.path).string();
  record.rows = table->rows;
  record.columns = table->columns;
  if (!environment.storeDirectory.empty()) {
    if (options.progress) {
      options.progress("writing", 0, 1);
    }
    record.file = record.version + ".arrow";
    if (llvm::Error error = writeTable(*table, filePath(record.file))) {
      return error;
    }
    // From here on it is used from where it rests, as after a restart.
    table = mapTable(filePath(record.file), record.rows, record.columns);
    if (!table) {
      removeFile(record);
    }
  }
  return table;
}

void Store::removeFile(const DatasetRecord &record) const {
  std::error_code ignored;
  if (!record.file.empty()) {
    fs::remove(filePath(record.file), ignored);
  }
}

llvm::Error Store::enter(DatasetRecord record, ImportedTable table) {
  record.registeredMs = environment.clockMs();
  llvm::Error error = loaded.count(record.name) ? nameTaken(record.name) : books->addDataset(record);
  if (error) {
    removeFile(record);
    return error;
  }
  keep(record, std::move(table));
  return llvm::Error::success();
}

llvm::Expected<std::shared_ptr<const LoadedDataset>> Store::find(const std::string &name) {
  if (auto found = loaded.find(name); found != loaded.end()) {
    return found->second;
  }
  auto records = books->datasets();
  if (!records) {
    return records.takeError();
  }
  for (DatasetRecord &record : *records) {
    if (record.name == name) {
      auto table = mapTable(filePath(record.file), record.rows, record.columns);
      if (!table) {
        return table.takeError();
      }
      return keep(record, std::move(*table));
    }
  }
  return nullptr;
}

} // namespace sojourn::owner
