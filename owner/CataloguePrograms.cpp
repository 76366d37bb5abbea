// SPDX-License-Identifier: Apache-2.0
// The log of programs in the catalogue, and the way of its entries to archives.
#include "owner/Catalogue.h"
#include "owner/Error.h"
#include "owner/ProgramArchive.h"
#include "owner/Statement.h"

#include <filesystem>

namespace sojourn::owner {

using llvm::Twine;

/// A quote begins the names that clients without an identity give themselves, and no other.
static constexpr char kQuote = '\'';

std::string Catalogue::accountOf(const std::string &client) {
  return !client.empty() && client[0] == kQuote ? "" : client;
}

/// Beside a catalogue of version 4, whose readers need not know it. The database itself counts what each account has in
/// the log, so that the sums hold for all processes of a store, whatever their release. sources: further texts of
/// programs. log_state: how often entries have left the log, and the archive to which some are on their way.
std::string Catalogue::logSchema() {
  auto account = [](const std::string &client) {
    return "CASE WHEN substr(" + client + ", 1, 1) = '''' THEN '' ELSE " + client + " END";
  };
  std::string sql = R"sql(
    CREATE INDEX programs_client ON programs(client);
    CREATE TABLE sources(
      hash BLOB NOT NULL, client TEXT NOT NULL, digest BLOB NOT NULL, text TEXT NOT NULL, first_ms INTEGER NOT NULL,
      PRIMARY KEY(hash, client, digest));
    CREATE TABLE log_use(
      account TEXT PRIMARY KEY, programs INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0,
      dropped INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE log_state(store TEXT NOT NULL, moves INTEGER NOT NULL, unfinished TEXT NOT NULL);
    INSERT INTO log_state VALUES(hex(randomblob(16)), 0, '');
    INSERT INTO log_use(account, programs, bytes) SELECT )sql" +
                    account("client") + R"sql(, sum(entries), sum(bytes) FROM (
      SELECT client, 1 AS entries, length(CAST(text AS BLOB)) AS bytes FROM programs
      UNION ALL SELECT client, 0, length(CAST(report AS BLOB)) FROM reports) GROUP BY 1;
  )sql";
  auto change = [&](const std::string &row, const std::string &sign, bool isProgram, const std::string &text) {
    return "UPDATE log_use SET programs = programs " + sign + (isProgram ? " 1" : " 0") + ", bytes = bytes " + sign +
           " length(CAST(" + row + "." + text + " AS BLOB)) WHERE account = " + account(row + ".client") + "; ";
  };
  for (auto [table, text] :
       {std::pair("programs", "text"), std::pair("reports", "report"), std::pair("sources", "text")}) {
    const bool isProgram = std::string(table) == "programs";
    sql += std::string("CREATE TRIGGER ") + table + "_entered AFTER INSERT ON " + table +
           " BEGIN INSERT OR IGNORE INTO log_use(account) VALUES(" + account("new.client") + "); " +
           change("new", "+", isProgram, text) + "END; CREATE TRIGGER " + table + "_left AFTER DELETE ON " + table +
           " BEGIN " + change("old", "-", isProgram, text) + "END;";
  }
  return sql + "CREATE TRIGGER programs_text AFTER UPDATE OF text ON programs BEGIN " +
         change("new", "+", false, "text") + change("old", "-", false, "text") + "END;";
}

llvm::Expected<bool> Catalogue::isThere(Statement &query) {
  int state = query.step();
  return state == SQLITE_ROW || state == SQLITE_DONE ? llvm::Expected<bool>(state == SQLITE_ROW)
                                                     : lastError("reading the log of programs");
}

llvm::Error Catalogue::run(Statement &statement) {
  return statement.step() == SQLITE_DONE ? llvm::Error::success() : lastError("writing the log of programs");
}

llvm::Expected<Catalogue::LogSize> Catalogue::logSize(const std::string &account) {
  Statement read(database, "SELECT programs, bytes FROM log_use WHERE account = ?");
  auto found = isThere(read.bind(account));
  if (!found) {
    return found.takeError();
  }
  return *found ? LogSize{static_cast<size_t>(read.integer(0)), static_cast<size_t>(read.integer(1))} : LogSize();
}

llvm::Expected<size_t> Catalogue::droppedPrograms() {
  Statement read(database, "SELECT sum(dropped) FROM log_use");
  auto found = isThere(read);
  return found ? llvm::Expected<size_t>(static_cast<size_t>(read.integer(0))) : found.takeError();
}

llvm::Expected<uint64_t> Catalogue::moves() {
  if (!readMoves) {
    readMoves = std::make_unique<Statement>(database, "SELECT moves FROM log_state");
  }
  auto found = isThere(*readMoves);
  const auto moves = found ? static_cast<uint64_t>(readMoves->integer(0)) : 0;
  readMoves->reset();
  return found ? llvm::Expected<uint64_t>(moves) : found.takeError();
}

llvm::Expected<Catalogue::Logged> Catalogue::logged(const ProgramRecord &record, const runtime::ProgramHash &digest) {
  Statement read(database, "SELECT EXISTS(SELECT 1 FROM programs WHERE hash = ?1 AND client = ?2), "
                           "EXISTS(SELECT 1 FROM programs WHERE hash = ?1 AND client = ?2 AND text = ?3) OR "
                           "EXISTS(SELECT 1 FROM sources WHERE hash = ?1 AND client = ?2 AND digest = ?4), "
                           "?5 = '' OR EXISTS(SELECT 1 FROM reports WHERE hash = ?1 AND client = ?2 AND report = ?5)");
  auto found = isThere(read.bind(record.hash).bind(record.client).bind(record.text).bind(digest).bind(record.privacy));
  if (!found) {
    return found.takeError();
  }
  return Logged{read.integer(0) != 0, read.integer(1) != 0, read.integer(2) != 0};
}

llvm::Error Catalogue::addRuns(const ProgramRecord &record) {
  Statement add(database, "INSERT INTO programs(hash, client, runs, ops, text, first_ms, last_ms) "
                          "VALUES(?, ?, ?, ?, ?, ?, ?) ON CONFLICT(hash, client) DO UPDATE SET "
                          "runs = runs + excluded.runs, ops = max(ops, excluded.ops), "
                          "text = CASE WHEN text = '' THEN excluded.text ELSE text END, last_ms = excluded.last_ms");
  add.bind(record.hash).bind(record.client).bind(static_cast<int64_t>(record.runs));
  add.bind(static_cast<int64_t>(record.ops)).bind(record.text);
  return run(add.bind(record.firstMs).bind(record.lastMs));
}

llvm::Error Catalogue::addText(const ProgramRecord &record, const runtime::ProgramHash &digest) {
  Statement add(database, "INSERT OR IGNORE INTO sources(hash, client, digest, text, first_ms) VALUES(?, ?, ?, ?, ?)");
  return run(add.bind(record.hash).bind(record.client).bind(digest).bind(record.text).bind(record.lastMs));
}

llvm::Error Catalogue::addReport(const ProgramRecord &record) {
  Statement add(database, "INSERT OR IGNORE INTO reports(hash, client, report, first_ms) VALUES(?, ?, ?, ?)");
  return run(add.bind(record.hash).bind(record.client).bind(record.privacy).bind(record.lastMs));
}

/// What `readProgram` reads of an entry: its texts, each under a line of its own, and its reports.
static std::string entries(bool withText, const std::string &where) {
  const std::string text = R"sql(
    CASE WHEN text = '' THEN '// its lines stand in an archive: it ran once more while it was moved there' || char(10)
    ELSE text END || coalesce((SELECT group_concat(char(10) || '// the same program with other lines:' || char(10) ||
    text, '') FROM (SELECT text FROM sources WHERE sources.hash = programs.hash AND
    sources.client = programs.client ORDER BY first_ms, rowid)), ''))sql";
  return "SELECT hash, client, runs, ops, first_ms, last_ms, " + (withText ? text : "''") +
         ", (SELECT group_concat(report, char(10)) FROM (SELECT report FROM reports WHERE "
         "reports.hash = programs.hash AND reports.client = programs.client ORDER BY first_ms)) FROM programs WHERE " +
         where;
}

llvm::Expected<std::vector<ProgramRecord>> Catalogue::programs(bool withText, const std::string &prefix) {
  std::vector<ProgramRecord> records;
  Statement read(database,
                 entries(withText, "substr(hex(hash), 1, length(?1)) = upper(?1) ORDER BY first_ms, rowid").c_str());
  read.bind(prefix);
  int state;
  while ((state = read.step()) == SQLITE_ROW) {
    records.push_back(readProgram(read));
  }
  return state == SQLITE_DONE ? llvm::Expected<std::vector<ProgramRecord>>(std::move(records))
                              : lastError("reading programs");
}

llvm::Error Catalogue::removeProgram(const ProgramRecord &record) {
  llvm::Error error = llvm::Error::success();
  for (const char *sql :
       {"DELETE FROM sources WHERE hash = ? AND client = ?", "DELETE FROM reports WHERE hash = ? AND client = ?",
        "DELETE FROM programs WHERE hash = ? AND client = ?"}) {
    Statement remove(database, sql);
    error = error ? std::move(error) : run(remove.bind(record.hash).bind(record.client));
  }
  return error;
}

/// A part at once, in a log of before that holds far more: others wait meanwhile.
llvm::Error Catalogue::dropOldest(const LogSize &most) {
  if (llvm::Error error = finishMove()) {
    return error;
  }
  return transact([&]() -> llvm::Error {
    std::vector<ProgramRecord> oldest;
    Statement read(database, "SELECT hash, client FROM programs WHERE client >= '''' AND client < '(' ORDER BY rowid "
                             "LIMIT 500");
    while (read.step() == SQLITE_ROW) {
      oldest.push_back({read.hash(0), read.text(1), "", 0, 0, 0, 0, ""});
    }
    read.reset();
    int64_t dropped = 0;
    for (const ProgramRecord &record : oldest) {
      auto size = logSize("");
      if (!size) {
        return size.takeError();
      }
      if (size->programs <= most.programs && size->bytes <= most.bytes) {
        break;
      }
      if (llvm::Error error = removeProgram(record)) {
        return error;
      }
      ++dropped;
    }
    Statement count(database, "UPDATE log_use SET dropped = dropped + ? WHERE account = ''");
    llvm::Error error = run(count.bind(dropped));
    return error ? std::move(error) : execute("UPDATE log_state SET moves = moves + 1");
  });
}

llvm::Expected<Catalogue::Move> Catalogue::unfinishedMove() {
  Statement read(database, "SELECT moves, unfinished FROM log_state");
  auto found = isThere(read);
  if (!found) {
    return found.takeError();
  }
  return *found ? Move{static_cast<uint64_t>(read.integer(0)), read.text(1)} : Move();
}

/// On the disk before the archive is written. Another process's note stays.
llvm::Error Catalogue::noteMove(const Move &move) {
  Statement note(database, "UPDATE log_state SET unfinished = ? WHERE moves = ? AND unfinished = ''");
  llvm::Error error = execute("PRAGMA synchronous = FULL");
  error = error ? std::move(error) : run(note.bind(move.path).bind(static_cast<int64_t>(move.number)));
  llvm::Error after = execute("PRAGMA synchronous = NORMAL");
  return llvm::joinErrors(std::move(error), std::move(after));
}

/// Where the archive has nothing of it, or is elsewhere.
llvm::Error Catalogue::forgetMove(const Move &move, ProgramArchive *file) {
  return transact([&]() -> llvm::Error {
    auto brought = file ? file->broughtBy(storeId(), move.number) : std::vector<ProgramRecord>();
    if (!brought || !brought->empty()) { // under the lock no other process writes to it
      return brought.takeError();
    }
    Statement forget(database, "UPDATE log_state SET unfinished = '' WHERE moves = ? AND unfinished = ?");
    return run(forget.bind(static_cast<int64_t>(move.number)).bind(move.path));
  });
}

std::string Catalogue::storeId() {
  Statement read(database, "SELECT store FROM log_state");
  return read.step() == SQLITE_ROW ? read.text(0) : "";
}

llvm::Expected<std::optional<size_t>> Catalogue::moveRows(const Move &move, ProgramArchive &file, Statement &rows,
                                                          size_t bytes) {
  size_t count = 0;
  bool isCurrent = true;
  // The lock keeps runs from being counted in entries that are on their way.
  llvm::Error error = transact([&]() -> llvm::Error {
    auto now = unfinishedMove();
    if (!now) {
      return now.takeError();
    }
    isCurrent = now->number == move.number && now->path == move.path;
    if (!isCurrent) {
      return llvm::Error::success();
    }
    const std::string store = storeId();
    std::vector<ProgramRecord> moved;
    llvm::Error error = file.begin();
    for (size_t size = 0; !error && size < bytes && rows.step() == SQLITE_ROW;) {
      Statement read(database, entries(true, "programs.rowid = ?").c_str());
      if (read.bind(rows.integer(0)).step() != SQLITE_ROW) {
        error = lastError("reading a program");
        break;
      }
      ProgramRecord record = readProgram(read);
      size += record.text.size() + record.privacy.size();
      error = file.put(store, move.number, record);
      record.text.clear();
      moved.push_back(std::move(record));
    }
    rows.reset();
    error = error ? std::move(error) : file.commit();
    if (error) {
      file.rollBack();
    }
    for (size_t at = 0; !error && at < moved.size(); ++at) {
      error = removeProgram(moved[at]);
    }
    count = moved.size();
    return error ? std::move(error) : execute("UPDATE log_state SET moves = moves + 1, unfinished = ''");
  });
  if (error) {
    return error;
  }
  return isCurrent ? std::optional(count) : std::nullopt;
}

/// Entries that a killed process had brought to an archive leave the log; the archive gets them once more, with the
/// runs since then.
llvm::Error Catalogue::finishMove() {
  auto move = unfinishedMove();
  if (!move || move->path.empty()) {
    return move.takeError();
  }
  auto file = ProgramArchive::open(move->path, /*create=*/false);
  if (!file) { // it was moved elsewhere, or nothing came of it
    llvm::consumeError(file.takeError());
    return forgetMove(*move, nullptr);
  }
  auto brought = (*file)->broughtBy(storeId(), move->number);
  if (!brought) {
    return brought.takeError();
  }
  if (brought->empty()) {
    return forgetMove(*move, file->get());
  }
  llvm::Error error = execute("CREATE TEMP TABLE IF NOT EXISTS brought(hash BLOB, client TEXT); DELETE FROM brought");
  for (size_t at = 0; !error && at < brought->size(); ++at) {
    Statement add(database, "INSERT INTO brought VALUES(?, ?)");
    error = run(add.bind((*brought)[at].hash).bind((*brought)[at].client));
  }
  if (error) {
    return error;
  }
  Statement rows(database, "SELECT programs.rowid FROM programs JOIN brought USING(hash, client)");
  auto moved = moveRows(*move, **file, rows, ~size_t{0});
  return moved ? llvm::Error::success() : moved.takeError();
}

llvm::Expected<size_t> Catalogue::archive(const std::string &path, const std::string *client, const LogSize &most) {
  auto file = ProgramArchive::open(path, /*create=*/true);
  if (!file) {
    return file.takeError();
  }
  const std::string sql =
      std::string("SELECT rowid FROM programs ") + (client ? "WHERE client = ?2 " : "") + "ORDER BY rowid LIMIT ?1";
  for (int attempt = 0; attempt < 8; ++attempt) {
    if (llvm::Error error = finishMove()) {
      return error;
    }
    auto number = moves();
    if (!number) {
      return number.takeError();
    }
    const Move move{*number, std::filesystem::absolute(path).string()};
    if (llvm::Error error = noteMove(move)) {
      return error;
    }
    Statement rows(database, sql.c_str());
    rows.bind(static_cast<int64_t>(most.programs));
    if (client) {
      rows.bind(*client);
    }
    auto moved = moveRows(move, **file, rows, most.bytes);
    if (!moved) {
      return moved.takeError();
    }
    if (*moved) {
      return **moved;
    }
  }
  return failure("other processes move programs out of the log at the same time; try again");
}

} // namespace sojourn::owner
