// SPDX-License-Identifier: Apache-2.0
// Whether a database was written since it was read, by whichever process, without a statement: a read takes SQLite ten
// calls of the system, a look at the version none.
#ifndef SOJOURN_OWNER_LEDGER_DATABASEVERSION_H
#define SOJOURN_OWNER_LEDGER_DATABASEVERSION_H

#include <array>
#include <cstdint>
#include <optional>

struct sqlite3;

namespace sojourn::owner::ledger {

/// Of one connection, and guarded like it. A database with a write-ahead log has the header of the log's index in
/// memory that all its processes share: SQLite itself compares it at the begin of each read to learn whether its cached
/// pages still hold (sqlite.org/walformat.html). A database in memory is written by its connection alone.
class DatabaseVersion {
public:
  explicit DatabaseVersion(sqlite3 *database) : database(database) {}
  DatabaseVersion(const DatabaseVersion &) = delete;

  using Value = std::array<uint64_t, 6>;
  /// Equal to that of before a read only where another read finds the same. Nothing where that cannot be told: within a
  /// transaction, while another process writes.
  std::optional<Value> now();

private:
  enum class Place : uint8_t { unasked, memory, log, other };
  sqlite3 *database;
  Place place = Place::unasked;              ///< of what the connection has written; it stays where it is
  const volatile uint64_t *header = nullptr; ///< of a log: twice, as SQLite writes it; as long as the connection
};

} // namespace sojourn::owner::ledger

#endif // SOJOURN_OWNER_LEDGER_DATABASEVERSION_H
