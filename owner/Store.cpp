// SPDX-License-Identifier: Apache-2.0
// Registration and loading of datasets.
#include "owner/Store.h"

#include "owner/Error.h"
#include "owner/ImportProcess.h"
#include "owner/ImportReport.h"
#include "owner/ReadFile.h"
#include "owner/SealedSubjects.h"
#include "owner/SourceFile.h"
#include "owner/StoreFolder.h"
#include "runtime/Limits.h"

#include "llvm/ADT/StringExtras.h"

#include <filesystem>
#include <sodium.h>

namespace sojourn::owner {

using llvm::Twine;
namespace fs = std::filesystem;

llvm::Error Store::makeFolder(const Environment &environment) {
  return environment.storeDirectory.empty() ? llvm::Error::success() : openStoreFolder(environment.storeDirectory);
}

llvm::Expected<std::unique_ptr<Store>> Store::open(const Environment &environment, const signing::PublicKey &owner,
                                                   WorkerStub &worker) {
  auto books = Catalogue::open(environment.storeDirectory);
  if (!books) {
    return books.takeError();
  }
  if (!environment.storeDirectory.empty()) {
    auto isEntered = [&](const std::string &version) -> llvm::Expected<bool> {
      auto records = (*books)->datasets();
      if (!records) {
        return records.takeError();
      }
      return llvm::any_of(**records, [&](const DatasetRecord &record) { return record.version == version; });
    };
    if (llvm::Error error = sweepImports(environment.storeDirectory, isEntered)) {
      return error;
    }
  }
  std::unique_ptr<Store> store(new Store(environment, owner, std::move(*books), worker));
  llvm::Error error = store->removeLeftFiles();
  return error ? llvm::Expected<std::unique_ptr<Store>>(std::move(error)) : std::move(store);
}

Store::Store(const Environment &environment, const signing::PublicKey &owner, std::unique_ptr<Catalogue> books,
             WorkerStub &worker)
    : environment(environment), ownKey(owner), ownText(signing::keyText(owner)), books(std::move(books)),
      worker(worker) {
  if (environment.storeDirectory.empty()) {
    memoryKey = signing::newKeyBytes();
  }
}

Store::~Store() { sodium_memzero(memoryKey.data(), memoryKey.size()); }

std::string Store::filePath(const std::string &file) const { return environment.storeDirectory + "/datasets/" + file; }

std::shared_ptr<const LoadedDataset> Store::keep(const DatasetRecord &record, ImportedTable table) {
  auto entry = std::make_shared<LoadedDataset>(worker);
  entry->dataset = std::make_shared<Dataset>(record.name, record.version, table.rows, std::move(table.columns),
                                             std::move(table.storage), std::move(table.file));
  entry->label = Label::of({ownKey, record.name, record.version});
  worker.map(entry->id, entry->dataset); // where sessions have workers of their own they map it themselves
  loaded[record.name] = entry;
  return entry;
}

bool Store::isName(const std::string &name) {
  return !name.empty() && name.size() <= runtime::limits::kNameBytes &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '-' || c == '_' || c == '.' || c == ' '; });
}

llvm::Error Store::checkName(const std::string &name, const char *what) {
  if (!isName(name)) {
    return failure("'" + name + "' is not a valid name for " + what + ": expected 1 to " +
                   Twine(runtime::limits::kNameBytes) + " letters, digits, spaces and - _ . characters");
  }
  return llvm::Error::success();
}

static llvm::Error nameTaken(const std::string &name) {
  return failure("a dataset named '" + name + "' is already registered; choose another name");
}

llvm::Expected<DatasetRecord> Store::begin(const RegisterOptions &options) {
  if (llvm::Error error = checkName(options.name, "a dataset")) {
    return error;
  }
  auto present = find(options.name); // a damaged one also holds its name
  if (!present) {
    return present.takeError();
  }
  if (*present) {
    return nameTaken(options.name);
  }
  if (!options.population.empty()) {
    if (llvm::Error error = checkName(options.population, "a population")) {
      return error;
    }
  }
  if (options.policy == Policy::privateOnly && !options.subject) {
    return failure("policy private protects subjects, and none are declared: say that each row is one "
                   "(--rows-are-subjects), or name their column (--subject COLUMN)");
  }
  return newRecord(options);
}

DatasetRecord Store::newRecord(const RegisterOptions &options) const {
  DatasetRecord record;
  record.name = options.name;
  record.policy = options.policy;
  record.subject = options.subject;
  record.population = options.population;
  unsigned char version[8];
  environment.randomBytes(version, sizeof(version));
  record.version = llvm::toHex(llvm::ArrayRef(version), /*LowerCase=*/true);
  return record;
}

llvm::Expected<ImportedTable> Store::import(DatasetRecord &record, const DatasetSource &source,
                                            const RegisterOptions &given) const {
  RegisterOptions options = given;
  options.needsBounds = options.policy == Policy::privateOnly;
  record.source = source.path.empty() ? "memory" : fs::absolute(source.path).string();
  if (environment.storeDirectory.empty()) {
    return produce(record, source, options);
  }
  const bool isApart = options.isApart && !source.path.empty();
  std::optional<HeldSignals> held;
  if (isApart) {
    held.emplace();
  }
  auto mark = markImport(environment.storeDirectory, record.version);
  if (!mark) {
    return mark.takeError();
  }
  record.file = record.version + ".arrow";
  llvm::Error error = llvm::Error::success();
  if (isApart) {
    error = produceApart(record, source, options);
  } else {
    error = produce(record, source, options).takeError();
  }
  // From here on it is used from where it rests, as after a restart.
  auto table = error ? llvm::Expected<ImportedTable>(std::move(error))
                     : mapTable(filePath(record.file), record.rows, record.columns);
  if (!table) {
    removeImported(environment.storeDirectory, record.version);
    return table;
  }
  table->mark = std::move(*mark);
  return table;
}

llvm::Expected<ImportedTable> Store::produce(DatasetRecord &record, const DatasetSource &source,
                                             const RegisterOptions &options) const {
  auto table = importTable(source, options);
  if (!table) {
    return table;
  }
  record.contentHash = contentHash(*table);
  record.rows = table->rows;
  record.columns = table->columns;
  std::optional<Subjects> subjects = std::exchange(table->subjects, std::nullopt);
  record.subjectsFile = subjects ? record.version + ".subjects" : "";
  if (!environment.storeDirectory.empty()) {
    if (options.progress) {
      options.progress("writing", 0, 1);
    }
    if (llvm::Error error = writeTable(*table, filePath(record.file))) {
      return error;
    }
  }
  if (subjects) {
    if (llvm::Error error = keepSubjects(record, *table, *subjects)) {
      return error;
    }
  }
  return table;
}

llvm::Error Store::produceApart(DatasetRecord &record, const DatasetSource &source,
                                const RegisterOptions &options) const {
  auto file = SourceFile::open(source.path);
  if (!file) {
    return file.takeError();
  }
  const int64_t most = ImportMemory(options.maxBytes).limit();
  // Beside the memory that is counted: subjects, codes and texts of columns. An hour, and 10 seconds per megabyte.
  constexpr int64_t kMore = int64_t{1} << 20, kMost = int64_t{1} << 60;
  const ProcessLimits limits{std::min(most, kMost) * 2, std::min(most, kMost) + kMore, 3600 + file->size() / 100'000};
  auto report = runApart(source.path, limits, options.progress, [&](const Progress &progress) {
    RegisterOptions given = options;
    given.progress = progress;
    auto table = produce(record, source, given);
    return table ? llvm::Expected<std::string>(importReport(record)) : table.takeError();
  });
  llvm::Error error = report ? readReport(*report, record) : report.takeError();
  return error || options.policy != Policy::privateOnly ? std::move(error) : checkPrivate(record);
}

llvm::Error Store::keepSubjects(const DatasetRecord &record, ImportedTable &table, const Subjects &subjects) const {
  if (environment.storeDirectory.empty()) {
    table.sealedSubjects = sealSubjects(subjects, record.version, memoryKey);
    return llvm::Error::success();
  }
  auto key = subjectsKey(subjectsKeyPath(), /*make=*/true);
  if (!key) {
    return key.takeError();
  }
  std::vector<char> sealed = sealSubjects(subjects, record.version, *key);
  sodium_memzero(key->data(), key->size());
  return writeSealed(sealed, filePath(*record.subjectsFile));
}

llvm::Expected<Subjects> Store::openSubjects(const std::string &name) {
  auto found = record(name);
  if (!found) {
    return found.takeError();
  }
  auto again = [&](const std::string &column) {
    // The name is taken, and its people stay those of one cap.
    std::string population = found->population.empty() ? name : found->population;
    bool isFile = found->source != "memory";
    return isFile
               ? "import the table again under another name, with its bounds, for the same population: sojourn-owner "
                 "import '" +
                     found->source + "' --name NAME --subject " + column + " --population '" + population + "'"
               : "register the table again under another name, with its bounds, for the same population: "
                 "owner.register(NAME, ..., subject=" +
                     column + ", population='" + population + "')";
  };
  if (!found->subject || found->subject->empty()) {
    return failure("no column names the subjects of dataset '" + name + "', so it cannot be aligned; " +
                   again("COLUMN"));
  }
  if (!found->subjectsFile || found->subjectsFile->empty()) {
    return failure("dataset '" + name + "' was imported by a release that did not keep subjects; " +
                   again("'" + *found->subject + "'"));
  }
  std::string whose = "the subjects of dataset '" + name + "'";
  if (environment.storeDirectory.empty()) {
    auto sealed = sealedSubjects.find(*found->subjectsFile);
    return openSealed(sealed == sealedSubjects.end() ? std::vector<char>() : sealed->second, found->version,
                      found->rows, memoryKey, whose);
  }
  whose += " ('" + filePath(*found->subjectsFile) + "')";
  auto key = subjectsKey(subjectsKeyPath(), /*make=*/false);
  if (!key) {
    return key.takeError();
  }
  auto sealed = readSealed(filePath(*found->subjectsFile), whose);
  if (!sealed) {
    sodium_memzero(key->data(), key->size());
    return sealed.takeError();
  }
  auto subjects = openSealed(std::move(*sealed), found->version, found->rows, *key, whose);
  sodium_memzero(key->data(), key->size());
  return subjects;
}

void Store::removeFiles(const DatasetRecord &record) const {
  std::error_code ignored;
  if (environment.storeDirectory.empty()) {
    return;
  }
  for (const std::string &file : {record.file, record.subjectsFile.value_or("")}) {
    if (!file.empty()) {
      fs::remove(filePath(file), ignored);
    }
  }
}

llvm::Error Store::enter(DatasetRecord record, ImportedTable table, Catalogue::Entering entering) {
  record.registeredMs = environment.clockMs();
  llvm::Error error = books->addDataset(record, entering);
  if (error) {
    removeFiles(record);
    return error;
  }
  if (!table.sealedSubjects.empty()) {
    sealedSubjects[*record.subjectsFile] = std::move(table.sealedSubjects);
  }
  keep(record, std::move(table));
  return llvm::Error::success();
}

llvm::Expected<DatasetRecord> Store::record(const std::string &name) {
  auto records = books->datasets();
  if (!records) {
    return records.takeError();
  }
  for (const DatasetRecord &record : **records) {
    if (record.name == name) {
      return record;
    }
  }
  return failure("no dataset is named '" + name + "'; 'sojourn-owner datasets' lists all datasets");
}

llvm::Error Store::checkPrivate(const DatasetRecord &record) {
  std::vector<std::string> lacking;
  for (const Column &column : record.columns) {
    if (!column.bounds && column.element != runtime::Element::i1) {
      lacking.push_back(column.name);
    }
  }
  if (!lacking.empty()) {
    return failure(lackingBounds(lacking, record.columns.size()) + "; import the table again");
  }
  for (const Column &column : record.columns) {
    if (column.meaning && column.meaning->isFound) {
      return failure("the categories of column '" + column.name +
                     "' were found in the rows of an open table; on a private table they must be declared, because "
                     "they would tell of the rows: import the table again with --categories " +
                     column.name + "=A,B");
    }
  }
  return record.subject ? llvm::Error::success()
                        : failure("policy private protects subjects, and none are declared: if each row of "
                                  "'" +
                                  record.name +
                                  "' is one, add --rows-are-subjects; if a column names them, "
                                  "import the table again with --subject COLUMN");
}

llvm::Expected<std::shared_ptr<const LoadedDataset>> Store::find(const std::string &name) {
  if (llvm::Error error = refresh()) {
    return error;
  }
  if (auto found = loaded.find(name); found != loaded.end()) {
    return found->second;
  }
  auto isNamed = books->isNamed(name); // a new table's name is not, and the list of all grows with them
  if (!isNamed || !*isNamed) {
    return isNamed ? llvm::Expected<std::shared_ptr<const LoadedDataset>>(nullptr) : isNamed.takeError();
  }
  auto records = books->datasets();
  if (!records) {
    return records.takeError();
  }
  for (const DatasetRecord &record : **records) {
    if (record.name == name) {
      auto table = mapTable(filePath(record.file), record.rows, record.columns);
      if (!table) {
        auto place = books->place(record.version);
        const bool isThere = place && *place && !(*place)->isReplaced && !(*place)->isRemoved;
        if (place && !isThere) { // replaced or removed since it was looked up
          llvm::consumeError(table.takeError());
          return find(name);
        }
        llvm::consumeError(place.takeError());
        return table.takeError();
      }
      return keep(record, std::move(*table));
    }
  }
  return nullptr;
}

} // namespace sojourn::owner
