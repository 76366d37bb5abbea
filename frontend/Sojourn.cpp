// SPDX-License-Identifier: Apache-2.0
// The public C++ surface over sessions.
#include "frontend/Sojourn.h"

#include "frontend/Origin.h"
#include "frontend/Record.h"
#include "frontend/Session.h"

#include <algorithm>

namespace sojourn {

using namespace frontend;

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

void checkCount(const char *what, int64_t value) {
  if (value < 0) {
    raise(ErrorKind::Error, std::string(what) + " is " + std::to_string(value) + ", expected 0 or more");
  }
}

} // namespace

c10::Device Owner::device() const { return session_->device(); }

std::vector<Dataset> Owner::datasets() const {
  std::vector<Dataset> all;
  for (const DatasetInfo &info : session_->datasets()) {
    Dataset dataset{info.name, info.policy, info.version, info.rows, {}};
    for (const ColumnInfo &column : info.columns) {
      Column entry{column.name, scalarTypeOf(column.element)};
      if (column.bounds) {
        entry.bounded = true;
        std::tie(entry.lower, entry.upper) = *column.bounds;
      }
      dataset.columns.push_back(std::move(entry));
    }
    all.push_back(std::move(dataset));
  }
  return all;
}

at::Tensor Owner::rows(const std::string &name, const std::vector<std::string> &columns, at::ScalarType dtype,
                       const at::Tensor &indices) const {
  checkElement(dtype);
  if (!isRemote(indices) || remoteImpl(indices)->remoteStorage()->session != session_ || indices.dim() != 1 ||
      indices.scalar_type() != at::kLong) {
    raise(ErrorKind::Error, "row indices must be an int64 tensor [B] on " + session_->device().str() + ", got " +
                                c10::toString(indices.scalar_type()) + c10::str(indices.sizes()) + " on " +
                                indices.device().str());
  }
  const DatasetInfo &dataset = session_->dataset(name);
  std::vector<ColumnInfo> read;
  for (const std::string &column : columns) {
    auto it = std::find_if(dataset.columns.begin(), dataset.columns.end(), [&](auto &c) { return c.name == column; });
    if (it == dataset.columns.end()) {
      std::string known;
      for (const ColumnInfo &candidate : dataset.columns) {
        known += (known.empty() ? "" : ", ") + candidate.name;
      }
      raise(ErrorKind::Error, "dataset '" + name + "' has no column '" + column + "'; it has: " + known);
    }
    if (std::none_of(read.begin(), read.end(), [&](auto &c) { return c.name == column; })) {
      read.push_back(*it);
    }
  }
  // Whole rows are indexed as they lie: a view must become a value first.
  at::Tensor dense = remoteImpl(indices)->remoteStorage()->sizes == indices.sizes() ? indices : indices.clone();
  static const Word entry = rowOp("sojourn.read_rows", {"table", "indices", "columns"});
  Origin origin = captureOrigin();
  SessionLock lock(session_->mutex());
  int64_t table = session_->tableInTrace(dataset, read);
  TraceWriter write(*session_);
  write.beginOp(entry, 3, origin);
  write.table(table);
  write.tensor(dense);
  write.texts(columns);
  write.beginResults(1);
  return makeTensor(write.result(contiguous({dense.size(0), static_cast<int64_t>(columns.size())}, dtype)));
}

at::Tensor Owner::sample(int64_t rows, int64_t size, int64_t seed, int64_t epoch, int64_t start) const {
  checkCount("rows", rows);
  checkCount("size", size);
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

at::Tensor Owner::range(int64_t size, int64_t start) const {
  checkCount("size", size);
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

void Owner::flush() const { session_->flush(); }
void Owner::close() const { session_->close(); }

std::map<std::string, uint64_t> Owner::counters() const {
  Counters c = session_->counters();
  return {{"round_trips", c.round_trips},
          {"bytes_up", c.bytes_up},
          {"bytes_down", c.bytes_down},
          {"ops_recorded", c.ops_recorded},
          {"shapes_from_rules", c.shapes_from_rules},
          {"shapes_from_python", c.shapes_from_python},
          {"programs_compiled", c.programs_compiled},
          {"cache_hits", c.cache_hits},
          {"live_handles", c.live_handles},
          {"uploads", c.uploads},
          {"steps", c.steps},
          {"steps_dropped", c.steps_dropped}};
}

Owner connect(const std::string &url, int timeoutMs) {
  initialize();
  return Owner(Session::open(dialTransport(url, timeoutMs)));
}

Owner connect(const std::string &name, std::function<std::string(std::string_view)> handle) {
  initialize();
  return Owner(Session::open(makeFunctionTransport(name, std::move(handle))));
}

Step::Step() { Steps::begin(); }

Step::~Step() {
  if (open_) {
    Steps::abort();
  }
}

void Step::end() {
  if (open_) {
    open_ = false;
    Steps::end();
  }
}

bool Published::ready() const { return state_->value.defined(); }

at::Tensor Published::value() const {
  if (state_->value.defined()) {
    return state_->value;
  }
  if (!state_->failure.empty()) {
    raise(ErrorKind::Error, "this published value never arrived: " + state_->failure);
  }
  raise(ErrorKind::ValueNeeded,
        "a value published inside a step is filled by the step's reply; read it after the step has ended");
}

std::vector<Published> publishLater(const std::vector<at::Tensor> &tensors) {
  std::vector<Published> all(tensors.size(), Published(nullptr));
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (isRemote(tensors[i])) {
      all[i] = Published(remoteImpl(tensors[i])->remoteStorage()->session->publish({tensors[i]}).front());
    } else {
      auto state = std::make_shared<PublishedState>();
      state->value = tensors[i].detach().clone();
      all[i] = Published(std::move(state));
    }
  }
  return all;
}

at::Tensor publish(const at::Tensor &tensor) {
  Published published = publishLater({tensor}).front();
  if (!Steps::active()) {
    flush();
  }
  return published.value();
}

void flush() {
  if (!Steps::active()) {
    flushAll();
  }
}

} // namespace sojourn
