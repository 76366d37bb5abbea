// SPDX-License-Identifier: Apache-2.0
// Rows at an owner: drawing and reading them are ops of the step that uses them.
#include "frontend/Rows.h"

#include "frontend/Names.h"
#include "frontend/Record.h"

#include <ATen/ops/clone.h>

#include <algorithm>

namespace sojourn::frontend {

namespace {

/// Ops of the row surface; interned once.
Word rowOp(const char *name, std::vector<std::string> arguments) {
  std::vector<bool> mutated(arguments.size(), false);
  return OpTable::get().intern({name, std::move(arguments), std::move(mutated)});
}

OutputMeta contiguous(std::initializer_list<int64_t> sizes, at::ScalarType dtype) {
  OutputMeta meta;
  meta.dtype = dtype;
  meta.sizes.assign(sizes.begin(), sizes.end());
  meta.strides.resize(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    meta.strides[i] = stride;
    stride *= std::max<int64_t>(meta.sizes[i], 1);
  }
  return meta;
}

class SessionRows final : public RowReader {
public:
  SessionRows(std::shared_ptr<Session> session, DatasetInfo dataset)
      : session_(std::move(session)), dataset_(std::move(dataset)) {}

  at::Tensor rows(const std::vector<std::string> &columns, at::ScalarType dtype, const at::Tensor &indices) override;
  at::Tensor sample(int64_t rows, int64_t size, int64_t seed, int64_t epoch, int64_t start) override;
  at::Tensor range(int64_t size, int64_t start) override;

private:
  std::shared_ptr<Session> session_;
  DatasetInfo dataset_;
};

at::Tensor SessionRows::rows(const std::vector<std::string> &columns, at::ScalarType dtype, const at::Tensor &indices) {
  checkElement(dtype);
  std::vector<ColumnInfo> read;
  for (const std::string &column : columns) {
    auto named = [&](const ColumnInfo &candidate) { return candidate.name == column; };
    if (std::none_of(read.begin(), read.end(), named)) {
      read.push_back(*std::find_if(dataset_.columns.begin(), dataset_.columns.end(), named));
    }
  }
  // Whole rows are indexed as they lie: a view must become a value first.
  at::Tensor dense = remoteImpl(indices)->remoteStorage()->sizes == indices.sizes() ? indices : indices.clone();
  static const Word entry = rowOp("sojourn.read_rows", {"table", "indices", "columns"});
  Origin origin = captureOrigin();
  SessionLock lock(session_->mutex());
  int64_t table = session_->tableInTrace(dataset_, read);
  TraceWriter write(*session_);
  write.beginOp(entry, 3, origin);
  write.table(table);
  write.tensor(dense);
  write.texts(columns);
  write.beginResults(1);
  return makeTensor(write.result(contiguous({dense.size(0), static_cast<int64_t>(columns.size())}, dtype)));
}

at::Tensor SessionRows::sample(int64_t rows, int64_t size, int64_t seed, int64_t epoch, int64_t start) {
  static const Word entry = rowOp("sojourn.sample_rows", {"seed", "epoch", "start", "rows"});
  Origin origin = captureOrigin();
  SessionLock lock(session_->mutex());
  TraceWriter write(*session_);
  write.beginOp(entry, 4, origin);
  write.intSlot(seed);
  write.intSlot(epoch);
  write.intSlot(start);
  write.integer(rows);
  write.beginResults(1);
  return makeTensor(write.result(contiguous({size}, at::kLong)));
}

at::Tensor SessionRows::range(int64_t size, int64_t start) {
  static const Word arange = rowOp("aten.arange", {"end", "dtype", "layout", "device", "pin_memory"});
  static const Word add = rowOp("aten.add.Tensor", {"self", "other", "alpha"});
  Origin origin = captureOrigin();
  SessionLock lock(session_->mutex());
  TraceWriter write(*session_);
  OutputMeta meta = contiguous({size}, at::kLong);
  write.beginOp(arange, 5, origin);
  write.integer(size);
  write.dtype(at::kLong);
  write.none();
  write.none();
  write.none();
  write.beginResults(1);
  at::Tensor positions = makeTensor(write.result(meta));
  write.beginOp(add, 3, origin);
  write.tensor(positions);
  write.intSlot(start);
  write.integer(1);
  write.beginResults(1);
  return makeTensor(write.result(meta));
}

Dataset describe(const DatasetInfo &info) {
  Dataset dataset{info.name, info.policy, info.version, info.rows, {}};
  for (const ColumnInfo &column : info.columns) {
    dataset.columns.push_back({column.name, scalarTypeOf(column.element), column.bounds});
  }
  return dataset;
}

} // namespace

Table remoteTable(const std::shared_ptr<Session> &session, const DatasetInfo &info) {
  return {std::make_shared<SessionRows>(session, info), describe(info)};
}

Table remoteTable(const std::shared_ptr<Session> &session, const std::string &name) {
  std::vector<std::string> known;
  for (const DatasetInfo &info : session->datasets()) {
    if (info.name == name) {
      return remoteTable(session, info);
    }
    known.push_back(info.name);
  }
  raise(ErrorKind::Error,
        session->address() + " has no dataset '" + name + "'" + nearestNames(name, known, "its datasets"));
}

} // namespace sojourn::frontend
