// SPDX-License-Identifier: Apache-2.0
// Counts of overruns: they grow, whatever becomes of clients and datasets, until the owner forgives them.
#include "test/owner/ledger/Support.h"

#include <sqlite3.h>

namespace sojourn::owner::ledger::test {

namespace {

struct OverrunsOf : testing::Test {
  World world;
  SigningKey key = SigningKey::generate();
  std::unique_ptr<Ledger> ledger;
  void SetUp() override {
    world.key = &key;
    reopen();
    admitAda(*ledger, 1);
  }
  /// The same, by the file alone.
  void reopen() {
    ledger.reset();
    ledger = world.open();
    ASSERT_NE(ledger, nullptr);
    auto report = ledger->verify();
    ASSERT_TRUE(report) << report.problem().text;
  }
  void add(uint64_t bits, const std::string &client = "ada", const std::string &dataset = "people") {
    EXPECT_EQ(textOf(ledger->addOverruns(client, dataset, bits)), "");
  }
  uint64_t count(const std::string &client = "ada", const std::string &dataset = "people") {
    auto bits = ledger->overruns(client, dataset);
    EXPECT_TRUE(bits);
    return bits ? *bits : 0;
  }
  static void expectProblem(const Status &status, Code code, const std::string &part) {
    ASSERT_TRUE(status) << "expected: " << part;
    EXPECT_EQ(status->code, code) << status->text;
    EXPECT_NE(status->text.find(part), std::string::npos) << status->text;
  }
  std::string lines() {
    std::string text;
    auto lines = ledger->overrunsLines();
    EXPECT_TRUE(lines);
    for (const OverrunsLine &line : *lines) {
      text += line.client + " " + line.dataset + " " + std::to_string(line.bits) + "\n";
    }
    return text;
  }
  int64_t sql(const std::string &statement) {
    sqlite3 *file = nullptr;
    EXPECT_EQ(sqlite3_open(world.folder.file("ledger.sqlite").c_str(), &file), SQLITE_OK);
    int64_t first = -1;
    auto keep = [](void *place, int, char **texts, char **) {
      *static_cast<int64_t *>(place) = std::stoll(texts[0]);
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(file, statement.c_str(), keep, &first, nullptr), SQLITE_OK) << sqlite3_errmsg(file);
    sqlite3_close(file);
    return first;
  }
};

} // namespace

TEST_F(OverrunsOf, EntriesHaveOneEncoding) {
  for (const Body &body :
       {Body(Overruns{"ada", "people", 0x0102030405060708}), Body(OverrunsForgiven{"ada", "people"})}) {
    Entry entry{7, 7, hashNumber(6), world.nowMs, body};
    const std::string bytes = encode(entry);
    auto again = decode(bytes);
    ASSERT_TRUE(again);
    EXPECT_EQ(encode(*again), bytes);
    EXPECT_EQ(again->body.index(), body.index());
    EXPECT_FALSE(decode(bytes + '\0'));
    EXPECT_FALSE(decode(bytes.substr(0, bytes.size() - 1)));
  }
  Entry entry{1, 1, {}, 0, Overruns{"ada", "t", 0x0102030405060708}};
  EXPECT_EQ(hex(encode(entry)).substr(2 * (4 + 1 + 8 + 8 + 32 + 8)),
            "12" // the nineteenth kind
            "03000000616461"
            "0100000074"
            "0807060504030201");
  EXPECT_STREQ(kindName(Overruns{}), "overruns");
  EXPECT_STREQ(kindName(OverrunsForgiven{}), "overruns forgiven");
  EXPECT_FALSE(isOwners(Overruns{})) << "written at a step, and takes away alone";
  EXPECT_TRUE(isOwners(OverrunsForgiven{}));
}

TEST_F(OverrunsOf, EachClientOnEachDatasetCountByItself) {
  ASSERT_EQ(textOf(ledger->addClient("bob", "")), "");
  ASSERT_EQ(textOf(ledger->linkDataset("labs", "", Relation::nullOne)), "");
  EXPECT_EQ(lines(), "");
  add(1);
  add(4);
  add(2, "bob", "labs"); // without a grant: it may just have been revoked
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(count(), 5u);
    EXPECT_EQ(count("bob", "labs"), 2u);
    EXPECT_EQ(count("ada", "labs"), 0u);
    EXPECT_EQ(count("bob", "people"), 0u);
    EXPECT_EQ(count("nobody", "nothing"), 0u);
    EXPECT_EQ(lines(), "ada people 5\nbob labs 2\n");
    reopen();
  }
  EXPECT_EQ(spentOn(*ledger), privacy::Charge{}) << "no budget is spent";
  auto entries = ledger->entries(1);
  ASSERT_TRUE(entries);
  EXPECT_EQ((*entries)[0].client, "bob");
  EXPECT_EQ((*entries)[0].datasets, std::vector<std::string>{"labs"});
}

TEST_F(OverrunsOf, WhatIsNotKnownIsNotCounted) {
  const uint64_t before = ledger->verify()->entries;
  expectProblem(ledger->addOverruns("bob", "people", 1), Code::unknownClient, "no client is named 'bob'");
  expectProblem(ledger->addOverruns("", "people", 1), Code::unknownClient, "no client is named ''");
  expectProblem(ledger->addOverruns("ada", "labs", 1), Code::unknownDataset, "no private dataset is named 'labs'");
  expectProblem(ledger->addOverruns("ada", "people", 0), Code::badRequest,
                "overruns of 0 bits; expected 1 bit or more");
  auto options = world.options();
  options.serves = false;
  auto administration = Ledger::open(options);
  ASSERT_TRUE(administration);
  expectProblem((*administration)->addOverruns("ada", "people", 1), Code::badRequest, "opened for administration");
  EXPECT_EQ(ledger->verify()->entries, before);
  EXPECT_EQ(lines(), "");
}

TEST_F(OverrunsOf, TheOwnerForgives) {
  ASSERT_EQ(textOf(ledger->addClient("bob", "")), "");
  add(7);
  add(9, "bob");
  ASSERT_EQ(textOf(ledger->forgiveOverruns("ada", "people")), "");
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(lines(), "bob people 9\n");
    EXPECT_EQ(count(), 0u);
    expectProblem(ledger->forgiveOverruns("ada", "people"), Code::badRequest,
                  "client 'ada' has no overruns on dataset 'people'; 'sojourn-owner budget show' lists");
    expectProblem(ledger->forgiveOverruns("cleo", "people"), Code::unknownClient, "no client is named 'cleo'");
    expectProblem(ledger->forgiveOverruns("ada", "labs"), Code::unknownDataset, "no private dataset is named 'labs'");
    reopen();
  }
  add(3);
  EXPECT_EQ(count(), 3u) << "from zero";
}

TEST_F(OverrunsOf, ACountStopsAtItsGreatestNumber) {
  add(UINT64_MAX - 1);
  add(1);
  EXPECT_EQ(count(), UINT64_MAX);
  for (uint64_t bits : {uint64_t{1}, uint64_t{2}, UINT64_MAX}) {
    add(bits);
    EXPECT_EQ(count(), UINT64_MAX);
  }
  reopen();
  EXPECT_EQ(count(), UINT64_MAX);
}

TEST_F(OverrunsOf, CountsGoAlongWithANewName) {
  ASSERT_EQ(textOf(ledger->addClient("bob", "")), "");
  ASSERT_EQ(textOf(ledger->linkDataset("labs", "", Relation::nullOne)), "");
  add(5);
  add(6, "bob");
  add(7, "ada", "labs");
  ASSERT_EQ(textOf(ledger->renameDataset("people", "zoo")), "");
  add(10); // of a step that began before
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(lines(), "ada labs 7\nada zoo 15\nbob zoo 6\n");
    EXPECT_EQ(count("ada", "people"), 15u) << "by the name of before";
    expectProblem(ledger->forgiveOverruns("ada", "people"), Code::badRequest, "was renamed and is now 'zoo'");
    reopen();
  }
  ASSERT_EQ(textOf(ledger->renameDataset("zoo", "a")), "");
  ASSERT_EQ(textOf(ledger->renameDataset("a", "people")), "");
  EXPECT_EQ(lines(), "ada labs 7\nada people 15\nbob people 6\n");
  EXPECT_EQ(count("ada", "zoo"), 15u);
  ASSERT_EQ(textOf(ledger->forgiveOverruns("ada", "people")), "");
  reopen();
  EXPECT_EQ(lines(), "ada labs 7\nbob people 6\n");
}

TEST_F(OverrunsOf, WhoComesBackGoesOnWithThem) {
  const std::string bobs(32, 'b');
  ASSERT_EQ(textOf(ledger->addClient("bob", bobs)), "");
  add(5);
  add(6, "bob");
  ASSERT_EQ(textOf(ledger->removeDataset("people")), "");
  ASSERT_EQ(textOf(ledger->removeClient("bob")), "");
  add(1); // of steps that began before
  add(1, "bob");
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(lines(), "ada people 6\nbob people 7\n");
    expectProblem(ledger->forgiveOverruns("ada", "people"), Code::badRequest, "was removed by the data owner");
    expectProblem(ledger->forgiveOverruns("bob", "people"), Code::unknownClient, "no client is named 'bob'");
    reopen();
  }
  ASSERT_EQ(textOf(ledger->linkDataset("people", "people", Relation::nullOne, /*again=*/true)), "");
  ASSERT_EQ(textOf(ledger->addClient("bob", bobs, /*again=*/true)), "");
  add(1);
  add(1, "bob");
  EXPECT_EQ(lines(), "ada people 7\nbob people 8\n");
  ASSERT_EQ(textOf(ledger->forgiveOverruns("bob", "people")), "");
  reopen();
  EXPECT_EQ(lines(), "ada people 7\n");
}

TEST_F(OverrunsOf, AnotherProcessSeesThemAtOnce) {
  auto other = world.open();
  ASSERT_NE(other, nullptr);
  add(5);
  EXPECT_EQ(*other->overruns("ada", "people"), 5u);
  ASSERT_EQ(textOf(other->addOverruns("ada", "people", 2)), "");
  EXPECT_EQ(count(), 7u);
  ASSERT_EQ(textOf(other->forgiveOverruns("ada", "people")), "");
  EXPECT_EQ(count(), 0u);
}

TEST_F(OverrunsOf, FilesOfTheReleaseBeforeGoOn) {
  for (int version : {2, 3, 4}) { // their tables and entries are the same
    ledger.reset();
    sql("PRAGMA user_version = " + std::to_string(version));
    reopen();
    EXPECT_EQ(sql("PRAGMA user_version"), 5) << version;
    add(1);
    EXPECT_EQ(count(), static_cast<uint64_t>(version - 1));
  }
  ledger.reset();
  sql("PRAGMA user_version = 6");
  auto newer = Ledger::open(world.options());
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.problem().code, Code::badRequest);
  EXPECT_NE(newer.problem().text.find("has version 6, this release reads up to 5; use the newer release"),
            std::string::npos)
      << newer.problem().text;
  EXPECT_EQ(sql("PRAGMA user_version"), 6) << "it stays as it is";
}

} // namespace sojourn::owner::ledger::test
