// SPDX-License-Identifier: Apache-2.0
// What a look at the version of a database tells, against what SQLite reads and its own number of changes.
#include "owner/ledger/DatabaseVersion.h"
#include "test/owner/ledger/Support.h"

#include <gtest/gtest.h>
#include <random>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sojourn::owner::ledger {
namespace {

class Connection {
public:
  explicit Connection(const std::string &path) {
    EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    run("PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS numbers(value INTEGER)");
  }
  ~Connection() { sqlite3_close(database); }
  void run(const std::string &sql) {
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
  }
  int64_t ask(const char *sql) {
    sqlite3_stmt *statement = nullptr;
    sqlite3_prepare_v2(database, sql, -1, &statement, nullptr);
    EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
    const int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
  }
  int64_t sum() { return ask("SELECT coalesce(sum(value), 0) FROM numbers"); }

  sqlite3 *database = nullptr;
};

struct Versions : testing::Test {
  test::Folder folder;
  std::string path = folder.path + "/numbers.db";
};

} // namespace

TEST_F(Versions, AWriteOfAnyConnectionIsANewOne) {
  Connection reader(path), writer(path);
  DatabaseVersion version(reader.database);
  std::mt19937_64 random(std::random_device{}());
  reader.sum();
  auto before = version.now();
  ASSERT_TRUE(before);
  int64_t number = reader.ask("PRAGMA data_version"), expected = reader.sum();
  size_t writes = 0;
  for (int round = 0; round < 300; ++round) {
    const auto kind = random() % 4;
    const int64_t value = static_cast<int64_t>(random() % 1000);
    Connection &by = kind < 2 ? writer : reader;
    if (kind % 2 == 0) {
      by.run("INSERT INTO numbers VALUES(" + std::to_string(value) + ")");
      expected += value;
      ++writes;
    }
    if (random() % 50 == 0) {
      writer.run("PRAGMA wal_checkpoint(TRUNCATE)"); // changes no value; the log begins anew
    }
    const auto now = version.now();
    ASSERT_TRUE(now) << round;
    const int64_t numberNow = reader.ask("PRAGMA data_version");
    if (kind % 2 == 0) {
      EXPECT_NE(now, before) << "a write went unseen";
    }
    if (now == before) {
      EXPECT_EQ(numberNow, number);
    }
    EXPECT_EQ(reader.sum(), expected);
    before = now;
    number = numberNow;
  }
  EXPECT_GT(writes, 50u);
  // Reads change nothing.
  const auto last = version.now();
  for (int round = 0; round < 10; ++round) {
    reader.sum();
    writer.sum();
    EXPECT_EQ(version.now(), last);
  }
}

TEST_F(Versions, AWriteOfAnotherProcessIsANewOne) {
  Connection reader(path);
  DatabaseVersion version(reader.database);
  reader.sum();
  const auto before = version.now();
  ASSERT_TRUE(before);
  const pid_t child = fork();
  if (child == 0) {
    const char *script = "import sqlite3, sys\nwith sqlite3.connect(sys.argv[1]) as numbers:\n"
                         "    numbers.execute('INSERT INTO numbers VALUES(7)')";
    execlp("python3", "python3", "-c", script, path.c_str(), static_cast<char *>(nullptr));
    _exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_NE(version.now(), before);
  EXPECT_EQ(reader.sum(), 7);
}

TEST_F(Versions, ATransactionHasNone) {
  for (const std::string &place : {path, std::string(":memory:")}) {
    Connection connection(place);
    DatabaseVersion version(connection.database);
    connection.sum();
    const auto before = version.now();
    ASSERT_TRUE(before) << place;
    for (const char *end : {"ROLLBACK", "COMMIT"}) {
      connection.run("BEGIN; INSERT INTO numbers VALUES(1)");
      EXPECT_FALSE(version.now()) << place;
      EXPECT_EQ(connection.sum(), 1) << place;
      connection.run(end);
    }
    EXPECT_NE(version.now(), before) << place;
    EXPECT_EQ(connection.sum(), 1) << place;
  }
}

TEST_F(Versions, WithoutALogNothingIsTold) {
  Connection connection(path);
  connection.run("PRAGMA journal_mode = DELETE; INSERT INTO numbers VALUES(1)");
  DatabaseVersion version(connection.database);
  connection.sum();
  EXPECT_FALSE(version.now()) << "no other process would be seen";
}

} // namespace sojourn::owner::ledger
