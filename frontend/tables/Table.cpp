// SPDX-License-Identifier: Apache-2.0
// Tables over any row reader: selections, batches, text.
#include "frontend/tables/Table.h"

#include "frontend/compile/Names.h"
#include "frontend/Raise.h"
#include "runtime/Philox.h"
#include "runtime/privacy/Tail.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <ostream>

namespace sojourn {

namespace {

constexpr size_t kShownColumns = 60;
/// A split orders its rows as this epoch does: no training run counts that far, so a split and the
/// batches drawn with the same seed are independent.
constexpr int64_t kSplitEpoch = 0xFFFFFFFF;

void require(bool condition, const std::string &message) {
  if (!condition) {
    raise(ErrorKind::Error, message);
  }
}

/// All rows in an epoch's order.
at::Tensor permutation(int64_t rows, int64_t seed, int64_t epoch) {
  require(rows >= 0 && rows <= runtime::kOrderedRows,
          "rows must be a number in [0, 2^40], got " + std::to_string(rows));
  return frontend::evaluate({rows, std::nullopt, {{{}, false, seed, epoch, 0, 0}}}, rows);
}

void requireFraction(double fraction) {
  require(fraction > 0 && fraction < 1, "fraction must lie between 0 and 1, got " + std::to_string(fraction));
}

/// "[28, 28]"
std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

std::string shortNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

} // namespace

at::Tensor frontend::evaluate(const RowNumbers &numbers, int64_t rows) {
  at::Tensor result = at::empty({numbers.size}, at::device(at::kCPU).dtype(at::kLong));
  int64_t *out = result.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < numbers.size; ++i) {
    out[i] = numbers.start.value_or(0) + i;
  }
  for (const RowDraw &draw : numbers.draws) {
    const PartRows part = rowsOfPart(rows, draw.part);
    const auto seed = static_cast<uint64_t>(draw.seed), epoch = static_cast<uint64_t>(draw.epoch);
    for (int64_t i = 0; i < numbers.size; ++i) {
      out[i] = draw.isSplit ? runtime::rowOfSplit(out[i], part, seed, epoch)
                            : runtime::rowAt(out[i], part.rows, seed, epoch);
    }
  }
  return result;
}

Table::Table(std::shared_ptr<frontend::RowReader> reader, Dataset dataset, std::vector<int64_t> joined)
    : reader_(std::move(reader)), count_(dataset.rows), joined_(std::move(joined)) {
  dataset_ = std::make_shared<const Dataset>(std::move(dataset));
}

const Column &Table::find(const std::string &column) const {
  for (const Column &candidate : columns()) {
    if (candidate.name == column) {
      return candidate;
    }
  }
  std::vector<std::string> known;
  for (const Column &candidate : columns()) {
    known.push_back(candidate.name);
  }
  raise(ErrorKind::Error,
        "table '" + name() + "' has no column '" + column + "'" + frontend::nearestNames(column, known, "its columns"));
}

int64_t Table::count(const std::string &what) const {
  require(count_.has_value(),
          what + " of table '" + name() +
              "' is not known: the table was described without a number of rows, so that the step runs on tables of "
              "any size; give table_spec its rows, or use batches and splits of the table");
  return *count_;
}

/// From positions within this part to rows of the dataset: one draw per split above it. Computed anew
/// in each program and not kept as a handle: it then needs no state, survives a dropped step, and every
/// batch runs the same program.
frontend::RowNumbers Table::inDataset(frontend::RowNumbers numbers) const {
  for (size_t depth = sides_.size(); depth > 0; --depth) {
    std::vector<Side> part(sides_.begin(), sides_.begin() + static_cast<std::ptrdiff_t>(depth));
    numbers.draws.push_back({std::move(part), true, seeds_[depth - 1], kSplitEpoch, 0, 0});
  }
  return numbers;
}

frontend::RowNumbers Table::whole(const std::string &what) const {
  return inDataset({count(what), std::nullopt, {}, true});
}

frontend::RowNumbers Table::numbers(const BatchOptions &options, int64_t size, int64_t epoch, int64_t start,
                                    int64_t capacity, int64_t source) const {
  if (capacity > 0) {
    // Which batch it is tells one draw from another in a step; the rows are the owner's secret.
    return inDataset({capacity, std::nullopt, {{sides_, false, start, epoch, options.size, source}}});
  }
  frontend::RowNumbers numbers{size, start, {}};
  numbers.batch = options.size;
  if (options.shuffle) {
    numbers.draws.push_back({sides_, false, options.seed, epoch, 0, 0});
  }
  return inDataset(std::move(numbers));
}

std::vector<std::string> Table::namesOf(const Features &features) const {
  std::vector<std::string> names;
  for (const std::string &feature : features.names) {
    names.push_back(find(feature).name);
  }
  if (names.empty()) {
    for (const Column &column : columns()) {
      names.push_back(column.name);
    }
  }
  for (const std::string &name : names) {
    if (const Column &column = find(name); !features.alone && !column.shape.empty()) {
      raise(ErrorKind::Error, "column '" + name + "' of table '" + this->name() + "' has entries of shape " +
                                  shapeText(column.shape) +
                                  " and cannot be read in a list of columns; read it alone, by its name: \"" + name +
                                  "\" instead of [\"" + name + "\"]");
    }
  }
  return names;
}

at::ScalarType Table::defaultDtype(const Features &features) const {
  if (!features.alone) {
    return at::kFloat;
  }
  const Column &column = find(features.names[0]);
  if (column.dtype == at::kByte && !column.shape.empty()) {
    return at::kByte;
  }
  return at::isFloatingType(column.dtype) ? at::kFloat : at::kLong;
}

at::Tensor Table::read(const Features &features, std::optional<at::ScalarType> dtype,
                       const frontend::RowNumbers &numbers) const {
  return reader_->rows(namesOf(features), features.alone, dtype ? *dtype : defaultDtype(features), numbers);
}

at::Tensor Table::operator[](const std::string &column) const {
  const at::ScalarType dtype = find(column).dtype;
  return read(column, dtype, whole("column '" + column + "'"));
}

at::Tensor Table::rows(const Features &features, std::optional<at::ScalarType> dtype) const {
  return read(features, dtype, whole("rows()"));
}

std::pair<Table, Table> Table::split(double fraction, int64_t seed) const {
  requireFraction(fraction);
  require(sides_.size() < static_cast<size_t>(kSplitsMost),
          "a split of splits is at most " + std::to_string(kSplitsMost) + " deep");
  auto part = [&](bool isOther) {
    Table table = *this;
    table.sides_.push_back({fraction, isOther});
    table.seeds_.push_back(seed);
    if (count_) {
      const std::vector<Side> side{{fraction, isOther}};
      table.count_ = joined_.empty() ? rowsOfPart(*count_, side).rows : 0;
      for (int64_t &rows : table.joined_) { // each table is split by itself
        rows = rowsOfPart(rows, side).rows;
        *table.count_ += rows;
      }
      require(*table.count_ > 0, "a split of " + std::to_string(*count_) + " rows at " + shortNumber(fraction) +
                                     " leaves one side empty; choose a fraction that gives each side a row");
    }
    table.part_ += isOther ? "[other" : "[first";
    table.part_ += " part of split " + shortNumber(fraction) + ", seed " + std::to_string(seed) + "]";
    return table;
  };
  return {part(false), part(true)};
}

Batches Table::batches(BatchOptions options) const { return {*this, std::move(options)}; }

std::string Table::title() const {
  return name() + part_ + ": " + (count_ ? std::to_string(*count_) : "any number of") + " rows, " +
         std::to_string(columns().size()) + " columns, policy " + policy();
}

std::string Table::defaults() const {
  if (!isPrivate()) {
    return "";
  }
  const terms::Defaults &defaults = *dataset_->defaults;
  return "defaults: noise multiplier " + shortNumber(defaults.noiseMultiplier) + ", clip " +
         shortNumber(defaults.clip) + ", metric bound " + shortNumber(defaults.metricBound);
}

std::vector<std::array<std::string, 3>> Table::cells() const {
  std::vector<std::array<std::string, 3>> all{{"column", "dtype", "bounds"}};
  for (const Column &column : columns()) {
    std::string bounds = "none";
    if (column.bounds) {
      bounds = "[" + shortNumber(column.bounds->first) + ", " + shortNumber(column.bounds->second) + "]";
    }
    std::string dtype(c10::getDtypeNames(column.dtype).first);
    all.push_back({column.name, column.shape.empty() ? dtype : dtype + " " + shapeText(column.shape), bounds});
  }
  return all;
}

std::string Table::str() const {
  auto rows = cells();
  size_t shown = std::min(rows.size(), kShownColumns + 1), width[2] = {};
  for (size_t i = 0; i < shown; ++i) {
    for (size_t k = 0; k < 2; ++k) {
      width[k] = std::max(width[k], rows[i][k].size());
    }
  }
  std::string text = title();
  for (size_t i = 0; i < shown; ++i) {
    text += "\n  ";
    for (size_t k = 0; k < 2; ++k) {
      text += rows[i][k] + std::string(width[k] + 2 - rows[i][k].size(), ' ');
    }
    text += rows[i][2];
  }
  if (shown < rows.size()) {
    text += "\n  ... and " + std::to_string(rows.size() - shown) + " more columns";
  }
  text += isPrivate() ? "\n  " + defaults() : "";
  for (const std::string &line : meanings()) {
    text += "\n  " + line;
  }
  return text;
}

std::vector<std::string> Table::meanings() const {
  std::vector<std::string> lines;
  for (const Column &column : columns()) {
    if (column.meaning && lines.size() < kShownColumns) {
      lines.push_back(column.name + ": " + textOf(*column.meaning));
    }
  }
  return lines;
}

std::ostream &operator<<(std::ostream &stream, const Table &table) { return stream << table.str(); }

Batches::Batches(Table table, BatchOptions options) : table_(std::move(table)), options_(std::move(options)) {
  checkFeatures();
  require(options_.size >= 1, "size must be an integer of at least 1, got " + std::to_string(options_.size));
  require(options_.epochs >= 0, "epochs must be an integer of at least 0, got " + std::to_string(options_.epochs));
  std::optional<int64_t> rows = table_.knownRows();
  if (table_.isPrivate()) {
    require(options_.shuffle,
            "table '" + table_.name() + "' is private: the owner draws its batches at random; leave out shuffle=False");
    if (rows) {
      auto rate = privacy::samplingRate(*rows, options_.size);
      require(static_cast<bool>(rate), "table '" + table_.name() + "': " + rate.error());
    }
    auto slots = privacy::capacityFor(options_.size);
    require(static_cast<bool>(slots), "table '" + table_.name() + "': " + slots.error());
    capacity_ = *slots;
    static std::atomic<int64_t> sources = 0;
    source_ = ++sources; // what another one draws in the same step is another batch
    options_.dropLast = false;
  }
  if (!rows) {
    return;
  }
  end_ = options_.dropLast ? *rows - *rows % options_.size : *rows;
  require(end_ > 0, "table '" + table_.name() + "' has " + std::to_string(*rows) +
                        " rows, so without its short last batch it has no batch of " + std::to_string(options_.size));
  int64_t batches;
  require(!__builtin_mul_overflow(options_.epochs, perEpoch(), &batches),
          std::to_string(options_.epochs) + " epochs have too many batches, expected fewer than 2^63");
}

void Batches::checkFeatures() const {
  const NamedFeatures &named = options_.named;
  require(named.empty() || options_.features.names.empty(),
          "give features for one tensor or named for several, not both");
  require(named.empty() || !options_.dtype, "dtype is for a single tensor of features, and these are " +
                                                std::to_string(named.size()) +
                                                " named ones; leave dtype out and convert a tensor of the batch");
  auto check = [&](const Features &features, const std::string &what) {
    require(!features.names.empty(), what + " must name at least one column");
    static_cast<void>(table_.namesOf(features));
  };
  if (named.empty()) {
    check(options_.features, "features");
  }
  for (auto entry = named.begin(); entry != named.end(); ++entry) {
    check(entry->second, "features['" + entry->first + "']");
    require(std::none_of(named.begin(), entry, [&](const auto &before) { return before.first == entry->first; }),
            "two tensors of a batch are named '" + entry->first + "'; give each its own name");
  }
  if (options_.label) {
    table_.find(*options_.label);
  }
}

int64_t Batches::perEpoch() const {
  static_cast<void>(table_.count("the number of batches"));
  return (end_ - 1) / options_.size + 1;
}

Batch Batches::at(int64_t index) const {
  require(index >= 0 && index < size(),
          "batch " + std::to_string(index) + " is not one of the " + std::to_string(size()) + " batches");
  int64_t start = index % perEpoch() * options_.size;
  return read(std::min(options_.size, end_ - start), index / perEpoch(), start);
}

Batch Batches::record(int64_t epoch, int64_t start, int64_t size) const { return read(size, epoch, start); }

Batch Batches::record(int64_t epoch, const std::vector<frontend::BatchShare> &shares) const {
  return read(options_.size, epoch, 0, shares);
}

Batch Batches::read(int64_t size, int64_t epoch, int64_t start, const std::vector<frontend::BatchShare> &shares) const {
  auto numbers = table_.numbers(options_, size, epoch, start, capacity_, source_);
  numbers.shares = shares;
  Batch batch;
  if (options_.named.empty()) {
    batch.x = table_.read(options_.features, options_.dtype, numbers);
  }
  for (const auto &[name, features] : options_.named) {
    batch.named.emplace_back(name, table_.read(features, std::nullopt, numbers)); // of the same draw
  }
  if (options_.label) {
    batch.y = table_.read(*options_.label, options_.labelDtype, numbers);
  }
  return batch;
}

const at::Tensor &Batch::operator[](const std::string &name) const {
  std::vector<std::string> known;
  for (const auto &[other, tensor] : named) {
    if (other == name) {
      return tensor;
    }
    known.push_back(other);
  }
  raise(ErrorKind::Error, "the batch has no tensor named '" + name + "'" +
                              (known.empty() ? "; its features are x, name them in BatchOptions::named"
                                             : frontend::nearestNames(name, known, "its tensors")));
}

std::vector<at::Tensor> Batch::tensors() const {
  std::vector<at::Tensor> all;
  for (const auto &[name, tensor] : named) {
    all.push_back(tensor);
  }
  for (const at::Tensor &tensor : {x, y}) {
    if (tensor.defined()) {
      all.push_back(tensor);
    }
  }
  return all;
}

std::vector<at::Tensor> batchIndices(int64_t rows, int64_t size, int64_t seed, int64_t epoch, bool dropLast) {
  require(size >= 1, "size must be an integer of at least 1, got " + std::to_string(size));
  at::Tensor order = permutation(rows, seed, epoch);
  std::vector<at::Tensor> batches;
  int64_t end = dropLast ? rows - rows % size : rows;
  for (int64_t start = 0; start < end; start += size) {
    batches.push_back(order.slice(0, start, std::min(start + size, end)).clone());
  }
  return batches;
}

std::pair<at::Tensor, at::Tensor> splitIndices(int64_t rows, double fraction, int64_t seed) {
  requireFraction(fraction);
  int64_t first = firstSideRows(rows, fraction);
  at::Tensor order = permutation(rows, seed, kSplitEpoch);
  return {order.slice(0, 0, first).clone(), order.slice(0, first).clone()};
}

} // namespace sojourn
