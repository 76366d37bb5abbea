// SPDX-License-Identifier: Apache-2.0
// A table as a data scientist sees it: names, types, bounds, batches. Never a value. A table asks
// for rows by number; at an owner that request is recorded and the rows are drawn and read inside
// the step that uses them, so nothing here makes a round trip.
#ifndef SOJOURN_FRONTEND_TABLES_TABLE_H
#define SOJOURN_FRONTEND_TABLES_TABLE_H

#include "dialect/Part.h"
#include "runtime/terms/Defaults.h"
#include "runtime/wire/Meaning.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sojourn {

struct Column {
  std::string name;
  at::ScalarType dtype;
  /// Declared by the owner, not measured.
  std::optional<std::pair<double, double>> bounds = std::nullopt;
  /// Sizes of one row's entry: none for a plain number, [28, 28] for a small image.
  std::vector<int64_t> shape = {};
  /// What the numbers stand for: categories, dates, the fill of missing entries. Null: themselves.
  std::shared_ptr<const Meaning> meaning = nullptr;
};

/// A dataset, as described by the owner.
struct Dataset {
  std::string name = "", policy = "", version = "";
  /// nullopt only in a description of a table (`specTable`) with an open number of rows.
  std::optional<int64_t> rows = 0;
  std::vector<Column> columns = {};
  /// Of a private table: chosen by the data owner, for steps that do not set them. nullopt only in a description of a
  /// table (`specTable`) without defaults.
  std::optional<terms::Defaults> defaults = terms::Defaults();
  std::string description = ""; ///< the data owner's words
  std::vector<std::string> tags = {};
  /// In a description of a table (`specTable`) for a step of several owners: the party that has it.
  std::string party = "";
};

namespace frontend {

/// One look-up in an order of the table's rows. Position p of `part` becomes a row number within the part, by the order
/// of an epoch; or, with `isSplit`, within the whole of which the part is a side, by the order of that split. A
/// position outside the part becomes -1. With `expected` above 0 it is the owner's draw on a private table instead:
/// each row of the part is drawn with probability expected / (rows of the part), by the owner's secret coins. Seed,
/// epoch and source distinguish draws.
struct RowDraw {
  std::vector<Side> part; ///< from the table down
  bool isSplit;
  int64_t seed, epoch, expected;
  int64_t source; ///< number of the Batches object that it belongs to
};

/// Positions [start, start + size) in the order of one table's rows.
struct BatchShare {
  int64_t start = 0, size = 0;
};

/// A request for row numbers: `size` numbers start, start + 1, ... (from 0 without a start), then each
/// draw in turn.
struct RowNumbers {
  int64_t size = 0;
  std::optional<int64_t> start;
  std::vector<RowDraw> draws;
  bool isWhole = false; ///< all rows of the table or part; `size` follows from the table's number of rows
  int64_t batch = 0;    ///< of a batch: the size of all batches but the last
  /// Of a batch of a joined table: what it takes of each table. Empty: as `batch`, `start` and `size` say.
  std::vector<BatchShare> shares = {};
};

/// The numbers for a table of `rows` rows: int64 [size] on the CPU.
at::Tensor evaluate(const RowNumbers &numbers, int64_t rows);

class Session;

/// The source of one dataset's rows: an owner, or this process's memory.
class RowReader {
public:
  virtual ~RowReader() = default;
  /// The same rows for steps of a group, whose member `role` has them; null: for no group. Throws Error where they are
  /// elsewhere.
  virtual std::shared_ptr<RowReader> ofMember(const std::shared_ptr<Session> &group, unsigned role) = 0;
  /// [size, columns.size()] of `dtype` for columns of plain numbers; [size, its shape...] for a column read
  /// `alone`. A row number outside the table gives zeros.
  virtual at::Tensor rows(const std::vector<std::string> &columns, bool alone, at::ScalarType dtype,
                          const RowNumbers &numbers) = 0;
  /// Names of the tables that are read as one; none of a single table.
  virtual std::vector<std::string> tables() const { return {}; }
  /// Of a table that is described ahead of time: its party's role. -1: of others.
  virtual int64_t role() const { return -1; }
};

} // namespace frontend

/// The columns to read. One name, "image", reads that column alone: [B, its shape...], or [B] for a
/// plain number. A list, {"age", "weight"}, reads columns of plain numbers side by side: [B, F].
struct Features {
  Features() = default;
  Features(const char *name) : names{name}, alone(true) {}
  Features(std::string name) : names{std::move(name)}, alone(true) {}
  Features(std::vector<std::string> names) : names(std::move(names)) {}
  Features(std::initializer_list<std::string> names) : names(names) {}

  std::vector<std::string> names;
  bool alone = false;
};

/// Several tensors of the same rows, each with a name: {{"image", "scan"}, {"row", {"age", "weight"}}}.
using NamedFeatures = std::vector<std::pair<std::string, Features>>;

/// `features` describe one tensor, `named` several.
///
/// Dtypes: a list of features is float32. A column read alone, and a label, keep the kind of their column:
/// floats become float32, integers and booleans int64, and a uint8 column with a shape stays uint8.
/// `dtype` (of one tensor) and `labelDtype` override this.
struct BatchOptions {
  Features features = {};
  NamedFeatures named = {};
  std::optional<std::string> label;
  int64_t size = 64, epochs = 1;
  bool shuffle = true;
  int64_t seed = 0;
  bool dropLast = false;
  std::optional<at::ScalarType> dtype = std::nullopt, labelDtype = std::nullopt;
};

/// x: [B, F], or [B, shape...] for one feature by its name. y: [B, shape of the label's column...],
/// undefined without a label. `auto [x, y] = batch` gives both.
struct Batch {
  at::Tensor x, y;
  /// With `BatchOptions::named`, in its order; x is then undefined. All are of the same rows, as y is.
  std::vector<std::pair<std::string, at::Tensor>> named = {};

  /// The tensor with this name; an unknown name throws Error with similar names.
  const at::Tensor &operator[](const std::string &name) const;
  /// Those of the features in their order, then y if there is a label.
  std::vector<at::Tensor> tensors() const;

  template <size_t I>
  at::Tensor &get() {
    return I == 0 ? x : y;
  }
  template <size_t I>
  const at::Tensor &get() const {
    return I == 0 ? x : y;
  }
};

class Batches;

/// A dataset, or a part of one. Copies share it. Errors are sojourn::Error and list the known names.
class Table {
public:
  /// `joined`: the rows of each of several tables that it consists of (JoinedRows.h).
  Table(std::shared_ptr<frontend::RowReader> reader, Dataset dataset, std::vector<int64_t> joined = {});

  const std::string &name() const { return dataset_->name; }
  const std::string &policy() const { return dataset_->policy; }
  const std::vector<Column> &columns() const { return dataset_->columns; }
  const Dataset &dataset() const { return *dataset_; }
  /// Throws Error if a description leaves it open.
  int64_t rows() const { return count("the number of rows"); }
  std::optional<int64_t> knownRows() const { return count_; }
  /// The splits that lead to this part, from the table down; empty for the table.
  const std::vector<Side> &part() const { return sides_; }

  /// One whole column [rows, shape...] in its own dtype.
  at::Tensor operator[](const std::string &column) const;
  /// Whole columns, selected as in `Features`; all columns if none are named. Dtypes as in BatchOptions.
  at::Tensor rows(const Features &features, std::optional<at::ScalarType> dtype = std::nullopt) const;
  /// Pairs (x, y). Epoch e takes the rows in the order of `batchIndices(rows(), size, seed, e)`, each
  /// row once. The last batch of an epoch may be short. Each batch is read within the step that uses it.
  ///
  /// Each batch of a private table is the owner's own draw: every row is in it with probability
  /// size / rows, so it has `size` rows on average. The batch has a fixed, slightly larger number of
  /// slots; slots without a row contribute nothing. Seed and drop_last have no effect there.
  Batches batches(BatchOptions options) const;
  bool isPrivate() const { return policy() == "private"; }
  /// Two tables without a common row; the first has `fraction` of the rows. `splitIndices` gives the
  /// rows, which are the same at every owner and on the CPU.
  std::pair<Table, Table> split(double fraction, int64_t seed = 0) const;

  /// "name: N rows, M columns, policy P", then a line per column, the defaults of a private table, and `meanings`.
  std::string str() const;
  /// "arm: 0 placebo, 1 low", a line per column whose numbers stand for something; of the first of many.
  std::vector<std::string> meanings() const;
  std::string title() const;
  /// "defaults: noise multiplier N, clip C, metric bound B"; empty on an open table.
  std::string defaults() const;
  /// Head and rows of the listing in `str`: name, dtype, bounds.
  std::vector<std::array<std::string, 3>> cells() const;
  /// The column with this name; an unknown name throws Error with similar names.
  const Column &find(const std::string &column) const;
  const std::shared_ptr<frontend::RowReader> &reader() const { return reader_; }
  /// Of a joined table: the rows of each of its tables, or of the part of it.
  const std::vector<int64_t> &joined() const { return joined_; }

private:
  friend class Batches;

  /// The columns of a request; throws for columns that cannot be read side by side.
  std::vector<std::string> namesOf(const Features &features) const;
  at::ScalarType defaultDtype(const Features &features) const;
  at::Tensor read(const Features &features, std::optional<at::ScalarType> dtype,
                  const frontend::RowNumbers &numbers) const;
  frontend::RowNumbers inDataset(frontend::RowNumbers numbers) const;
  /// `capacity` above 0: the number of slots of the owner's draw.
  frontend::RowNumbers numbers(const BatchOptions &options, int64_t size, int64_t epoch, int64_t start,
                               int64_t capacity, int64_t source) const;
  /// `what`: the request, for the error.
  frontend::RowNumbers whole(const std::string &what) const;
  int64_t count(const std::string &what) const;

  std::shared_ptr<frontend::RowReader> reader_;
  std::shared_ptr<const Dataset> dataset_;
  std::vector<Side> sides_;
  std::vector<int64_t> seeds_; ///< one per split
  std::string part_;
  std::optional<int64_t> count_;
  std::vector<int64_t> joined_; ///< of a joined table: rows of each table, or of the part of it
};

std::ostream &operator<<(std::ostream &stream, const Table &table);

/// The batches of all epochs: `for (auto [x, y] : table.batches({...}))`.
class Batches {
public:
  Batches(Table table, BatchOptions options);

  /// Both throw Error if a description leaves the number of rows open.
  int64_t size() const { return options_.epochs * perEpoch(); }
  int64_t perEpoch() const;
  /// Batch `index` among the batches of all epochs. Throws Error if it does not exist.
  Batch at(int64_t index) const;
  /// The batch at positions [start, start + size) of an epoch's order, unchecked. A compiled step
  /// records one batch, and each run sets its positions.
  Batch record(int64_t epoch, int64_t start, int64_t size) const;
  /// Likewise of a joined table, by the share of each of its tables.
  Batch record(int64_t epoch, const std::vector<frontend::BatchShare> &shares) const;
  const Table &table() const { return table_; }
  const BatchOptions &options() const { return options_; }

  class iterator {
  public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = const Batch *;
    using reference = Batch;
    iterator(const Batches *batches, int64_t index) : batches_(batches), index_(index) {}
    Batch operator*() const { return batches_->at(index_); }
    iterator &operator++() {
      ++index_;
      return *this;
    }
    iterator operator++(int) {
      iterator before = *this;
      ++index_;
      return before;
    }
    bool operator==(const iterator &other) const { return index_ == other.index_; }

  private:
    const Batches *batches_;
    int64_t index_;
  };
  iterator begin() const { return {this, 0}; }
  iterator end() const { return {this, size()}; }

private:
  Batch read(int64_t size, int64_t epoch, int64_t start, const std::vector<frontend::BatchShare> &shares = {}) const;
  void checkFeatures() const;

  Table table_;
  BatchOptions options_;
  int64_t end_ = 0;      ///< rows of an epoch that are in batches; unknown if the number of rows is open
  int64_t capacity_ = 0; ///< slots of a batch of a private table
  int64_t source_ = 0;   ///< of a private table: a number unique in this process
};

/// The row numbers (int64) of each batch of one epoch, in the order of `Table::batches`; each row once.
/// The last batch is short if `size` does not divide `rows`, unless `dropLast` leaves it out.
std::vector<at::Tensor> batchIndices(int64_t rows, int64_t size, int64_t seed, int64_t epoch, bool dropLast = false);
/// The row numbers behind the two tables of `Table::split(fraction, seed)`, in their order.
std::pair<at::Tensor, at::Tensor> splitIndices(int64_t rows, double fraction, int64_t seed);

} // namespace sojourn

template <>
struct std::tuple_size<sojourn::Batch> : std::integral_constant<size_t, 2> {};
template <size_t I>
struct std::tuple_element<I, sojourn::Batch> {
  using type = at::Tensor;
};

#endif // SOJOURN_FRONTEND_TABLES_TABLE_H
