// SPDX-License-Identifier: Apache-2.0
// A registered table as the owner holds it, and what somebody says who registers one.
#ifndef SOJOURN_OWNER_DATASET_H
#define SOJOURN_OWNER_DATASET_H

#include "owner/Label.h"
#include "owner/Subject.h"
#include "runtime/Tensor.h"
#include "runtime/terms/Defaults.h"
#include "runtime/wire/Meaning.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace sojourn::owner {

/// A closed range that every value of a column is clamped to when the table is loaded.
struct Bounds {
  double lower = 0;
  double upper = 0;
};

/// One column: `rows` entries one after another, each a row-major array of sizes `dims` (none: a
/// plain number). The memory belongs to the Dataset's storage.
struct Column {
  std::string name;
  runtime::Element element;
  std::optional<Bounds> bounds;
  const void *data = nullptr;
  std::vector<int64_t> dims = {};
  MeaningPtr meaning = nullptr; ///< what the numbers stand for
};

/// The file that a table rests in, open for reading, and where each of its columns begins, in bytes.
struct TableFile {
  explicit TableFile(int descriptor) : descriptor(descriptor) {}
  ~TableFile();
  TableFile(const TableFile &) = delete;
  TableFile &operator=(const TableFile &) = delete;
  const int descriptor;
  uint64_t size = 0; ///< of the file when it was opened
  std::vector<uint64_t> offsets;
};

/// A loaded table; immutable, so that any number of steps may read it. Its rows are read by worker/TableRows.h.
class Dataset {
public:
  Dataset(std::string name, std::string version, int64_t rows, std::vector<Column> columns,
          std::shared_ptr<void> storage, std::shared_ptr<const TableFile> file = nullptr);

  const std::string &name() const { return tableName; }
  /// A random text, new with every registration. Never derived from the contents: it is shown to
  /// clients, and a hash of private data confirms guesses.
  const std::string &version() const { return tableVersion; }
  const std::vector<Column> &columns() const { return tableColumns; }
  const Column *column(const std::string &columnName) const;

  int64_t rows() const { return rowCount; }
  /// Null where the table is in memory alone.
  const std::shared_ptr<const TableFile> &file() const { return ownFile; }

private:
  std::string tableName, tableVersion;
  int64_t rowCount;
  std::vector<Column> tableColumns;
  std::unordered_map<std::string, size_t> columnIndex;
  std::shared_ptr<void> storage;
  std::shared_ptr<const TableFile> ownFile;
};

/// An array in the caller's memory, read during registration only: `length` rows one after another,
/// each a row-major array of sizes `dims` (none: a plain number).
struct NamedArray {
  std::string name;
  runtime::Element element;
  int64_t length = 0;
  const void *data = nullptr;
  std::vector<int64_t> dims = {};
};

/// Where a table comes from: a .csv, .parquet, .arrow/.feather or .npz file, or arrays.
struct DatasetSource {
  std::string path;
  std::vector<NamedArray> arrays;
};

using PrivacyDefaults = terms::Defaults;

struct RegisterOptions {
  std::string name;
  Policy policy = Policy::privateOnly;
  /// Whom the policy protects: the column that names the subject of each row, none of them twice; empty: each row is a
  /// subject. The column is no part of the table. Private tables need an answer.
  std::optional<std::string> subject;
  /// The people that the table is about: tables of one population are paid for together. Empty: its own name.
  std::string population;
  /// Whether every column must have bounds; booleans have them by their type.
  bool needsBounds = false;
  std::map<std::string, Bounds> bounds;
  /// Per column the value that replaces missing and non-finite entries; without one they are
  /// refused.
  std::map<std::string, double> fills;
  /// Per column its categories, or that it holds dates (unit Days). The entries of a file become their positions among
  /// the categories; arrays hold the positions already.
  std::map<std::string, Meaning> meanings = {};
  /// Columns whose categories are texts of a command line; none: those in the rows (see Codes.h).
  std::set<std::string> untyped = {};
  /// Fills and bounds of a file's columns in words: a category, a date, a time.
  std::map<std::string, std::string> fillTexts = {};
  std::map<std::string, std::pair<std::string, std::string>> boundTexts = {};
  /// The columns to keep, in this order; empty keeps all.
  std::vector<std::string> columns;
  /// The name is that of a dataset that was removed, whose budgets go on.
  bool continuesBudget = false;
  /// The most memory that reading the file and its table may take together, in bytes; 0: three quarters of the
  /// machine's.
  int64_t maxBytes = 0;
  /// Whether a separate process reads the file, as far as it can be left alone for that: no other thread runs.
  bool isApart = false;
  /// Told of each stage with what is done of how much; may be empty.
  std::function<void(const std::string &stage, int64_t done, int64_t total)> progress;
};

/// Columns that passed every check of registration, with the memory behind them.
struct ImportedTable {
  int64_t rows = 0;
  std::vector<Column> columns;
  std::shared_ptr<void> storage;
  /// Where they rest in one.
  std::shared_ptr<const TableFile> file = nullptr;
  /// Of each row, where a column names them; on the way from the import to where they are sealed, and nowhere else.
  std::optional<Subjects> subjects = std::nullopt;
  /// They, where the store is in memory.
  std::vector<char> sealedSubjects = {};
  /// Held until it is in the catalogue; see StoreFolder.h.
  std::shared_ptr<void> mark = nullptr;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_DATASET_H
