// SPDX-License-Identifier: Apache-2.0
// Rows at an owner: drawing and reading them are ops of the step that uses them. Equal requests of
// one trace are recorded once.
#include "frontend/tables/Rows.h"

#include "frontend/compile/Names.h"
#include "frontend/recording/Record.h"
#include "frontend/recording/TraceWriter.h"

#include <c10/util/bit_cast.h>

#include <algorithm>

namespace sojourn::frontend {

namespace {

/// Ops of the row surface; interned once.
Word rowOp(const char *name, std::vector<std::string> arguments) {
  std::vector<bool> mutated(arguments.size(), false);
  return OpTable::get().intern({name, std::move(arguments), std::move(mutated)});
}

OutputMeta contiguous(const std::vector<int64_t> &sizes, at::ScalarType dtype) {
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

/// Whole columns, or those of drawn rows.
struct RowRequest {
  std::vector<std::string> names;
  std::vector<ColumnInfo> columns; ///< by name
  bool alone;
  RowNumbers numbers;
  OutputMeta meta; ///< of what is read
};

class SessionRows final : public RowReader, public std::enable_shared_from_this<SessionRows> {
public:
  /// `role`: of a group's member, whose dataset it is; -1: of a single owner.
  SessionRows(std::shared_ptr<Session> session, DatasetInfo dataset, int64_t role)
      : session_(std::move(session)), dataset_(std::move(dataset)), role_(role) {}

  std::shared_ptr<RowReader> ofMember(const std::shared_ptr<Session> &group, unsigned role) override {
    if (!group || role_ >= 0 || group->members()[role] != session_) {
      raise(ErrorKind::Error, "table '" + dataset_.name + "' is at " + session_->address() + ", expected a table " +
                                  (group ? "at " + group->members()[role]->address() : std::string("in this process")) +
                                  (group ? "; give one table of each member, in the order of the group" : ""));
    }
    return std::make_shared<SessionRows>(group, dataset_, role);
  }

  at::Tensor rows(const std::vector<std::string> &columns, bool alone, at::ScalarType dtype,
                  const RowNumbers &numbers) override;

private:
  /// Ids of the values; lock held by the caller.
  int64_t read(const RowRequest &request, const Origin &origin);
  int64_t positions(const RowNumbers &numbers, const Origin &origin);
  int64_t sample(int64_t positions, int64_t count, int64_t table, const RowDraw &draw, const Origin &origin);

  std::shared_ptr<Session> session_;
  DatasetInfo dataset_;
  int64_t role_;
};

/// What a request asks for, as the first word of its record.
enum Asked : Word { Positions, Sample, Read };

at::Tensor SessionRows::rows(const std::vector<std::string> &columns, bool alone, at::ScalarType dtype,
                             const RowNumbers &numbers) {
  checkElement(dtype);
  RowRequest request{columns, {}, alone, numbers, {}};
  for (const std::string &column : columns) {
    auto named = [&](const ColumnInfo &candidate) { return candidate.name == column; };
    request.columns.push_back(*std::find_if(dataset_.columns.begin(), dataset_.columns.end(), named));
  }
  std::vector<int64_t> sizes{numbers.size};
  if (alone) {
    sizes.insert(sizes.end(), request.columns[0].dims.begin(), request.columns[0].dims.end());
  } else {
    sizes.push_back(static_cast<int64_t>(columns.size()));
  }
  request.meta = contiguous(sizes, dtype);
  static const Word clone = rowOp("aten.clone", {"self", "memory_format"});
  auto drawn = std::find_if(numbers.draws.begin(), numbers.draws.end(), [](auto &draw) { return draw.expected > 0; });
  Origin origin = captureOrigin();
  DeviceLock lock(session_->mutex());
  session_->requireOpen();
  const int64_t value = read(request, origin);
  // What was read stays as it is for the next equal request; the caller may change its own.
  TraceWriter write(session_->recording());
  write.beginOp(clone, 2, origin);
  write.whole(value);
  write.none();
  write.beginResults(1);
  auto storage = write.result(request.meta);
  if (drawn != numbers.draws.end()) {
    storage->expectedRows = drawn->expected;
    storage->slots = numbers.size;
  } else if (dataset_.policy == "private" && !session_->offline()) {
    storage->readAgain = [self = shared_from_this(), request = std::move(request)](const Origin &user) {
      return self->read(request, user);
    };
  }
  return makeTensor(std::move(storage));
}

int64_t SessionRows::read(const RowRequest &request, const Origin &origin) {
  static const Word entry = rowOp("sojourn.read_rows", {"table", "indices", "columns"});
  session_->requireOpen();
  Recording &open = session_->recording();
  TraceWriter write(open);
  int64_t table = open.tables.argument(dataset_, request.columns, request.numbers.isWhole, role_, open.trace.tables);
  int64_t indices = positions(request.numbers, origin);
  for (const RowDraw &draw : request.numbers.draws) {
    indices = sample(indices, request.numbers.size, table, draw, origin);
  }
  std::vector<Word> asked{Read, static_cast<Word>(elementOf(request.meta.dtype)), static_cast<Word>(request.alone)};
  for (const std::string &name : request.names) {
    asked.push_back(StringTable::get().intern(name));
  }
  asked.insert(asked.end(), {table, indices});
  TableRecords &records = open.tables;
  if (std::optional<int64_t> known = records.find(asked)) {
    return *known;
  }
  write.beginOp(entry, 3, origin);
  write.table(table);
  write.whole(indices);
  write.texts(request.names);
  write.beginResults(1);
  const int64_t value = write.hiddenResult(request.meta);
  records.remember(std::move(asked), value);
  return value;
}

int64_t SessionRows::sample(int64_t positions, int64_t count, int64_t table, const RowDraw &draw,
                            const Origin &origin) {
  static const Word entry =
      rowOp("sojourn.sample_rows", {"positions", "seed", "epoch", "table", "fractions", "sides", "split", "expected"});
  std::vector<Word> request{Sample, positions, table, draw.seed, draw.epoch, draw.isSplit, draw.expected, draw.source};
  std::vector<int64_t> sides;
  for (const Side &side : draw.part) {
    request.insert(request.end(), {c10::bit_cast<Word>(side.fraction), side.isOther});
    sides.push_back(side.isOther ? 1 : 0);
  }
  if (std::optional<int64_t> known = session_->recording().tables.find(request)) {
    return *known;
  }
  TraceWriter write(session_->recording());
  write.beginOp(entry, 8, origin);
  write.whole(positions);
  write.intSlot(draw.seed);
  write.intSlot(draw.epoch);
  write.table(table);
  write.list(draw.part.size());
  for (const Side &side : draw.part) {
    write.real(side.fraction);
  }
  write.integers(sides);
  write.boolean(draw.isSplit);
  write.integer(draw.expected);
  write.beginResults(1);
  int64_t value = write.hiddenResult(contiguous({count}, at::kLong));
  session_->recording().tables.remember(std::move(request), value);
  return value;
}

int64_t SessionRows::positions(const RowNumbers &numbers, const Origin &origin) {
  static const Word arange = rowOp("aten.arange", {"end", "dtype", "layout", "device", "pin_memory"});
  static const Word add = rowOp("aten.add.Tensor", {"self", "other", "alpha"});
  std::vector<Word> request{Positions, numbers.size};
  if (numbers.start) {
    request.push_back(*numbers.start);
  }
  if (std::optional<int64_t> known = session_->recording().tables.find(request)) {
    return *known;
  }
  TraceWriter write(session_->recording());
  OutputMeta meta = contiguous({numbers.size}, at::kLong);
  write.beginOp(arange, 5, origin);
  write.integer(numbers.size);
  write.dtype(at::kLong);
  write.none();
  write.none();
  write.none();
  write.beginResults(1);
  int64_t value = write.hiddenResult(meta);
  if (numbers.start) {
    write.beginOp(add, 3, origin);
    write.whole(value);
    write.intSlot(*numbers.start);
    write.integer(1);
    write.beginResults(1);
    value = write.hiddenResult(meta);
  }
  session_->recording().tables.remember(std::move(request), value);
  return value;
}

} // namespace

Dataset describe(const DatasetInfo &info) {
  Dataset dataset{info.name, info.policy, info.version, info.rows, {}, info.defaults, info.description, info.tags};
  for (const ColumnInfo &column : info.columns) {
    dataset.columns.push_back({column.name, scalarTypeOf(column.element), column.bounds, column.dims, column.meaning});
  }
  return dataset;
}

std::string accessHint(const Session &session, const std::string &name) {
  if (session.address().find("://") == std::string::npos) {
    return "";
  }
  std::string account = session.account();
  return "; an owner shows the tables to which a client has access, which the data owner gives with: sojourn-owner "
         "access " +
         name + " --add " + (account.empty() ? "CLIENT (this connection has no identity)" : account);
}

std::shared_ptr<RowReader> remoteRows(const std::shared_ptr<Session> &session, const DatasetInfo &info, int64_t role) {
  return std::make_shared<SessionRows>(session, info, role);
}

Table remoteTable(const std::shared_ptr<Session> &session, const DatasetInfo &info) {
  return {remoteRows(session, info), describe(info)};
}

Table remoteTable(const std::shared_ptr<Session> &session, const std::string &name) {
  std::vector<std::string> known;
  for (const DatasetInfo &info : session->datasets()) {
    if (info.name == name) {
      return remoteTable(session, info);
    }
    known.push_back(info.name);
  }
  raise(ErrorKind::Error, session->address() + " has no dataset '" + name + "'" +
                              nearestNames(name, known, "its datasets") + accessHint(*session, name));
}

} // namespace sojourn::frontend
