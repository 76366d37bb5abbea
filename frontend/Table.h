// SPDX-License-Identifier: Apache-2.0
// A table as a data scientist sees it: names, types, bounds, batches. Never a value. A table asks
// for rows by number; at an owner that request is recorded and the rows are drawn and read inside
// the step that uses them, so nothing here makes a round trip.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
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
  std::optional<std::pair<double, double>> bounds;
};

/// A dataset as the owner describes it.
struct Dataset {
  std::string name, policy, version;
  int64_t rows = 0;
  std::vector<Column> columns;
};

namespace frontend {

/// Where the rows of one dataset come from: an owner, or this process's memory.
class RowReader {
public:
  virtual ~RowReader() = default;
  /// [indices.size(0), columns.size()] of `dtype`; indices: int64 [B]. An index outside the table
  /// gives a row of zeros.
  virtual at::Tensor rows(const std::vector<std::string> &columns, at::ScalarType dtype, const at::Tensor &indices) = 0;
  /// int64 [size]: positions start..start+size of the epoch's order of `rows` rows; -1 outside.
  virtual at::Tensor sample(int64_t rows, int64_t size, int64_t seed, int64_t epoch, int64_t start) = 0;
  /// int64 [size]: start, start + 1, ...
  virtual at::Tensor range(int64_t size, int64_t start) = 0;
};

} // namespace frontend

struct BatchOptions {
  std::vector<std::string> features;
  std::optional<std::string> label;
  int64_t size = 64, epochs = 1;
  bool shuffle = true;
  int64_t seed = 0;
  bool dropLast = false;
  at::ScalarType dtype = at::kFloat, labelDtype = at::kLong;
};

/// x: [B, F]; y: [B], undefined if no label was asked for.
struct Batch {
  at::Tensor x, y;
};

class Batches;

/// A dataset, or a part of one. Copies share it. Errors: sojourn::Error naming what there is.
class Table {
public:
  Table(std::shared_ptr<frontend::RowReader> reader, Dataset dataset);

  const std::string &name() const { return dataset_->name; }
  const std::string &policy() const { return dataset_->policy; }
  const std::vector<Column> &columns() const { return dataset_->columns; }
  int64_t rows() const { return count_; }

  /// One whole column [rows] in its own dtype.
  at::Tensor operator[](const std::string &column) const;
  /// Whole columns side by side [rows, F]; all columns if none are named.
  at::Tensor rows(const std::vector<std::string> &features, at::ScalarType dtype = at::kFloat) const;
  /// Pairs (x, y). Epoch e takes the rows in the order of `batchIndices(rows(), size, seed, e)`; the
  /// last batch of an epoch may be short. Each batch is read within the step that uses it.
  Batches batches(BatchOptions options) const;
  /// Two tables without a common row; the first has `fraction` of the rows. Which rows:
  /// `splitIndices`, the same at every owner and on the CPU.
  std::pair<Table, Table> split(double fraction, int64_t seed = 0) const;

  /// "name: N rows, M columns, policy P", then a line per column.
  std::string str() const;
  std::string title() const;
  /// Head and columns of that listing: name, dtype, bounds.
  std::vector<std::array<std::string, 3>> cells() const;
  /// The column of this name; throws with the nearest names.
  const Column &find(const std::string &column) const;

private:
  friend class Batches;
  struct Selection;

  at::Tensor base(const Selection &selection) const;
  at::Tensor numbers(const BatchOptions &options, int64_t size, int64_t epoch, int64_t start) const;
  at::Tensor whole() const;

  std::shared_ptr<frontend::RowReader> reader_;
  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const Selection> selection_;
  std::string part_;
  int64_t count_;
};

std::ostream &operator<<(std::ostream &stream, const Table &table);

/// The batches of all epochs: `for (auto [x, y] : table.batches({...}))`.
class Batches {
public:
  Batches(Table table, BatchOptions options);

  int64_t size() const { return options_.epochs * perEpoch(); }
  int64_t perEpoch() const;
  /// Batch `index` of all epochs' batches. Throws Error if there is no such batch.
  Batch at(int64_t index) const;

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
  Table table_;
  BatchOptions options_;
  int64_t end_;
};

/// The row numbers (int64) of each batch of one epoch, in the order that `Table::batches` uses. The
/// last is short when `size` does not divide `rows`, unless `dropLast` leaves it out.
std::vector<at::Tensor> batchIndices(int64_t rows, int64_t size, int64_t seed, int64_t epoch, bool dropLast = false);
/// The row numbers behind the two tables of `Table::split(fraction, seed)`, in their order.
std::pair<at::Tensor, at::Tensor> splitIndices(int64_t rows, double fraction, int64_t seed);

} // namespace sojourn
