// SPDX-License-Identifier: Apache-2.0
// The header of the index of SQLite's write-ahead log.
#include "owner/ledger/DatabaseVersion.h"

#include <atomic>
#include <sqlite3.h>
#include <string>

namespace sojourn::owner::ledger {

/// Bytes of one part of the index: SQLite's own.
static constexpr int kPartBytes = 32'768;
/// First word of the header: the version of its format, twice the four bytes; another one is not known here.
static constexpr uint32_t kFormat = 3'007'000;

static bool hasLog(sqlite3 *database) {
  sqlite3_stmt *statement = nullptr;
  sqlite3_prepare_v2(database, "PRAGMA main.journal_mode", -1, &statement, nullptr);
  const bool isRead = statement && sqlite3_step(statement) == SQLITE_ROW;
  const std::string mode = isRead ? reinterpret_cast<const char *>(sqlite3_column_text(statement, 0)) : "";
  sqlite3_finalize(statement);
  return mode == "wal";
}

/// Of the main database of a connection, or null: where the system of files has no shared memory.
static const volatile uint64_t *headerOf(sqlite3 *database) {
  sqlite3_file *file = nullptr;
  if (!hasLog(database) || sqlite3_file_control(database, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
      !file || !file->pMethods || file->pMethods->iVersion < 2 || !file->pMethods->xShmMap) {
    return nullptr;
  }
  volatile void *part = nullptr;
  // The first part, which the connection has mapped since its first read; it stays until the connection closes.
  if (file->pMethods->xShmMap(file, 0, kPartBytes, /*bExtend=*/0, &part) != SQLITE_OK) {
    return nullptr;
  }
  return static_cast<const volatile uint64_t *>(part);
}

std::optional<DatabaseVersion::Value> DatabaseVersion::now() {
  if (sqlite3_get_autocommit(database) == 0) {
    return std::nullopt; // what this connection has written is not committed, and may never be
  }
  if (place == Place::unasked) {
    const bool isInMemory = sqlite3_db_filename(database, "main")[0] == '\0';
    header = isInMemory ? nullptr : headerOf(database);
    place = isInMemory ? Place::memory : header ? Place::log : Place::other;
  }
  if (place == Place::memory) {
    return Value{static_cast<uint64_t>(sqlite3_total_changes64(database))};
  }
  if (place == Place::other) {
    return std::nullopt;
  }
  // SQLite writes the second copy first: where both are alike, no writer is between them.
  Value first, second;
  for (size_t at = 0; at < first.size(); ++at) {
    first[at] = header[at];
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (size_t at = 0; at < second.size(); ++at) {
    second[at] = header[first.size() + at];
  }
  const bool isKnown = static_cast<uint32_t>(first[0]) == kFormat;
  return first == second && isKnown ? std::optional(first) : std::nullopt;
}

} // namespace sojourn::owner::ledger
