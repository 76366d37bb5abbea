// SPDX-License-Identifier: Apache-2.0
// Archives as SQLite databases, and their names in the store.
#include "owner/ProgramArchive.h"

#include "owner/Error.h"
#include "owner/Limits.h"
#include "owner/Statement.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace sojourn::owner {

using llvm::Twine;
namespace fs = std::filesystem;

/// "SJPA", in SQLite's application_id.
static constexpr int64_t kArchiveId = 0x534a5041;
static constexpr const char *kArchiveSchema = R"sql(
  CREATE TABLE programs(
    store TEXT NOT NULL, move INTEGER NOT NULL, hash BLOB NOT NULL, client TEXT NOT NULL, runs INTEGER NOT NULL,
    ops INTEGER NOT NULL, first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL, text TEXT NOT NULL, privacy TEXT,
    PRIMARY KEY(store, move, hash, client));
  PRAGMA application_id = 1397379137;
  PRAGMA user_version = 1;
)sql";
static_assert(kArchiveId == 1397379137);
/// Beyond this an archive in the store gets no more entries.
static constexpr uintmax_t kArchiveBytes = uintmax_t{256} << 20;

ProgramRecord readProgram(Statement &row) {
  return {row.hash(0),
          row.text(1),
          row.text(6),
          static_cast<uint64_t>(row.integer(2)),
          static_cast<uint64_t>(row.integer(3)),
          row.integer(4),
          row.integer(5),
          row.text(7)};
}

llvm::Error ProgramArchive::failed(const char *doing) {
  return failure("the archive '" + path + "' failed while " + doing + ": " + sqlite3_errmsg(database));
}

llvm::Error ProgramArchive::execute(const char *sql) {
  return sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK ? llvm::Error::success()
                                                                             : failed("running a statement");
}

ProgramArchive::~ProgramArchive() { sqlite3_close(database); }

llvm::Expected<std::unique_ptr<ProgramArchive>> ProgramArchive::open(const std::string &path, bool create) {
  if (create) {
    // SQLite would make it readable for other accounts of the machine.
    if (int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR); file >= 0) {
      ::close(file);
    }
  }
  sqlite3 *handle = nullptr;
  int state = sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX, nullptr);
  std::unique_ptr<ProgramArchive> archive(new ProgramArchive(handle, path));
  if (state != SQLITE_OK) {
    return failure("cannot open the archive '" + path + "': " + (handle ? sqlite3_errmsg(handle) : "out of memory"));
  }
  sqlite3_busy_timeout(handle, 5000);
  int64_t id = -1, tables = -1;
  for (auto [sql, value] :
       {std::pair("PRAGMA application_id", &id), std::pair("SELECT count(*) FROM sqlite_master", &tables)}) {
    Statement read(handle, sql);
    *value = read.step() == SQLITE_ROW ? read.integer(0) : -1;
  }
  const bool isNew = id == 0 && tables == 0;
  if (id != kArchiveId && !(isNew && create)) {
    return failure("'" + path +
                   "' is not an archive of programs; expected a file that 'sojourn-owner programs --archive' wrote" +
                   (create ? ", or a new one" : ""));
  }
  // What is committed is on the disk, its name in the folder, too.
  llvm::Error error = archive->execute("PRAGMA synchronous = EXTRA");
  if (!error && isNew) {
    error = archive->begin();
    // Another process may have been quicker.
    Statement read(handle, "SELECT count(*) FROM sqlite_master");
    const bool isThere = !error && read.step() == SQLITE_ROW && read.integer(0) > 0;
    read.reset();
    error = error || isThere ? std::move(error) : archive->execute(kArchiveSchema);
    error = error ? std::move(error) : archive->commit();
  }
  return error ? llvm::Expected<std::unique_ptr<ProgramArchive>>(std::move(error)) : std::move(archive);
}

/// Number of an account's archive from the name "ACCOUNT-0001.db"; 0: it is none.
static unsigned numberOf(llvm::StringRef name, llvm::StringRef account) {
  unsigned number = 0;
  return name.consume_back(".db") && name.consume_front(account) && name.consume_front("-") && name.size() >= 4 &&
                 !name.getAsInteger(10, number)
             ? number
             : 0;
}

llvm::Expected<std::string> ProgramArchive::next(const std::string &folder, const std::string &account, size_t most) {
  std::error_code code;
  if (fs::create_directory(folder, code)) {
    fs::permissions(folder, fs::perms::owner_all, code);
  }
  uintmax_t all = 0, last = 0;
  unsigned number = 0;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    const unsigned found = numberOf(at->path().filename().string(), account);
    std::error_code gone;
    const uintmax_t size = found ? fs::file_size(at->path(), gone) : 0;
    if (found && !gone) {
      all += size;
      last = found > number ? size : last;
      number = std::max(number, found);
    }
  }
  if (code) {
    return failure("cannot read '" + folder + "': " + code.message());
  }
  if (all >= most) {
    return failure("the archives of '" + account + "' in '" + folder + "' take " + Twine(all) + " bytes, expected " +
                   Twine(most) + " at most: move some of them elsewhere");
  }
  number += number == 0 || last >= kArchiveBytes;
  std::string digits = std::to_string(number);
  return folder + "/" + account + "-" + std::string(4 - std::min<size_t>(4, digits.size()), '0') + digits + ".db";
}

std::vector<std::string> ProgramArchive::filesIn(const std::string &folder) {
  std::vector<std::string> files;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    if (at->path().extension() == ".db") {
      files.push_back(at->path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

llvm::Error ProgramArchive::put(const std::string &store, uint64_t move, const ProgramRecord &record) {
  Statement add(database, "INSERT OR REPLACE INTO programs VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  add.bind(store).bind(static_cast<int64_t>(move)).bind(record.hash).bind(record.client);
  add.bind(static_cast<int64_t>(record.runs)).bind(static_cast<int64_t>(record.ops));
  add.bind(record.firstMs).bind(record.lastMs).bind(record.text).bind(record.privacy);
  return add.step() == SQLITE_DONE ? llvm::Error::success() : failed("writing a program");
}

llvm::Expected<std::vector<ProgramRecord>> ProgramArchive::broughtBy(const std::string &store, uint64_t move) {
  std::vector<ProgramRecord> records;
  Statement read(database, "SELECT hash, client FROM programs WHERE store = ? AND move = ?");
  read.bind(store).bind(static_cast<int64_t>(move));
  int state;
  while ((state = read.step()) == SQLITE_ROW) {
    records.push_back({read.hash(0), read.text(1), "", 0, 0, 0, 0, ""});
  }
  return state == SQLITE_DONE ? llvm::Expected<std::vector<ProgramRecord>>(std::move(records))
                              : failed("reading programs");
}

llvm::Expected<std::vector<ProgramRecord>> ProgramArchive::programs(bool withText, const std::string &prefix) {
  std::vector<ProgramRecord> records;
  std::string sql = std::string("SELECT hash, client, runs, ops, first_ms, last_ms, ") + (withText ? "text" : "''") +
                    ", privacy FROM programs WHERE substr(hex(hash), 1, length(?1)) = upper(?1) ORDER BY first_ms, "
                    "rowid";
  Statement read(database, sql.c_str());
  read.bind(prefix);
  int state;
  while ((state = read.step()) == SQLITE_ROW) {
    records.push_back(readProgram(read));
  }
  return state == SQLITE_DONE ? llvm::Expected<std::vector<ProgramRecord>>(std::move(records))
                              : failed("reading programs");
}

} // namespace sojourn::owner
