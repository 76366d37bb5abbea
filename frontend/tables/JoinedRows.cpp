// SPDX-License-Identifier: Apache-2.0
// Shares of batches, and reads of all tables as one (see JoinedRows.h).
#include "frontend/tables/JoinedRows.h"

#include "frontend/Raise.h"
#include "frontend/session/Session.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <numeric>

namespace sojourn::frontend {

namespace {

int64_t sum(const std::vector<int64_t> &numbers) { return std::accumulate(numbers.begin(), numbers.end(), int64_t{0}); }

/// `size` in proportion to `rows`, of which there are at least so many.
std::vector<int64_t> apportioned(const std::vector<int64_t> &rows, int64_t size) {
  const int64_t all = sum(rows);
  std::vector<int64_t> shares;
  std::vector<std::pair<int64_t, size_t>> remainders; // negative, so that the largest comes first
  for (size_t at = 0; at < rows.size(); ++at) {
    const __int128 product = static_cast<__int128>(size) * rows[at];
    shares.push_back(static_cast<int64_t>(product / all));
    remainders.emplace_back(-static_cast<int64_t>(product % all), at);
  }
  std::sort(remainders.begin(), remainders.end());
  const int64_t left = size - sum(shares);
  for (size_t at = 0; at < static_cast<size_t>(left); ++at) {
    ++shares[remainders[at].second];
  }
  return shares;
}

class JoinedRows final : public RowReader {
public:
  JoinedRows(std::vector<std::shared_ptr<RowReader>> readers, std::vector<int64_t> rows, std::vector<std::string> names)
      : readers_(std::move(readers)), rows_(std::move(rows)), names_(std::move(names)) {}

  std::vector<std::string> tables() const override { return names_; }

  std::shared_ptr<RowReader> ofMember(const std::shared_ptr<Session> &, unsigned role) override {
    raise(ErrorKind::Error, "table " + std::to_string(role) + " is joined of several tables already; join single ones");
  }

  at::Tensor rows(const std::vector<std::string> &columns, bool alone, at::ScalarType dtype,
                  const RowNumbers &numbers) override {
    std::vector<Side> part;
    for (const RowDraw &draw : numbers.draws) {
      part = draw.part.size() > part.size() ? draw.part : part;
    }
    std::vector<int64_t> counts;
    for (int64_t rows : rows_) {
      counts.push_back(rowsOfPart(rows, part).rows);
    }
    std::vector<BatchShare> shares(rows_.size());
    if (!numbers.shares.empty()) {
      shares = numbers.shares;
    } else if (numbers.isWhole) {
      for (size_t at = 0; at < shares.size(); ++at) {
        shares[at].size = counts[at];
      }
    } else {
      shares = batchShares(counts, numbers.batch, numbers.start.value_or(0), numbers.size);
    }
    std::vector<at::Tensor> read;
    for (size_t at = 0; at < shares.size(); ++at) {
      if (shares[at].size > 0) {
        RowNumbers own = numbers;
        own.size = shares[at].size;
        own.start = numbers.isWhole ? numbers.start : std::optional(shares[at].start);
        read.push_back(readers_[at]->rows(columns, alone, dtype, own));
      }
    }
    return at::cat(read);
  }

private:
  const std::vector<std::shared_ptr<RowReader>> readers_;
  const std::vector<int64_t> rows_;
  const std::vector<std::string> names_;
};

/// The next batches, of the rows that are left.
AlikeBatches nextBatches(const std::vector<int64_t> &left, int64_t batch) {
  const int64_t all = sum(left);
  AlikeBatches next{1, apportioned(left, std::min(batch, all))};
  if (all >= batch) {
    next.count = all / batch;
    for (size_t at = 0; at < left.size(); ++at) {
      next.count = next.sizes[at] > 0 ? std::min(next.count, left[at] / next.sizes[at]) : next.count;
    }
    next.count = std::max<int64_t>(next.count, 1);
  }
  return next;
}

std::string listed(const Table &table) {
  std::string text;
  for (const Column &column : table.columns()) {
    text += (text.empty() ? "" : ", ") + column.name + " " + std::string(c10::getDtypeNames(column.dtype).first);
    text += column.shape.empty() ? "" : c10::str(c10::IntArrayRef(column.shape));
  }
  return text;
}

/// Bounds are those of all tables; meanings must be the same.
Column joined(Column column, const Table &table, const Table &first) {
  const auto other = std::find_if(table.columns().begin(), table.columns().end(),
                                  [&](const Column &each) { return each.name == column.name; });
  const bool isAlike = other != table.columns().end() && other->dtype == column.dtype && other->shape == column.shape;
  if (!isAlike || table.columns().size() != first.columns().size()) {
    raise(ErrorKind::Error, "tables of a group have the same columns; '" + first.name() + "' has " + listed(first) +
                                ", and '" + table.name() + "' has " + listed(table));
  }
  const bool isSame = (!column.meaning && !other->meaning) ||
                      (column.meaning && other->meaning && textOf(*column.meaning) == textOf(*other->meaning));
  if (!isSame) {
    raise(ErrorKind::Error, "column '" + column.name + "' stands for something else in each of the tables '" +
                                first.name() + "' and '" + table.name() + "' (categories, dates or fills)");
  }
  if (column.bounds && other->bounds) {
    column.bounds = {std::min(column.bounds->first, other->bounds->first),
                     std::max(column.bounds->second, other->bounds->second)};
  } else {
    column.bounds.reset();
  }
  return column;
}

} // namespace

std::vector<BatchShare> batchShares(const std::vector<int64_t> &rows, int64_t batch, int64_t start, int64_t size) {
  std::vector<int64_t> left = rows;
  std::vector<BatchShare> shares(rows.size());
  for (int64_t position = 0;;) {
    const int64_t all = sum(left);
    const auto [count, each] = nextBatches(left, batch);
    const bool isHere = start < position + count * batch;
    const int64_t before = isHere ? (start - position) / batch : count;
    for (size_t at = 0; at < left.size(); ++at) {
      shares[at].start += before * each[at];
      shares[at].size = each[at];
      left[at] -= before * each[at];
    }
    if (isHere && size == std::min(batch, all - before * batch)) {
      return shares;
    }
    if (isHere) {
      raise(ErrorKind::Error, "a batch of " + std::to_string(size) + " rows at position " + std::to_string(start) +
                                  " is not one of the batches of " + std::to_string(batch) + " rows of a joined table");
    }
    position += count * batch;
  }
}

std::vector<AlikeBatches> batchesOfEpoch(const std::vector<int64_t> &rows, int64_t batch, bool dropLast) {
  std::vector<int64_t> left = rows;
  std::vector<AlikeBatches> all;
  while (sum(left) >= (dropLast ? batch : 1)) {
    all.push_back(nextBatches(left, batch));
    for (size_t at = 0; at < left.size(); ++at) {
      left[at] -= all.back().count * all.back().sizes[at];
    }
  }
  return all;
}

Table joinTables(const std::shared_ptr<Session> &group, const std::vector<Table> &tables) {
  const size_t count = group ? group->members().size() : tables.size();
  if (tables.size() != count || tables.size() < 2) {
    raise(ErrorKind::Error, "got " + std::to_string(tables.size()) + " tables, expected " +
                                (group ? std::to_string(count) + ", one of each member in the order of the group"
                                       : std::string("2 or more")));
  }
  const Table &first = tables[0];
  Dataset dataset = first.dataset();
  dataset.rows = 0;
  dataset.version.clear();
  std::vector<std::shared_ptr<RowReader>> readers;
  std::vector<int64_t> rows;
  std::vector<std::string> names;
  for (size_t role = 0; role < tables.size(); ++role) {
    const Table &table = tables[role];
    if (!table.part().empty()) {
      raise(ErrorKind::Error, "table '" + table.name() + "' is a part of a table; join whole tables, then split");
    }
    if (table.isPrivate()) {
      raise(ErrorKind::Refused, "table '" + table.name() +
                                    "' is private, and private tables do not take part in steps of several owners "
                                    "yet; use it at its owner alone");
    }
    if ((table.reader()->role() < 0) != (first.reader()->role() < 0)) {
      raise(ErrorKind::Error, "tables '" + first.name() + "' and '" + table.name() +
                                  "' cannot be joined: one is described for a party of a step ahead of time, the other "
                                  "has rows here");
    }
    for (Column &column : dataset.columns) {
      column = joined(std::move(column), table, first);
    }
    if (dataset.name != table.name() && dataset.name.find(table.name()) == std::string::npos) {
      dataset.name += "+" + table.name();
    }
    dataset.rows = *dataset.rows + table.rows();
    rows.push_back(table.rows());
    names.push_back(table.name());
    readers.push_back(table.reader()->ofMember(group, static_cast<unsigned>(role)));
  }
  auto reader = std::make_shared<JoinedRows>(std::move(readers), rows, std::move(names));
  return {std::move(reader), std::move(dataset), std::move(rows)};
}

} // namespace sojourn::frontend
