// SPDX-License-Identifier: Apache-2.0
// The catalogue's tables and statements.
#include "owner/Catalogue.h"

#include "owner/Error.h"
#include "owner/Statement.h"
#include "runtime/Limits.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sojourn::owner {

using llvm::Twine;

/// The version of the tables below, in SQLite's user_version.
static constexpr int kSchemaVersion = 4;
static constexpr const char *kSchema = R"sql(
  CREATE TABLE datasets(
    name TEXT PRIMARY KEY, version TEXT NOT NULL, content_hash TEXT NOT NULL, source TEXT NOT NULL,
    file TEXT NOT NULL, policy TEXT NOT NULL, rows INTEGER NOT NULL, registered_ms INTEGER NOT NULL);
  CREATE TABLE columns(
    dataset TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, element TEXT NOT NULL,
    lower REAL, upper REAL, dims TEXT, PRIMARY KEY(dataset, position));
  CREATE TABLE programs(
    hash BLOB NOT NULL, client TEXT NOT NULL, runs INTEGER NOT NULL, ops INTEGER NOT NULL,
    text TEXT NOT NULL, first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL,
    PRIMARY KEY(hash, client));
)sql";
/// From version 1, whose columns were all plain numbers.
static constexpr const char *kAddShapes = "ALTER TABLE columns ADD COLUMN dims TEXT;";
/// From version 2, which knew neither whom a policy protects nor what a step spends; part of a new one, too.
static constexpr const char *kAddPrivacy = R"sql(
  ALTER TABLE datasets ADD COLUMN subject TEXT;
  ALTER TABLE datasets ADD COLUMN population TEXT NOT NULL DEFAULT '';
  ALTER TABLE datasets ADD COLUMN noise_multiplier REAL NOT NULL DEFAULT 1;
  ALTER TABLE datasets ADD COLUMN clip REAL NOT NULL DEFAULT 1;
  ALTER TABLE datasets ADD COLUMN metric_bound REAL NOT NULL DEFAULT 10;
  CREATE TABLE reports(
    hash BLOB NOT NULL, client TEXT NOT NULL, report TEXT NOT NULL, first_ms INTEGER NOT NULL,
    PRIMARY KEY(hash, client, report));
)sql";
/// From version 3, which did not keep subjects: NULL says so. Also the last part of a new one.
static constexpr const char *kAddSubjects = R"sql(
  ALTER TABLE datasets ADD COLUMN subjects_file TEXT;
  PRAGMA user_version = 4;
)sql";

/// Beside a catalogue of version 4, whose readers need not know it: what the numbers of columns stand for, where they
/// stand for anything. categories: a list in JSON.
static constexpr const char *kAddMeanings = R"sql(
  CREATE TABLE IF NOT EXISTS meanings(
    dataset TEXT NOT NULL, position INTEGER NOT NULL, categories TEXT, unit TEXT, fill REAL,
    is_found INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(dataset, position));
)sql";

/// Likewise: the clients that have access to a dataset; `*` is anyone, `?` those with a grant, to be entered by the one
/// that knows the ledger. Tables of before keep the access that they had.
static constexpr const char *kAddAccess = R"sql(
  CREATE TABLE access(dataset TEXT NOT NULL, client TEXT NOT NULL, PRIMARY KEY(dataset, client));
  INSERT INTO access SELECT name, CASE policy WHEN 'open' THEN '*' ELSE '?' END FROM datasets;
)sql";

/// Likewise. former: versions that are there no longer; the version in whose place other rows came last (empty: none,
/// the dataset was removed), and the most careful policy of those in between. left_files: see Catalogue::leftFiles.
static constexpr const char *kAddFormer = R"sql(
  CREATE TABLE IF NOT EXISTS former(
    version TEXT PRIMARY KEY, name TEXT NOT NULL, became TEXT NOT NULL, policy TEXT NOT NULL);
  CREATE INDEX IF NOT EXISTS former_by_became ON former(became);
  CREATE INDEX IF NOT EXISTS datasets_by_version ON datasets(version);
  CREATE TABLE IF NOT EXISTS left_files(file TEXT PRIMARY KEY);
)sql";

/// Likewise: words about a dataset; tags in lines.
static constexpr const char *kAddDescriptions = R"sql(
  CREATE TABLE IF NOT EXISTS descriptions(dataset TEXT PRIMARY KEY, words TEXT NOT NULL, tags TEXT NOT NULL);
)sql";

/// Likewise: what other owners, by their keys, may see of a dataset.
static constexpr const char *kAddSharing = R"sql(
  CREATE TABLE IF NOT EXISTS sharing(
    dataset TEXT NOT NULL, member TEXT NOT NULL, level TEXT NOT NULL, PRIMARY KEY(dataset, member));
)sql";

/// Likewise: other owners, by their names. The keys are hexadecimal.
static constexpr const char *kAddPeers = R"sql(
  CREATE TABLE IF NOT EXISTS peers(name TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE, address TEXT NOT NULL);
)sql";

/// In lines.
static std::vector<std::string> tagsOf(const std::string &lines) {
  llvm::SmallVector<llvm::StringRef> tags;
  llvm::SplitString(lines, tags, "\n");
  return {tags.begin(), tags.end()};
}

static std::string unitName(Unit unit) {
  return unit == Unit::Days ? "days" : unit == Unit::Time ? "time" : unit == Unit::Seconds ? "seconds" : "";
}

/// A unit of a later release is none here.
static Unit parseUnit(const std::string &name) {
  for (Unit unit : {Unit::Days, Unit::Time, Unit::Seconds}) {
    if (name == unitName(unit)) {
      return unit;
    }
  }
  return Unit::None;
}

static std::string categoriesText(const Meaning &meaning) {
  llvm::json::Array list;
  for (const std::string &text : meaning.texts) {
    list.push_back(text);
  }
  for (int64_t number : meaning.numbers) {
    list.push_back(number);
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(list));
  return text;
}

static llvm::Error addCategories(llvm::StringRef text, Meaning &meaning) {
  auto parsed = llvm::json::parse(text);
  const llvm::json::Array *list = parsed ? parsed->getAsArray() : nullptr;
  bool isValid = list != nullptr;
  for (size_t code = 0; isValid && code < list->size(); ++code) {
    const llvm::json::Value &each = (*list)[code];
    if (auto name = each.getAsString()) {
      meaning.texts.push_back(name->str());
    } else if (auto number = each.getAsInteger()) {
      meaning.numbers.push_back(*number);
    } else {
      isValid = false;
    }
  }
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
  }
  return isValid && problemOf(meaning).empty()
             ? llvm::Error::success()
             : failure("the catalogue is damaged: the categories of a column are no list of them");
}

/// Sizes of an entry as "28,28"; the empty text for a number.
static std::string dimsText(llvm::ArrayRef<int64_t> dims) {
  return llvm::join(llvm::map_range(dims, [](int64_t dim) { return std::to_string(dim); }), ",");
}

static llvm::Expected<std::vector<int64_t>> parseDims(llvm::StringRef text) {
  std::vector<int64_t> dims;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/!text.empty());
  for (llvm::StringRef part : parts) {
    if (part.getAsInteger(10, dims.emplace_back())) {
      return failure("the catalogue is damaged: '" + text + "' is not a valid column shape");
    }
  }
  return dims;
}

llvm::Error Catalogue::lastError(const char *doing) {
  return failure("the catalogue failed while " + Twine(doing) + ": " + sqlite3_errmsg(database));
}

llvm::Error Catalogue::execute(const char *sql) {
  return sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK ? llvm::Error::success()
                                                                             : lastError("running a statement");
}

llvm::Expected<std::unique_ptr<Catalogue>> Catalogue::open(const std::string &directory) {
  std::string path = directory.empty() ? ":memory:" : directory + "/catalogue.db";
  if (!directory.empty()) {
    // As for the ledger: SQLite would make a file that others may read.
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0) {
      fchmod(file, 0600); // whatever the umask
      close(file);
    }
  }
  sqlite3 *handle = nullptr;
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  int state = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  std::unique_ptr<Catalogue> catalogue(new Catalogue(handle));
  if (state != SQLITE_OK) {
    return failure("cannot open '" + path + "': " + (handle ? sqlite3_errmsg(handle) : "out of memory"));
  }
  sqlite3_busy_timeout(handle, 5000);
  // A write-ahead log lets `sojourn-owner programs` read while a server writes. The immediate
  // transaction keeps two first openers from making the tables twice.
  if (llvm::Error error =
          catalogue->execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE")) {
    llvm::consumeError(std::move(error));
    return failure("cannot open '" + path + "': " + sqlite3_errmsg(handle));
  }
  int64_t version = -1;
  {
    Statement read(catalogue->database, "PRAGMA user_version");
    if (read.step() == SQLITE_ROW) {
      version = read.integer(0);
    }
  }
  if (version < 0 || version > kSchemaVersion) {
    return failure("'" + path + "' has catalogue version " + Twine(version) + ", this owner reads versions up to " +
                   Twine(kSchemaVersion));
  }
  auto has = [&](const std::string &table) {
    Statement read(catalogue->database, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?");
    return read.bind(table).step() == SQLITE_ROW;
  };
  const bool hasAccess = has("access");
  const std::string addLog = has("log_use") ? "" : logSchema();
  for (const char *part : {version == 0 ? kSchema : "", version == 1 ? kAddShapes : "", version < 3 ? kAddPrivacy : "",
                           version < 4 ? kAddSubjects : "", kAddMeanings, kAddFormer, kAddDescriptions, kAddSharing,
                           kAddPeers, hasAccess ? "" : kAddAccess, addLog.c_str(), "COMMIT"}) {
    if (llvm::Error error = catalogue->execute(part)) {
      return error;
    }
  }
  return catalogue;
}

Catalogue::Catalogue(sqlite3 *database) : database(database) {}

Catalogue::~Catalogue() {
  readPolicy.reset();
  readDefaults.reset();
  readAccess.reset();
  readChanges.reset();
  readMoves.reset();
  sqlite3_close(database);
}

llvm::Error Catalogue::addDataset(const DatasetRecord &record, Entering entering) {
  return transact([&]() -> llvm::Error {
    llvm::Error error = enterDataset(record);
    return error || !entering ? std::move(error) : entering();
  });
}

llvm::Error Catalogue::enterDataset(const DatasetRecord &record) {
  Statement insert(database,
                   "INSERT INTO datasets(name, version, content_hash, source, file, policy, rows, registered_ms, "
                   "subject, population, noise_multiplier, clip, metric_bound, subjects_file) "
                   "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(record.name).bind(record.version).bind(record.contentHash).bind(record.source);
  insert.bind(record.file).bind(std::string(policyName(record.policy)));
  insert.bind(record.rows).bind(record.registeredMs).bind(record.subject).bind(record.population);
  insert.bind(record.defaults.noiseMultiplier).bind(record.defaults.clip).bind(record.defaults.metricBound);
  int state = insert.bind(record.subjectsFile).step();
  if (state != SQLITE_DONE) {
    return state == SQLITE_CONSTRAINT
               ? failure("a dataset named '" + record.name + "' is already registered; choose another name")
               : lastError("registering a dataset");
  }
  // Left by a table that was removed by hand.
  llvm::Error error = change({"DELETE FROM meanings WHERE dataset = ?", "DELETE FROM access WHERE dataset = ?"},
                             record.name, "registering a dataset");
  return error ? std::move(error) : enterColumns(record);
}

llvm::Error Catalogue::enterColumns(const DatasetRecord &record) {
  int state = SQLITE_DONE;
  for (size_t index = 0; state == SQLITE_DONE && index < record.columns.size(); ++index) {
    const Column &column = record.columns[index];
    Statement add(
        database,
        "INSERT INTO columns(dataset, position, name, element, lower, upper, dims) VALUES(?, ?, ?, ?, ?, ?, ?)");
    add.bind(record.name).bind(static_cast<int64_t>(index)).bind(column.name);
    add.bind(std::string(runtime::elementName(column.element)));
    add.bind(column.bounds ? std::optional(column.bounds->lower) : std::nullopt);
    add.bind(column.bounds ? std::optional(column.bounds->upper) : std::nullopt);
    state = add.bind(dimsText(column.dims)).step();
    if (state == SQLITE_DONE && column.meaning) {
      const Meaning &meaning = *column.meaning;
      Statement note(database, "INSERT INTO meanings(dataset, position, categories, unit, fill, is_found) "
                               "VALUES(?, ?, ?, ?, ?, ?)");
      note.bind(record.name).bind(static_cast<int64_t>(index));
      note.bind(meaning.categories() > 0 ? std::optional(categoriesText(meaning)) : std::nullopt);
      note.bind(unitName(meaning.unit)).bind(meaning.fill);
      state = note.bind(static_cast<int64_t>(meaning.isFound)).step();
    }
  }
  return state == SQLITE_DONE ? llvm::Error::success()
         : state == SQLITE_CONSTRAINT
             ? failure("a dataset named '" + record.name + "' is already registered; choose another name")
             : lastError("registering a dataset");
}

llvm::Error Catalogue::transact(llvm::function_ref<llvm::Error()> changes) {
  if (llvm::Error error = execute("BEGIN IMMEDIATE")) {
    return error;
  }
  llvm::Error error = changes();
  error = error ? std::move(error) : execute("COMMIT");
  if (error) {
    llvm::consumeError(execute("ROLLBACK"));
  }
  return error;
}

/// All that `datasets` reads and that may change under one version.
llvm::Expected<std::string> Catalogue::datasetsPrint() {
  std::string print;
  for (const char *sql : {"SELECT name, version, policy, population, printf('%!.17g %!.17g %!.17g', noise_multiplier, "
                          "clip, metric_bound), subject, subjects_file, file, source, rows, content_hash, "
                          "registered_ms, words, tags FROM datasets LEFT JOIN descriptions ON dataset = name "
                          "ORDER BY registered_ms, name",
                          "SELECT * FROM access ORDER BY 1, 2"}) {
    Statement read(database, sql);
    int state;
    while ((state = read.step()) == SQLITE_ROW) {
      for (int column = 0; column < read.columns(); ++column) {
        const std::string text = read.isNull(column) ? "" : read.text(column);
        print += (read.isNull(column) ? "-" : std::to_string(text.size())) + ' ' + text;
      }
    }
    if (state != SQLITE_DONE) {
      return lastError("reading datasets");
    }
  }
  return print;
}

llvm::Expected<std::shared_ptr<const std::vector<DatasetRecord>>> Catalogue::datasets() {
  Answers &known = answers();
  if (known.datasets) {
    return known.datasets;
  }
  // Most writes log programs and change no table. The content of a version never changes.
  auto print = datasetsPrint();
  if (!print) {
    return print.takeError();
  }
  if (listed && *print == listedPrint) {
    known.datasets = listed;
    return listed;
  }
  std::vector<DatasetRecord> records;
  Statement read(database, "SELECT name, version, content_hash, source, file, policy, rows, "
                           "registered_ms, subject, population, noise_multiplier, clip, metric_bound, subjects_file, "
                           "words, tags FROM datasets LEFT JOIN descriptions ON dataset = name "
                           "ORDER BY registered_ms, name");
  int state;
  while ((state = read.step()) == SQLITE_ROW) {
    DatasetRecord record;
    record.name = read.text(0);
    record.version = read.text(1);
    record.contentHash = read.text(2);
    record.source = read.text(3);
    record.file = read.text(4);
    // An unknown policy, of a later release perhaps, is the most careful one.
    record.policy = parsePolicy(read.text(5)).value_or(Policy::privateOnly);
    record.rows = read.integer(6);
    record.registeredMs = read.integer(7);
    record.subject = read.isNull(8) ? std::nullopt : std::optional(read.text(8));
    record.population = read.text(9);
    record.defaults = {read.real(10).value_or(1), read.real(11).value_or(1), read.real(12).value_or(10)};
    record.subjectsFile = read.isNull(13) ? std::nullopt : std::optional(read.text(13));
    if (!read.isNull(14)) {
      record.description = {read.text(14), tagsOf(read.text(15))};
    }
    Statement columns(database,
                      "SELECT name, element, lower, upper, dims, categories, unit, fill, is_found FROM columns "
                      "LEFT JOIN meanings USING(dataset, position) WHERE dataset = ? ORDER BY position");
    columns.bind(record.name);
    while ((state = columns.step()) == SQLITE_ROW) {
      Column column{columns.text(0), runtime::Element::f64, std::nullopt};
      std::string element = columns.text(1);
      for (runtime::Element each : kElements) {
        if (runtime::elementName(each) == element) {
          column.element = each;
        }
      }
      if (auto lower = columns.real(2), upper = columns.real(3); lower && upper) {
        column.bounds = Bounds{*lower, *upper};
      }
      auto dims = parseDims(columns.text(4));
      if (!dims) {
        return dims.takeError();
      }
      column.dims = std::move(*dims);
      auto meaning = std::make_shared<Meaning>();
      if (!columns.isNull(5)) {
        if (llvm::Error error = addCategories(columns.text(5), *meaning)) {
          return error;
        }
      }
      meaning->unit = parseUnit(columns.text(6));
      meaning->fill = columns.real(7);
      meaning->isFound = columns.integer(8) != 0;
      if (meaning->isFound && record.policy == Policy::privateOnly) {
        *meaning = {}; // the policy was set by another hand: categories, their number and a code tell of the rows
        column.bounds.reset();
      }
      column.meaning = meaning->isEmpty() ? nullptr : std::move(meaning);
      record.columns.push_back(std::move(column));
    }
    if (state != SQLITE_DONE) {
      break;
    }
    auto access = this->access(record.name);
    if (!access) {
      return access.takeError();
    }
    record.access = std::move(*access);
    records.push_back(std::move(record));
  }
  if (state != SQLITE_DONE) {
    return lastError("reading datasets");
  }
  auto list = std::make_shared<const std::vector<DatasetRecord>>(std::move(records));
  known.datasets = list;
  // If another process wrote meanwhile, the list is not reused for later versions of the catalogue.
  auto again = datasetsPrint();
  if (!again) {
    return again.takeError();
  }
  listed = *again == *print ? list : nullptr;
  listedPrint = std::move(*print);
  return list;
}

Catalogue::Answers &Catalogue::answers() {
  const auto now = version.now();
  if (!now || now != kept.version) {
    kept = {};
    kept.version = now;
  }
  return kept;
}

llvm::Expected<Policy> Catalogue::policy(const Source &source) {
  Answers &known = answers();
  if (auto found = known.policies.find(source.version); found != known.policies.end()) {
    return found->second;
  }
  if (!readPolicy) {
    // Names change, versions do not.
    readPolicy = std::make_unique<Statement>(
        database, "SELECT policy FROM datasets WHERE version = ? UNION ALL SELECT CASE former.policy WHEN 'open' THEN "
                  "datasets.policy ELSE 'private' END FROM former JOIN datasets ON datasets.version = former.became "
                  "WHERE former.version = ?");
  }
  int state = readPolicy->bind(source.version).bind(source.version).step();
  std::string text = state == SQLITE_ROW ? readPolicy->text(0) : "";
  readPolicy->reset();
  if (state != SQLITE_ROW && state != SQLITE_DONE) {
    return lastError("reading a policy");
  }
  const Policy policy = parsePolicy(text).value_or(Policy::privateOnly);
  if (state == SQLITE_ROW) {
    keep(known.policies, source.version, policy);
  }
  return policy;
}

llvm::Error Catalogue::setPolicy(const std::string &name, Policy policy) {
  Statement update(database, "UPDATE datasets SET policy = ? WHERE name = ?");
  return checkChanged(update.bind(std::string(policyName(policy))).bind(name).step(), name, "changing a policy");
}

llvm::Error Catalogue::setSubject(const std::string &name, const std::string &subject) {
  Statement update(database, "UPDATE datasets SET subject = ? WHERE name = ?");
  return checkChanged(update.bind(subject).bind(name).step(), name, "noting the subject");
}

llvm::Error Catalogue::setDefaults(const std::string &name, const PrivacyDefaults &defaults) {
  Statement update(database, "UPDATE datasets SET noise_multiplier = ?, clip = ?, metric_bound = ? WHERE name = ?");
  update.bind(defaults.noiseMultiplier).bind(defaults.clip).bind(defaults.metricBound);
  return checkChanged(update.bind(name).step(), name, "changing defaults");
}

llvm::Error Catalogue::checkChanged(int state, const std::string &name, const char *doing) {
  if (state != SQLITE_DONE) {
    return lastError(doing);
  }
  return sqlite3_changes(database) > 0
             ? llvm::Error::success()
             : failure("no dataset is named '" + name + "'; 'sojourn-owner datasets' lists all datasets");
}

llvm::Expected<PrivacyDefaults> Catalogue::defaults(const Source &source) {
  Answers &known = answers();
  if (auto found = known.defaults.find(source.version); found != known.defaults.end()) {
    return found->second;
  }
  if (!readDefaults) {
    readDefaults = std::make_unique<Statement>(
        database, "SELECT noise_multiplier, clip, metric_bound FROM datasets WHERE version = ?");
  }
  PrivacyDefaults defaults;
  int state = readDefaults->bind(source.version).step();
  if (state == SQLITE_ROW) {
    defaults = {readDefaults->real(0).value_or(1), readDefaults->real(1).value_or(1),
                readDefaults->real(2).value_or(10)};
    keep(known.defaults, source.version, defaults);
  }
  readDefaults->reset();
  return state == SQLITE_ROW || state == SQLITE_DONE ? llvm::Expected<PrivacyDefaults>(defaults)
                                                     : lastError("reading defaults");
}

} // namespace sojourn::owner
