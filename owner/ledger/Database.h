// SPDX-License-Identifier: Apache-2.0
// The ledger's file: a table of entries that only grows, and the sealed bytes. Knows SQL and
// nothing of what the entries mean. One connection; callers take turns.
#ifndef SOJOURN_OWNER_LEDGER_DATABASE_H
#define SOJOURN_OWNER_LEDGER_DATABASE_H

#include "owner/ledger/DatabaseVersion.h"
#include "owner/ledger/Signing.h"
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace sojourn::owner::ledger {

/// An entry as it is stored.
struct Row {
  uint64_t seq = 0;
  std::string bytes;
  std::string signature; ///< 64 bytes, or none
  Hash hash{};
};

class Database {
public:
  /// ":memory:" or a path. The file has mode 0600; every commit is durable when it returns. Callers
  /// hold the writer's lock.
  static Result<std::unique_ptr<Database>> open(const std::string &path, int busyMs);
  ~Database();
  Database(const Database &) = delete;
  Database &operator=(const Database &) = delete;

  Status begin();
  /// For reads that must see one state; ended by `rollback`.
  Status beginReading();
  Status commit();
  /// Never fails: what was not committed is gone.
  void rollback();

  /// Of what a read sees; see DatabaseVersion.
  std::optional<DatabaseVersion::Value> version() { return changes.now(); }

  Status insert(const Row &row);
  /// Rows after `seq` in order, until `visit` has a problem of its own.
  Status readAfter(uint64_t seq, const std::function<Status(const Row &)> &visit);
  /// At most `limit` rows before `seq`, newest first; `seq` 0: from the end.
  Status readBefore(uint64_t seq, size_t limit, const std::function<Status(const Row &)> &visit);
  Result<std::optional<Row>> read(uint64_t seq);

  Status insertSealed(uint64_t id, int64_t timeMs, std::string_view bytes);
  Result<std::optional<std::string>> readSealed(uint64_t id);
  /// Forgets bytes that were sealed before `timeMs`.
  Status purgeSealed(int64_t timeMs);

private:
  class Statement;
  Database(std::string path, sqlite3 *handle);
  Status execute(const char *sql);
  Problem failed(const char *doing) const;
  Status readRows(Statement &statement, const std::function<Status(const Row &)> &visit);

  const std::string path;
  sqlite3 *handle;
  DatabaseVersion changes{handle};
  std::unique_ptr<Statement> insertRow, selectAfter;
};

} // namespace sojourn::owner::ledger

#endif // SOJOURN_OWNER_LEDGER_DATABASE_H
