// SPDX-License-Identifier: Apache-2.0
// Files that are older, changed or broken: every one is noticed, and the text says which and where.
#include "test/owner/ledger/Support.h"

#include <fcntl.h>
#include <fstream>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sojourn::owner::ledger::test {

namespace {

struct Files : testing::Test {
  World world;
  SigningKey key = SigningKey::generate();
  void SetUp() override {
    world.key = &key;
    auto ledger = world.open();
    ASSERT_NE(ledger, nullptr);
    admitAda(*ledger, 1);
    publish(*ledger, "a");
  }
  ReserveRequest request(const std::string &name, uint64_t units) const {
    return requestOf(name, units, "ada", "people", key.publicKey());
  }
  void publish(Ledger &ledger, const std::string &name) {
    ReserveAnswer answer = ledger.reserve(request(name, 1000));
    ASSERT_EQ(textOf(answer), "");
    Ticket ticket = std::get<Ticket>(answer);
    ASSERT_EQ(textOf(ledger.start(ticket)), "");
    ASSERT_TRUE(ledger.seal(ticket, "bytes of " + name));
    ASSERT_EQ(textOf(ledger.deliver(ticket)), "");
  }
  void sql(const std::string &statement) {
    sqlite3 *file = nullptr;
    ASSERT_EQ(sqlite3_open(world.folder.file("ledger.sqlite").c_str(), &file), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(file, statement.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(file);
    sqlite3_close(file);
  }
  void copy(const std::string &from, const std::string &to) {
    std::filesystem::copy_file(world.folder.file(from), world.folder.file(to),
                               std::filesystem::copy_options::overwrite_existing);
  }
  void expectRefused(Code code, const std::string &part) {
    auto ledger = Ledger::open(world.options());
    ASSERT_FALSE(ledger);
    EXPECT_EQ(ledger.problem().code, code) << ledger.problem().text;
    EXPECT_NE(ledger.problem().text.find(part), std::string::npos) << ledger.problem().text;
  }
  /// Replaces entry `seq` by what `change` makes of it, and gives it and all after it good hashes.
  void forge(uint64_t seq, const std::function<void(Entry &)> &change) {
    auto database = Database::open(world.folder.file("ledger.sqlite"), 1000);
    ASSERT_TRUE(database);
    std::vector<Row> rows;
    Hash previous{};
    ASSERT_EQ(textOf((*database)->readAfter(0,
                                            [&](const Row &row) {
                                              Entry entry = *decode(row.bytes);
                                              entry.previous = previous;
                                              if (entry.seq == seq) {
                                                change(entry);
                                              }
                                              rows.push_back({row.seq, encode(entry), row.signature, {}});
                                              previous = rows.back().hash = hashOf(rows.back().bytes);
                                              return Status();
                                            })),
              "");
    sql("DELETE FROM entries");
    for (const Row &row : rows) {
      ASSERT_EQ(textOf((*database)->insert(row)), "");
    }
    std::filesystem::remove(world.folder.file("elsewhere/ledger.head"));
    HeadFile head(world.folder.file("elsewhere/ledger.head"), nullptr);
    ASSERT_EQ(textOf(head.write({rows.back().seq, rows.back().hash})), "");
  }
};

} // namespace

TEST_F(Files, AnOlderCopyIsNoticed) {
  copy("ledger.sqlite", "copy");
  publish(*world.open(), "b");
  copy("ledger.sqlite", "newest");
  copy("copy", "ledger.sqlite");
  expectRefused(Code::olderFile, "ends at entry 8, its head");
  std::filesystem::remove(world.folder.file("ledger.sqlite"));
  expectRefused(Code::olderFile, "ends at entry 0");
  copy("newest", "ledger.sqlite");
  ASSERT_NE(world.open(), nullptr) << "the newest copy is fine again";
}

TEST_F(Files, AnOlderCopyUnderALivingServerIsNoticed) {
  auto ledger = world.open();
  // Another process goes on with the head, as if the server's file had been put back.
  HeadFile head(world.folder.file("elsewhere/ledger.head"), nullptr);
  auto value = head.read();
  ASSERT_TRUE(value);
  ASSERT_EQ(textOf(head.write({value->seq + 1, hashOf("x")})), "");
  ReserveAnswer answer = ledger->reserve(request("b", 1));
  ASSERT_NE(textOf(answer), "");
  EXPECT_EQ(std::get<Problem>(answer).code, Code::olderFile);
}

TEST_F(Files, AnOlderHeadOrAnotherLedgersIsNoticed) {
  copy("elsewhere/ledger.head", "head");
  publish(*world.open(), "b");
  copy("head", "elsewhere/ledger.head");
  expectRefused(Code::damaged, "the ledger and its head do not match");
  std::filesystem::remove(world.folder.file("elsewhere/ledger.head"));
  expectRefused(Code::damaged, "its head '" + world.folder.file("elsewhere/ledger.head") + "' knows of entry 0");
  { std::ofstream(world.folder.file("elsewhere/ledger.head")) << std::string(9000, 'x'); }
  expectRefused(Code::damaged, "head '" + world.folder.file("elsewhere/ledger.head") + "' is damaged");
}

TEST_F(Files, OneSlotOfTheHeadMayBeLost) {
  // A write that was cut short leaves the other slot, one transaction behind.
  for (int round = 0; round < 2; ++round) {
    HeadFile head(world.folder.file("elsewhere/ledger.head"), nullptr);
    auto value = head.read();
    ASSERT_TRUE(value);
    uint64_t behind = 0;
    for (off_t slot : {0, 4096}) {
      copy("elsewhere/ledger.head", "kept");
      int file = open(world.folder.file("elsewhere/ledger.head").c_str(), O_RDWR);
      ASSERT_EQ(pwrite(file, "cut", 3, slot + 60), 3);
      close(file);
      auto rest = HeadFile(world.folder.file("elsewhere/ledger.head"), nullptr).read();
      ASSERT_TRUE(rest);
      behind += value->seq - rest->seq;
      ASSERT_NE(world.open(), nullptr);
      auto repaired = HeadFile(world.folder.file("elsewhere/ledger.head"), nullptr).read();
      ASSERT_TRUE(repaired);
      EXPECT_EQ(*repaired, *value);
      copy("kept", "elsewhere/ledger.head");
    }
    EXPECT_EQ(behind, 1u) << "the last transaction stands in one of the slots";
    ASSERT_EQ(textOf(world.open()->setCap("people", {1, 0.5})), "");
  }
}

TEST_F(Files, AChangedByteIsNoticed) {
  std::mt19937_64 random(freshSeed());
  copy("ledger.sqlite", "good");
  auto count = world.open()->entries(1);
  ASSERT_TRUE(count);
  uint64_t entries = (*count)[0].entry.seq;
  for (int round = 0; round < 40; ++round) {
    uint64_t seq = 1 + random() % entries;
    const char *column = round % 2 == 0 ? "bytes" : "hash";
    std::string place = std::to_string(1 + random() % 32);
    sql(std::string("UPDATE entries SET ") + column + " = CAST(substr(" + column + ", 1, " + place +
        " - 1) || CASE substr(" + column + ", " + place + ", 1) WHEN x'00' THEN x'01' ELSE x'00' END || substr(" +
        column + ", " + place + " + 1) AS BLOB) WHERE seq = " + std::to_string(seq));
    expectRefused(Code::damaged, "damaged at entry " + std::to_string(seq) + ":");
    copy("good", "ledger.sqlite");
  }
  for (uint64_t seq = 1; seq < entries; ++seq) {
    sql("DELETE FROM entries WHERE seq = " + std::to_string(seq));
    expectRefused(Code::damaged, "damaged at entry " + std::to_string(seq + 1) + ": it does not follow entry " +
                                     std::to_string(seq - 1));
    copy("good", "ledger.sqlite");
  }
  sql("DELETE FROM entries WHERE seq = " + std::to_string(entries));
  expectRefused(Code::olderFile, "an older ledger file");
}

TEST_F(Files, AForgedChainStillNeedsTheOwnersKey) {
  copy("ledger.sqlite", "good");
  copy("elsewhere/ledger.head", "head");
  forge(4, [](Entry &entry) { std::get<GrantSet>(entry.body).grant.epsilon = 100; });
  expectRefused(Code::damaged, "damaged at entry 4: it grants budget and is not signed");
  copy("good", "ledger.sqlite");
  copy("head", "elsewhere/ledger.head");
  auto other = SigningKey::generate();
  world.key = &other;
  expectRefused(Code::damaged, "damaged at entry 1: it grants budget and is not signed");
}

TEST_F(Files, OverrunsAreForgivenByTheOwnersKeyAlone) {
  {
    auto ledger = world.open();
    ASSERT_EQ(textOf(ledger->addOverruns("ada", "people", 5)), "");
    ASSERT_EQ(textOf(ledger->addOverruns("ada", "people", 6)), "");
  }
  copy("ledger.sqlite", "good");
  copy("elsewhere/ledger.head", "head");
  forge(10, [](Entry &entry) { entry.body = OverrunsForgiven{"ada", "people"}; });
  expectRefused(Code::damaged, "damaged at entry 10: it grants budget and is not signed");
  copy("good", "ledger.sqlite");
  copy("head", "elsewhere/ledger.head");
  auto ledger = world.open();
  ASSERT_EQ(textOf(ledger->forgiveOverruns("ada", "people")), "");
  ledger.reset();
  ledger = world.open();
  ASSERT_NE(ledger, nullptr) << "with the signature";
  EXPECT_EQ(*ledger->overruns("ada", "people"), 0u);
}

TEST_F(Files, NobodyPaysForTheTablesOfAnotherOwner) {
  auto ledger = world.open();
  ASSERT_NE(ledger, nullptr);
  PublicKey other = SigningKey::generate().publicKey();
  std::string text = "dataset 'people' belongs to owner " + shortKeyText(other) +
                     "..., but this ledger belongs to owner " + shortKeyText(key.publicKey()) +
                     "...; each owner charges only its own tables";
  EXPECT_EQ(textOf(ledger->reserve(requestOf("b", 1, "ada", "people", other))), text);
  EXPECT_NE(textOf(ledger->reserve(requestOf("b", 1))), "") << "nor of one that nobody named";
  RunRequest run;
  run.client = "ada";
  run.items = {{"people", "v1", "", chargeOf(1), other}};
  auto opened = ledger->openRun(run);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.problem().text, text);
  run.items[0].owner = key.publicKey();
  EXPECT_TRUE(ledger->openRun(run));
  EXPECT_EQ(spentOn(*ledger), chargeOf(1000)) << "of what was paid before";
  ledger.reset();
  // Charges are not signed: who writes the file may add one.
  forge(5, [&](Entry &entry) { std::get<Reserved>(entry.body).items[0].owner = other; });
  expectRefused(Code::damaged, "damaged at entry 5: it charges for a dataset of another owner");
  forge(5, [&](Entry &entry) { std::get<Reserved>(entry.body).items[0].owner = key.publicKey(); });
  EXPECT_TRUE(Ledger::open(world.options()));
}

TEST_F(Files, AForgedChainMustStillBeLegal) {
  world.key = nullptr; // whoever has the key
  copy("ledger.sqlite", "good");
  forge(6, [](Entry &entry) { entry.body = Sealed{5, 1, {}}; });
  expectRefused(Code::damaged, "damaged at entry 6: publish 5 is reserved and cannot become sealed");
  copy("good", "ledger.sqlite");
  forge(8, [](Entry &entry) { entry.body = Voided{5, "never happened"}; });
  expectRefused(Code::damaged, "damaged at entry 8: publish 5 is sealed and cannot become void");
  copy("good", "ledger.sqlite");
  forge(7, [](Entry &entry) { std::get<Sealed>(entry.body).digest[0] ^= 1; });
  auto ledger = world.open();
  ASSERT_NE(ledger, nullptr) << "digests are compared when asked to";
  auto report = ledger->verify();
  ASSERT_FALSE(report);
  EXPECT_NE(report.problem().text.find("sealed bytes of publish 5 do not match entry 7"), std::string::npos);
  EXPECT_NE(textOf(ledger->reserve(request("a", 1000))).find("damaged"), std::string::npos) << "and before a retry";
  ledger.reset();
  copy("good", "ledger.sqlite");
  forge(3, [](Entry &entry) { std::get<CapSet>(entry.body).grant.epsilon = 0.0001; });
  ledger = world.open();
  ASSERT_NE(ledger, nullptr);
  report = ledger->verify();
  ASSERT_FALSE(report);
  EXPECT_NE(report.problem().text.find("damaged at entry 5: the cap over all clients"), std::string::npos)
      << report.problem().text;
}

TEST_F(Files, SealedBytesThatVanishEarlyAreNoticed) {
  sql("DELETE FROM sealed");
  auto ledger = world.open();
  auto report = ledger->verify();
  ASSERT_FALSE(report);
  EXPECT_NE(report.problem().text.find("sealed bytes of publish 5 were deleted early"), std::string::npos);
  ReserveAnswer answer = ledger->reserve(request("a", 1000));
  EXPECT_EQ(std::get<Problem>(answer).code, Code::expired) << "and never made again";
}

TEST_F(Files, BrokenFilesGiveAText) {
  copy("ledger.sqlite", "good");
  auto write = [&](const std::string &bytes) {
    std::ofstream(world.folder.file("ledger.sqlite"), std::ios::binary | std::ios::trunc) << bytes;
  };
  write(std::string(5000, 'x'));
  expectRefused(Code::damaged, "is damaged (file is not a database)");
  std::ifstream stream(world.folder.file("good"), std::ios::binary);
  std::string good((std::istreambuf_iterator<char>(stream)), {});
  write(good.substr(0, good.size() / 2));
  expectRefused(Code::damaged, "damaged");
  uint64_t seed = freshSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  int refused = 0;
  for (int round = 0; round < 60; ++round) {
    std::string bytes = good;
    for (int flips = 0; flips < 8; ++flips) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    }
    write(bytes);
    auto ledger = Ledger::open(world.options());
    refused += !ledger;
    // Bytes that mean nothing may change; where it opens, every entry is as it was.
    if (ledger) {
      EXPECT_EQ(spentOn(**ledger), chargeOf(1000));
      auto first = (*ledger)->entries(100);
      EXPECT_TRUE(first && first->size() >= 8);
    }
  }
  EXPECT_GT(refused, 0);
  write(good);
  sql("PRAGMA user_version = 9");
  expectRefused(Code::badRequest, "has version 9, this release reads up to 5; use the newer release");
}

TEST_F(Files, AWriterThatHangsIsNotWaitedForWithoutEnd) {
  auto options = world.options();
  options.busyMs = 30;
  auto ledger = Ledger::open(options);
  ASSERT_TRUE(ledger);
  auto other = Locks::open(world.folder.file("ledger.sqlite.lock"));
  ASSERT_TRUE(other);
  ASSERT_EQ(textOf(other->lockWriter(0)), "");
  Status status = (*ledger)->setCap("people", {1, 0.5});
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, Code::busy);
  EXPECT_NE(status->text.find("for 30 ms"), std::string::npos);
  other->unlockWriter();
  EXPECT_EQ(textOf((*ledger)->setCap("people", {1, 0.5})), "");
}

TEST_F(Files, NobodyElseMayReadThem) {
  for (const char *name : {"ledger.sqlite", "ledger.sqlite.lock", "elsewhere/ledger.head"}) {
    EXPECT_EQ(std::filesystem::status(world.folder.file(name)).permissions(), std::filesystem::perms(0600)) << name;
  }
}

TEST_F(Files, FoldersThatAreNotThere) {
  auto options = world.options();
  options.path = "/nonexistent/ledger.sqlite";
  auto ledger = Ledger::open(options);
  ASSERT_FALSE(ledger);
  EXPECT_EQ(ledger.problem().code, Code::disk);
  EXPECT_NE(ledger.problem().text.find("/nonexistent/ledger.sqlite"), std::string::npos);
  options = world.options();
  options.headPath.clear();
  ledger = Ledger::open(options);
  ASSERT_FALSE(ledger);
  EXPECT_EQ(ledger.problem().code, Code::badRequest);
}

} // namespace sojourn::owner::ledger::test
