// SPDX-License-Identifier: Apache-2.0
// The ledger's tables and statements.
#include "owner/ledger/Database.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sojourn::owner::ledger {

/// In SQLite's user_version: the version of the tables below and of the newest entries in them. 1 to 5 have the same
/// tables; an older file is opened as one of version 5, so that releases that cannot read its new entries refuse it by
/// name. 4 knows entries that remove and rename, 5 those of overruns.
static constexpr int kSchemaVersion = 5;
static constexpr const char *kSchema = R"sql(
  CREATE TABLE entries(seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL, signature BLOB, hash BLOB NOT NULL);
  CREATE TABLE sealed(id INTEGER PRIMARY KEY, sealed_ms INTEGER NOT NULL, bytes BLOB NOT NULL);
  CREATE INDEX sealed_by_time ON sealed(sealed_ms);
  PRAGMA user_version = 5;
)sql";

/// A prepared statement; parameters count from 1, columns from 0.
class Database::Statement {
public:
  Statement(Database &database, const char *sql) { sqlite3_prepare_v2(database.handle, sql, -1, &statement, nullptr); }
  ~Statement() { sqlite3_finalize(statement); }
  Statement(const Statement &) = delete;
  Statement &operator=(const Statement &) = delete;

  /// The bytes must outlive the statement's next reset.
  Statement &bind(std::string_view bytes) {
    // A null pointer would bind NULL, so the empty text gets an address.
    sqlite3_bind_blob64(statement, ++bound, bytes.empty() ? "" : bytes.data(), bytes.size(), SQLITE_STATIC);
    return *this;
  }
  Statement &bind(uint64_t value) {
    sqlite3_bind_int64(statement, ++bound, static_cast<int64_t>(value));
    return *this;
  }
  int step() { return statement ? sqlite3_step(statement) : SQLITE_ERROR; }
  /// Ready for other parameters; ends what it read.
  void reset() {
    sqlite3_reset(statement);
    bound = 0;
  }
  std::string bytes(int column) {
    const void *data = sqlite3_column_blob(statement, column);
    return data ? std::string(static_cast<const char *>(data),
                              static_cast<size_t>(sqlite3_column_bytes(statement, column)))
                : std::string();
  }
  uint64_t integer(int column) { return static_cast<uint64_t>(sqlite3_column_int64(statement, column)); }

private:
  sqlite3_stmt *statement = nullptr;
  int bound = 0;
};

Database::Database(std::string path, sqlite3 *handle) : path(std::move(path)), handle(handle) {}

Problem Database::failed(const char *doing) const {
  int code = handle ? sqlite3_errcode(handle) : SQLITE_NOMEM;
  std::string text = handle ? sqlite3_errmsg(handle) : "out of memory";
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
    return problem(Code::damaged, "the ledger '" + path + "' is damaged (" + text +
                                      "); nothing is released until its newest copy is restored");
  }
  return problem(code == SQLITE_BUSY ? Code::busy : Code::disk,
                 std::string("the ledger failed at ") + doing + " '" + path + "': " + text);
}

Status Database::execute(const char *sql) {
  return sqlite3_exec(handle, sql, nullptr, nullptr, nullptr) == SQLITE_OK ? Status() : failed("a statement on");
}

Result<std::unique_ptr<Database>> Database::open(const std::string &path, int busyMs) {
  if (path != ":memory:") {
    // SQLite would make a file that others may read; its log takes the mode of the file. A file that
    // is there is left alone: closing it here would drop SQLite's own locks in this process.
    int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 && errno != EEXIST) {
      return problem(Code::disk, "cannot open the ledger '" + path + "': " + std::strerror(errno));
    }
    if (file >= 0) {
      fchmod(file, 0600); // whatever the umask
      close(file);
    }
  }
  sqlite3 *handle = nullptr;
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  int state = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  std::unique_ptr<Database> database(new Database(path, handle));
  if (state != SQLITE_OK) {
    return database->failed("opening");
  }
  sqlite3_busy_timeout(handle, busyMs);
  // FULL: the log is synced at every commit, not only when it is copied back.
  if (Status status = database->execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
                                        "PRAGMA cell_size_check = ON; BEGIN IMMEDIATE")) {
    return *status;
  }
  int64_t version = -1;
  {
    Statement read(*database, "PRAGMA user_version");
    version = read.step() == SQLITE_ROW ? static_cast<int64_t>(read.integer(0)) : -1;
  }
  if (version < 0) {
    return database->failed("opening");
  }
  if (version > kSchemaVersion) {
    return problem(Code::badRequest, "the ledger '" + path + "' has version " + std::to_string(version) +
                                         ", this release reads up to " + std::to_string(kSchemaVersion) +
                                         "; use the newer release");
  }
  Status status = version == 0               ? database->execute(kSchema)
                  : version < kSchemaVersion ? database->execute("PRAGMA user_version = 5")
                                             : Status();
  if (!status) {
    status = database->commit();
  }
  if (status) {
    return *status;
  }
  database->insertRow = std::make_unique<Statement>(*database, "INSERT INTO entries VALUES(?, ?, ?, ?)");
  database->selectAfter = std::make_unique<Statement>(*database, "SELECT * FROM entries WHERE seq > ? ORDER BY seq");
  return Result<std::unique_ptr<Database>>(std::move(database));
}

Database::~Database() {
  insertRow.reset();
  selectAfter.reset();
  sqlite3_close(handle);
}

Status Database::begin() { return execute("BEGIN IMMEDIATE"); }
Status Database::beginReading() { return execute("BEGIN"); }
Status Database::commit() { return execute("COMMIT"); }
void Database::rollback() {
  if (sqlite3_get_autocommit(handle) == 0) {
    sqlite3_exec(handle, "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

static std::string_view view(const Hash &hash) { return {reinterpret_cast<const char *>(hash.data()), hash.size()}; }

Status Database::insert(const Row &row) {
  insertRow->bind(row.seq).bind(row.bytes).bind(row.signature).bind(view(row.hash));
  int state = insertRow->step();
  Status status = state == SQLITE_DONE ? Status() : failed("writing to");
  insertRow->reset();
  return status;
}

Status Database::readRows(Statement &statement, const std::function<Status(const Row &)> &visit) {
  Status status;
  int state = SQLITE_ROW;
  while (!status && (state = statement.step()) == SQLITE_ROW) {
    Row row{statement.integer(0), statement.bytes(1), statement.bytes(2), {}};
    std::string hash = statement.bytes(3);
    if (hash.size() == row.hash.size()) {
      std::memcpy(row.hash.data(), hash.data(), hash.size());
    }
    status = visit(row);
  }
  if (state != SQLITE_ROW && state != SQLITE_DONE) {
    status = failed("reading");
  }
  statement.reset();
  return status;
}

Status Database::readAfter(uint64_t seq, const std::function<Status(const Row &)> &visit) {
  selectAfter->bind(seq);
  return readRows(*selectAfter, visit);
}

Status Database::readBefore(uint64_t seq, size_t limit, const std::function<Status(const Row &)> &visit) {
  Statement select(*this, "SELECT * FROM entries WHERE seq < ? ORDER BY seq DESC LIMIT ?");
  select.bind(seq == 0 ? uint64_t{INT64_MAX} : seq).bind(uint64_t{limit});
  return readRows(select, visit);
}

Result<std::optional<Row>> Database::read(uint64_t seq) {
  std::optional<Row> found;
  Status status = readBefore(seq + 1, 1, [&](const Row &row) {
    if (row.seq == seq) {
      found = row;
    }
    return Status();
  });
  return status ? Result<std::optional<Row>>(*status) : Result<std::optional<Row>>(std::move(found));
}

Status Database::insertSealed(uint64_t id, int64_t timeMs, std::string_view bytes) {
  Statement insert(*this, "INSERT INTO sealed VALUES(?, ?, ?)");
  insert.bind(id).bind(static_cast<uint64_t>(timeMs)).bind(bytes);
  return insert.step() == SQLITE_DONE ? Status() : failed("sealing bytes in");
}

Result<std::optional<std::string>> Database::readSealed(uint64_t id) {
  Statement select(*this, "SELECT bytes FROM sealed WHERE id = ?");
  int state = select.bind(id).step();
  if (state == SQLITE_ROW) {
    return std::optional(select.bytes(0));
  }
  return state == SQLITE_DONE ? Result<std::optional<std::string>>(std::optional<std::string>())
                              : Result<std::optional<std::string>>(failed("reading"));
}

Status Database::purgeSealed(int64_t timeMs) {
  Statement purge(*this, "DELETE FROM sealed WHERE sealed_ms < ?");
  return purge.bind(static_cast<uint64_t>(timeMs)).step() == SQLITE_DONE ? Status() : failed("forgetting bytes in");
}

} // namespace sojourn::owner::ledger
