// SPDX-License-Identifier: Apache-2.0
// Goal: no client fills the log of programs for others, and no run is lost or counted twice on the way to archives.
// Method: owners with small rooms; every run is counted here, too, and the log and all archives together must agree.
#include "Support.h"
#include "owner/Accounts.h"
#include "owner/ProgramArchive.h"

#include <chrono>
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <sqlite3.h>
#include <thread>

namespace sojourn::owner::test {

namespace {

namespace fs = std::filesystem;
using signing::SigningKey;
/// Runs by program and client.
using Counts = std::map<std::pair<runtime::ProgramHash, std::string>, uint64_t>;

/// Program number `size`, from this line of a script.
runtime::EncodedProgram program(int64_t size, unsigned line = 1) {
  std::string type = "tensor<" + std::to_string(size) + "xi64>";
  return encode(
      moduleText("() -> (" + type + " {sojourn.result = \"publish\"})",
                 std::string(line, '\n') + "    %i = sojourn.iota dim = 0 : " + type + "\n    return %i : " + type));
}

struct Logged : testing::Test {
  World world;
  TemporaryFolder folder;
  Limits limits;
  std::unique_ptr<Owner> owner;
  std::map<std::string, SigningKey> keys;
  Counts expected;

  void SetUp() override {
    world.store = folder.file("store");
    limits.loggedPrograms = 40; // of local; clients: 4, without an identity: 2
    open();
    for (const char *name : {"ada", "bob"}) {
      keys.emplace(name, SigningKey::generate());
      ASSERT_EQ(errorText(owner->accounts().addClient(name, keys.at(name).publicKey())), "");
    }
  }
  void open() {
    owner.reset();
    owner = another();
  }
  /// As one of another process, on the same store.
  std::unique_ptr<Owner> another() {
    auto made = std::make_unique<Owner>(world.environment(), limits);
    EXPECT_EQ(made->status(), "");
    return made;
  }
  Client connect(const std::string &name) {
    return name == kLocalClient ? Client(*owner)
           : keys.count(name)   ? identified(*owner, keys.at(name))
                                : Client(*owner, name, Peer::client);
  }
  std::string run(Client &client, const std::string &name, const runtime::EncodedProgram &what) {
    std::string error = client.run(what).error();
    if (error.empty()) {
      ++expected[{what.hash, keys.count(name) || name == kLocalClient ? name : "'" + name + "'"}];
    }
    return error;
  }
  std::string archive(const std::string &path, bool waits = true) {
    const std::string told = errorText(another()->archivePrograms(path).takeError());
    if (waits) { // until owners have noticed
      std::this_thread::sleep_for(std::chrono::milliseconds(120));
    }
    return told;
  }
  void raw(const std::string &sql) {
    sqlite3 *database = nullptr;
    ASSERT_EQ(sqlite3_open((world.store + "/catalogue.db").c_str(), &database), SQLITE_OK);
    char *problem = nullptr;
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &problem), SQLITE_OK) << problem;
    sqlite3_close(database);
  }
  static std::vector<ProgramRecord> recordsOf(const std::string &path) {
    return llvm::cantFail(llvm::cantFail(ProgramArchive::open(path, /*create=*/false))->programs(/*withText=*/true));
  }
  static std::vector<ProgramRecord> recordsOf(Owner &from, const std::string &client = "") {
    auto all = llvm::cantFail(from.programs(/*withText=*/true));
    std::erase_if(all, [&](const ProgramRecord &record) { return !client.empty() && record.client != client; });
    return all;
  }
  std::vector<std::string> rotated() { return ProgramArchive::filesIn(world.store + "/programs"); }
  /// In the log and in these archives, with those of full rooms.
  Counts found(std::vector<std::string> archives = {}) {
    Counts counts;
    std::set<Counts::key_type> withLines;
    for (const std::string &path : rotated()) {
      archives.push_back(path);
    }
    auto add = [&](const std::vector<ProgramRecord> &records) {
      for (const ProgramRecord &record : records) {
        counts[{record.hash, record.client}] += record.runs;
        if (record.text.find("train.py:") != std::string::npos) {
          withLines.insert({record.hash, record.client});
        } else {
          EXPECT_EQ(record.text, "// its lines stand in an archive: it ran once more while it was moved there\n");
        }
      }
    };
    for (const std::string &path : archives) {
      add(recordsOf(path));
    }
    add(recordsOf(*owner));
    EXPECT_EQ(withLines.size(), counts.size());
    return counts;
  }
};

TEST_F(Logged, NobodyFillsTheLogForOthers) {
  Client nobody = connect("stranger"), ada = connect("ada"), bob = connect("bob"), local = connect(kLocalClient);
  EXPECT_EQ(run(bob, "bob", program(1)), "");
  for (int64_t number = 100; number < 160; ++number) {
    EXPECT_EQ(run(nobody, "stranger", program(number)), "");
    EXPECT_EQ(run(ada, "ada", program(number)), "");
  }
  for (int64_t number = 2; number < 5; ++number) {
    EXPECT_EQ(run(bob, "bob", program(number)), "");
    EXPECT_EQ(run(local, kLocalClient, program(number)), "");
  }
  EXPECT_EQ(recordsOf(*owner, "bob").size(), 4u) << "where they were entered";
  EXPECT_EQ(recordsOf(*owner, kLocalClient).size(), 3u);
  EXPECT_LE(recordsOf(*owner, "ada").size(), 4u);
  auto anonymous = recordsOf(*owner, "'stranger'");
  EXPECT_EQ(anonymous.size(), 2u);
  EXPECT_EQ(anonymous.back().hash, program(159).hash) << "the oldest went";
  EXPECT_EQ(llvm::cantFail(owner->loggedBefore()).dropped, 58u);
  for (const std::string &path : rotated()) {
    EXPECT_EQ(fs::path(path).filename().string().substr(0, 4), "ada-");
    EXPECT_EQ(static_cast<unsigned>(fs::status(path).permissions()), 0600u);
  }
  std::erase_if(expected, [](const auto &entry) { return entry.first.second == "'stranger'"; });
  Counts counts = found();
  std::erase_if(counts, [](const auto &entry) { return entry.first.second == "'stranger'"; });
  EXPECT_EQ(counts, expected);
}

TEST_F(Logged, AFullShareIsTheClientsOwnAndWhatStandsInItRuns) {
  limits.archivedBytes = 0;
  open();
  Client ada = connect("ada"), bob = connect("bob");
  for (int64_t number = 1; number <= 4; ++number) {
    EXPECT_EQ(run(ada, "ada", program(number)), "");
  }
  size_t bytes = 0;
  for (const ProgramRecord &record : recordsOf(*owner, "ada")) {
    bytes += record.text.size();
  }
  EXPECT_EQ(run(ada, "ada", program(5)),
            "Limit: your share of the log of programs is full: 4 programs with " + std::to_string(bytes) +
                " bytes of text, of 4 programs and 858993459 bytes, and a new program that cannot be logged does not "
                "run; programs that ran before still do. Ask the data owner for: sojourn-owner programs --archive "
                "FILE");
  for (int64_t number = 1; number <= 4; ++number) {
    EXPECT_EQ(run(ada, "ada", program(number)), "");
    EXPECT_EQ(run(ada, "ada", program(number, 7)), "") << "also from other lines";
  }
  EXPECT_EQ(run(bob, "bob", program(5)), "");
  open(); // nothing of it is in memory only
  Client again = connect("ada");
  EXPECT_EQ(run(again, "ada", program(2)), "");
  EXPECT_NE(run(again, "ada", program(6)), "");
  const std::string file = folder.file("old.db");
  EXPECT_EQ(archive(file), "");
  EXPECT_EQ(run(again, "ada", program(6)), "") << "the share is free for a server that runs";
  EXPECT_EQ(run(again, "ada", program(2)), "");
  EXPECT_EQ(run(again, "ada", program(2)), "");
  EXPECT_EQ(recordsOf(*owner, "ada").size(), 2u);
  EXPECT_EQ(found({file}), expected);
}

TEST_F(Logged, BytesAreCountedToo) {
  limits.loggedPrograms = kLoggedPrograms;
  limits.loggedBytes = 40'000; // clients: 4,000
  limits.archivedBytes = 0;
  open();
  Client ada = connect("ada");
  std::string last;
  int64_t number = 0;
  while (last.empty() && number < 100) {
    last = run(ada, "ada", program(++number));
  }
  EXPECT_NE(last.find("and 4000 bytes"), std::string::npos) << last;
  size_t bytes = 0;
  for (const ProgramRecord &record : recordsOf(*owner)) {
    bytes += record.text.size();
  }
  EXPECT_LE(bytes, 4000u);
  EXPECT_GT(bytes, 3000u);
  // A flood of lines of one program fills no more.
  for (unsigned line = 10; line < 60; ++line) {
    EXPECT_EQ(run(ada, "ada", program(1, line)), "");
  }
  bytes = 0;
  for (const ProgramRecord &record : recordsOf(*owner)) {
    bytes += record.text.size();
  }
  EXPECT_LE(bytes, 4500u) << "one line says that others were not kept";
  EXPECT_NE(recordsOf(*owner)[0].text.find("further lines were not kept"), std::string::npos);
}

TEST_F(Logged, TheLinesOfEverySubmitterAreKept) {
  Client ada = connect("ada"), bob = connect("bob"), one = connect("x"), two = connect("x");
  EXPECT_EQ(run(ada, "ada", program(3, 11)), "");
  EXPECT_EQ(run(bob, "bob", program(3, 22)), "");
  EXPECT_EQ(run(ada, "ada", program(3, 33)), "");
  EXPECT_EQ(run(ada, "ada", program(3, 11)), "");
  EXPECT_EQ(run(one, "x", program(3, 44)), "");
  EXPECT_EQ(run(two, "x", program(3, 55)), "");
  auto check = [&](const std::vector<ProgramRecord> &records) {
    for (auto [client, lines] : {std::pair("ada", std::set<int>{14, 36}), std::pair("bob", std::set<int>{25}),
                                 std::pair("'x'", std::set<int>{47, 58})}) {
      auto record = llvm::find_if(records, [&](const ProgramRecord &each) { return each.client == client; });
      ASSERT_NE(record, records.end()) << client;
      for (int line : {14, 25, 36, 47, 58}) {
        const bool isThere = record->text.find("train.py:" + std::to_string(line)) != std::string::npos;
        EXPECT_EQ(isThere, lines.count(line) != 0) << client << ", line " << line << "\n" << record->text;
      }
    }
  };
  check(recordsOf(*owner));
  EXPECT_EQ(archive(folder.file("old.db")), "");
  check(recordsOf(folder.file("old.db")));
  EXPECT_EQ(found({folder.file("old.db")}), expected);
}

TEST_F(Logged, NoRunIsLostOrCountedTwice) {
  const uint64_t seed = std::random_device()();
  std::mt19937_64 dice(seed);
  std::map<std::string, Client> clients;
  for (const char *name : {"ada", "bob", kLocalClient}) {
    clients.emplace(name, connect(name));
  }
  const std::vector<std::string> names{"ada", "bob", kLocalClient};
  std::set<std::string> files;
  for (int round = 0; round < 400; ++round) {
    world.now += static_cast<int64_t>(dice() % 400);
    const std::string &name = names[dice() % names.size()];
    ASSERT_EQ(run(clients.at(name), name, program(1 + static_cast<int64_t>(dice() % 9), 1 + dice() % 2)), "")
        << "seed " << seed << ", round " << round;
    if (dice() % 20 == 0) {
      files.insert(folder.file(std::to_string(dice() % 3) + ".db"));
      const auto file = std::next(files.begin(), static_cast<ptrdiff_t>(dice() % files.size()));
      ASSERT_EQ(archive(*file, /*waits=*/dice() % 2 == 0), "") << "seed " << seed;
    }
  }
  std::vector<std::string> there;
  for (const std::string &file : files) {
    if (fs::exists(file)) {
      there.push_back(file);
    }
  }
  EXPECT_EQ(found(there), expected) << "seed " << seed;
}

TEST_F(Logged, AnArchiveThatWasKilledIsFinished) {
  Client ada = connect("ada"), bob = connect("bob");
  for (int64_t number = 1; number <= 3; ++number) {
    EXPECT_EQ(run(ada, "ada", program(number)), "");
    EXPECT_EQ(run(bob, "bob", program(number)), "");
  }
  ASSERT_EQ(recordsOf(*owner).size(), 6u);
  owner.reset();
  const std::string copy = folder.file("copy.db"), first = folder.file("first.db"), second = folder.file("second.db");
  raw("UPDATE log_state SET unfinished = '" + first + "'; VACUUM INTO '" + copy +
      "'; "
      "UPDATE log_state SET unfinished = ''");
  // The archive has them, and the store does not know it.
  EXPECT_EQ(archive(first), "");
  EXPECT_EQ(recordsOf(first).size(), 6u);
  for (const char *end : {"", "-wal", "-shm"}) {
    fs::remove(world.store + "/catalogue.db" + end);
  }
  fs::copy_file(copy, world.store + "/catalogue.db");
  open();
  Client again = connect("ada");
  EXPECT_EQ(run(again, "ada", program(2)), "");
  EXPECT_EQ(run(again, "ada", program(4)), "");
  EXPECT_EQ(archive(second), "");
  EXPECT_EQ(recordsOf(*owner).size(), 0u);
  EXPECT_EQ(recordsOf(first).size(), 6u);
  EXPECT_EQ(recordsOf(second).size(), 1u) << "what came after";
  EXPECT_EQ(found({first, second}), expected);
}

TEST_F(Logged, AnUnfinishedArchiveThatIsGoneIsForgotten) {
  Client ada = connect("ada");
  EXPECT_EQ(run(ada, "ada", program(1)), "");
  raw("UPDATE log_state SET unfinished = '" + folder.file("gone.db") + "'");
  EXPECT_EQ(archive(folder.file("new.db")), "");
  EXPECT_FALSE(fs::exists(folder.file("gone.db")));
  EXPECT_EQ(found({folder.file("new.db")}), expected);
}

TEST_F(Logged, OnlyArchivesAreWritten) {
  Client ada = connect("ada");
  EXPECT_EQ(run(ada, "ada", program(1)), "");
  const std::string text = folder.write("notes.txt", "these are notes, and no archive at all, of some length");
  EXPECT_EQ(archive(text), "'" + text +
                               "' is not an archive of programs; expected a file that 'sojourn-owner programs "
                               "--archive' wrote, or a new one");
  const std::string books = world.store + "/catalogue.db";
  EXPECT_NE(archive(books).find("is not an archive of programs"), std::string::npos);
  EXPECT_NE(archive(folder.file("no/such/folder.db")).find("cannot open the archive"), std::string::npos);
  EXPECT_EQ(found(), expected);
}

TEST_F(Logged, StoresOfBeforeOpen) {
  Client ada = connect("ada");
  for (int64_t number = 1; number <= 4; ++number) {
    EXPECT_EQ(run(ada, "ada", program(number)), "");
  }
  owner.reset();
  std::string sql = "DROP TABLE log_use; DROP TABLE log_state; DROP TABLE sources; DROP INDEX programs_client;";
  for (const char *table : {"programs", "reports"}) {
    sql += std::string("DROP TRIGGER ") + table + "_entered; DROP TRIGGER " + table + "_left;";
  }
  raw(sql + "DROP TRIGGER programs_text; INSERT INTO reports SELECT hash, client, 'noise', 1 FROM programs");
  limits.archivedBytes = 0;
  open();
  Client again = connect("ada");
  std::string error = run(again, "ada", program(5));
  EXPECT_NE(error.find("is full: 4 programs with "), std::string::npos) << error;
  EXPECT_EQ(run(again, "ada", program(4)), "");
  EXPECT_EQ(found(), expected);
}

} // namespace

} // namespace sojourn::owner::test
