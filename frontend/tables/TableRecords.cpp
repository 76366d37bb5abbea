// SPDX-License-Identifier: Apache-2.0
// Tables of the open trace: union of columns, equal requests, undoing.
#include "frontend/tables/TableRecords.h"

#include <algorithm>

namespace sojourn::frontend {

int64_t TableRecords::argument(const DatasetInfo &dataset, const std::vector<ColumnInfo> &columns, bool isWhole,
                               int64_t role, std::vector<Word> &stream) {
  size_t id = 0;
  while (id < bindings_.size() && (bindings_[id].name != dataset.name || bindings_[id].version != dataset.version ||
                                   records_[id].role != role)) {
    ++id;
  }
  bool grown = id == bindings_.size();
  if (grown) {
    bindings_.push_back({dataset.name, dataset.version});
    records_.push_back({dataset.rows, role, isWhole, dataset.policy == "private", {}});
  }
  grown |= isWhole && !records_[id].isWhole;
  records_[id].isWhole |= isWhole;
  std::vector<ColumnInfo> &known = records_[id].columns;
  for (const ColumnInfo &column : columns) {
    if (std::none_of(known.begin(), known.end(), [&](const ColumnInfo &other) { return other.name == column.name; })) {
      known.push_back(column);
      grown = true;
    }
  }
  if (grown) {
    write(stream);
  }
  return static_cast<int64_t>(id);
}

bool TableRecords::holdPrivate() const {
  return std::any_of(records_.begin(), records_.end(), [](const Record &record) { return record.isPrivate; });
}

std::optional<int64_t> TableRecords::find(const std::vector<Word> &request) const {
  auto known = values_.find(request);
  return known == values_.end() ? std::nullopt : std::optional(known->second);
}

TableRecords::Mark TableRecords::mark() const {
  Mark mark;
  for (const Record &record : records_) {
    mark.emplace_back(record.columns.size(), record.isWhole);
  }
  return mark;
}

void TableRecords::cut(const Mark &mark, int64_t storages, std::vector<Word> &stream) {
  bindings_.resize(mark.size());
  records_.resize(mark.size());
  for (size_t id = 0; id < mark.size(); ++id) {
    records_[id].columns.resize(mark[id].first);
    records_[id].isWhole = mark[id].second;
  }
  write(stream);
  std::erase_if(values_, [&](const auto &entry) { return entry.second >= storages; });
}

void TableRecords::dropId(int64_t id) {
  for (auto &[request, value] : values_) {
    value -= value > id ? 1 : 0;
  }
}

void TableRecords::clear() {
  bindings_.clear();
  records_.clear();
  values_.clear();
}

void TableRecords::write(std::vector<Word> &stream) const {
  stream.clear();
  for (size_t id = 0; id < records_.size(); ++id) {
    const Record &record = records_[id];
    stream.insert(stream.end(), {StringTable::get().intern(bindings_[id].name), record.isWhole ? record.rows : -1,
                                 record.role, static_cast<Word>(record.columns.size())});
    for (const ColumnInfo &column : record.columns) {
      stream.insert(stream.end(), {StringTable::get().intern(column.name), static_cast<Word>(column.element),
                                   static_cast<Word>(column.dims.size())});
      stream.insert(stream.end(), column.dims.begin(), column.dims.end());
    }
  }
}

} // namespace sojourn::frontend
