// SPDX-License-Identifier: Apache-2.0
// A ledger of an earlier release opens: its charges count at all of today's orders, never for less, and go on.
#include "runtime/privacy/Filter.h"
#include "runtime/privacy/Rdp.h"
#include "test/owner/ledger/FirstVersion.h"
#include "test/owner/ledger/SecondVersion.h"
#include "test/owner/ledger/Support.h"

#include <algorithm>
#include <sqlite3.h>

namespace sojourn::owner::ledger::test {

namespace {

/// Written by a release of version `version`.
struct OldLedgers : testing::Test {
  World world;
  void write(int version) {
    sql("CREATE TABLE entries(seq INTEGER PRIMARY KEY, bytes BLOB NOT NULL, signature BLOB, hash BLOB NOT NULL);"
        "CREATE TABLE sealed(id INTEGER PRIMARY KEY, sealed_ms INTEGER NOT NULL, bytes BLOB NOT NULL);"
        "CREATE INDEX sealed_by_time ON sealed(sealed_ms); PRAGMA user_version = " +
        std::to_string(version) +
        ";"
        "INSERT INTO sealed VALUES(5, 1700000000000, CAST('bytes' AS BLOB))");
    uint64_t seq = 0;
    Hash hash{};
    entries.assign(std::begin(kFirstVersion), std::end(kFirstVersion));
    if (version == 2) {
      entries.assign(std::begin(kSecondVersion), std::end(kSecondVersion));
    }
    for (const char *digits : entries) {
      hash = hashOf(fromHex(digits));
      sql("INSERT INTO entries VALUES(" + std::to_string(++seq) + ", x'" + digits + "', x'', x'" + hex(hash) + "')");
    }
    std::filesystem::create_directories(world.folder.file("elsewhere"));
    HeadFile head(world.folder.file("elsewhere/ledger.head"), nullptr);
    ASSERT_EQ(textOf(head.write({seq, hash})), "");
  }
  std::vector<const char *> entries;
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

/// What the entries charge, at all orders.
privacy::Charge charged() {
  return privacy::gaussian(0.01) + privacy::failure(0x1p-50) + uint64_t{100} * privacy::sampledGaussian(0.01, 0.5);
}

bool isFirst(int order) { return std::ranges::binary_search(kFirstOrders, order); }

} // namespace

TEST_F(OldLedgers, GoOnWithWhatTheyHold) {
  write(1);
  auto ledger = world.open();
  ASSERT_NE(ledger, nullptr);
  privacy::Charge exact = charged(), held = spentOn(*ledger);
  EXPECT_EQ(held.delta, exact.delta);
  for (size_t k = 0; k < privacy::kOrders.size(); ++k) {
    if (isFirst(privacy::kOrders[k])) {
      EXPECT_EQ(held.rdp[k], exact.rdp[k]) << privacy::kOrders[k];
    } else {
      EXPECT_GE(held.rdp[k], exact.rdp[k]) << privacy::kOrders[k];
      EXPECT_LT(held.rdp[k], held.rdp[k + 1]) << privacy::kOrders[k];
    }
  }
  EXPECT_EQ((*ledger->accounts())[0].spent, held);
  auto sealed = ledger->retry("ada", "k", hashOf("k"));
  ASSERT_TRUE(sealed && *sealed);
  EXPECT_EQ((*sealed)->bytes, "bytes");
  EXPECT_EQ((*sealed)->hash, hashOf(fromHex(kFirstVersion[6]))) << "as its receipt says";
  EXPECT_EQ(sql("PRAGMA user_version"), 5) << "so that an earlier release refuses it by name";
  ASSERT_TRUE(ledger->verify());
  ASSERT_EQ(textOf(ledger->reserve(requestOf("new", 1000))), "");
  EXPECT_EQ(*ledger->overruns("ada", "people"), 0u);
  ASSERT_EQ(textOf(ledger->addOverruns("ada", "people", 3)), "");
  ledger.reset();
  ledger = world.open();
  ASSERT_NE(ledger, nullptr);
  EXPECT_EQ(*ledger->overruns("ada", "people"), 3u);
  EXPECT_EQ(spentOn(*ledger), held) << "what was reserved is void";
  auto report = ledger->verify();
  ASSERT_TRUE(report) << report.problem().text;
  EXPECT_EQ(report->publishes, 3u);
}

TEST_F(OldLedgers, OfTheSecondVersionGoOnAsTheThird) {
  write(2);
  // Charges that do not say whose table they are for are this owner's: nobody else's were charged then.
  SigningKey key = SigningKey::generate();
  auto ledger = world.open();
  ASSERT_NE(ledger, nullptr);
  EXPECT_EQ(spentOn(*ledger), charged()) << "at all orders";
  EXPECT_EQ((*ledger->accounts())[0].spent, charged());
  EXPECT_EQ(sql("PRAGMA user_version"), 5) << "so that an earlier release refuses it by name";
  auto sealed = ledger->retry("ada", "k", hashOf("k"));
  ASSERT_TRUE(sealed && *sealed);
  EXPECT_EQ((*sealed)->bytes, "bytes");
  EXPECT_EQ((*sealed)->hash, hashOf(fromHex(kSecondVersion[6]))) << "as its receipt says";
  EXPECT_EQ((*sealed)->request.items[0].owner, PublicKey{});
  ASSERT_TRUE(ledger->verify());
  ASSERT_EQ(textOf(ledger->reserve(requestOf("new", 1000, "ada", "people", key.publicKey()))), "");
  auto lines = ledger->entries(100);
  ASSERT_TRUE(lines);
  ASSERT_EQ(lines->size(), entries.size() + 1);
  for (const Listed &line : *lines) {
    EXPECT_EQ(line.entry.version, line.entry.seq <= entries.size() ? 2 : 3);
    if (line.entry.version == 2) {
      EXPECT_EQ(encode(line.entry), fromHex(entries[line.entry.seq - 1])) << line.entry.seq;
    }
  }
  EXPECT_EQ(std::get<Reserved>((*lines)[0].entry.body).items[0].owner, key.publicKey());
  ledger.reset();
  ledger = world.open();
  ASSERT_NE(ledger, nullptr);
  EXPECT_EQ(spentOn(*ledger), charged()) << "what was reserved is void";
  auto report = ledger->verify();
  ASSERT_TRUE(report) << report.problem().text;
  EXPECT_EQ(report->publishes, 3u);
}

TEST_F(OldLedgers, OfTheSecondVersionAreAskedAbout) {
  write(2);
  auto options = world.options();
  options.admits = [](const Grant &, const privacy::Charge &) { return false; };
  auto ledger = Ledger::open(options);
  ASSERT_TRUE(ledger) << "what was decided stands";
  auto report = (*ledger)->verify();
  ASSERT_FALSE(report) << "the orders are today's";
  EXPECT_NE(report.problem().text.find("damaged at entry 5"), std::string::npos) << report.problem().text;
}

TEST_F(OldLedgers, AreNotAskedAboutByAFilterOfOtherOrders) {
  write(1);
  auto options = world.options();
  options.admits = [](const Grant &, const privacy::Charge &) { return false; };
  auto ledger = Ledger::open(options);
  ASSERT_TRUE(ledger);
  auto report = (*ledger)->verify();
  EXPECT_TRUE(report) << report.problem().text;
}

TEST_F(OldLedgers, DamageIsFoundAsEver) {
  write(1);
  sql("UPDATE entries SET bytes = CAST(x'534a4c4504' || substr(bytes, 6) AS BLOB) WHERE seq = 5");
  auto ledger = Ledger::open(world.options());
  ASSERT_FALSE(ledger);
  EXPECT_NE(ledger.problem().text.find("damaged at entry 5: its bytes are not a valid entry"), std::string::npos)
      << ledger.problem().text;
}

TEST(Widened, ChargesAreBetweenTheExactOneAndTheNextOrder) {
  uint64_t seed = freshSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> logRate(-12, 0), logRho(-9, 5);
  for (int round = 0; round < 300; ++round) {
    double rho = std::exp(logRho(random));
    privacy::Charge exact = round % 3 == 0   ? privacy::pure(rho)
                            : round % 3 == 1 ? privacy::gaussian(rho)
                                             : privacy::sampledGaussian(std::exp(logRate(random)), rho);
    exact = (random() % 3000 + 1) * exact + privacy::gaussian(0.001);
    privacy::Charge wide = widened(narrowed(exact), 7);
    EXPECT_EQ(narrowed(wide), narrowed(exact));
    EXPECT_EQ(wide.delta, 7u);
    for (size_t k = 0; k < privacy::kOrders.size(); ++k) {
      // Rounding up hides less than a unit a release.
      EXPECT_GE(wide.rdp[k], exact.rdp[k] - std::min<uint64_t>(exact.rdp[k], 3001)) << privacy::kOrders[k];
      EXPECT_LE(wide.rdp[k], isFirst(privacy::kOrders[k]) ? exact.rdp[k] : wide.rdp[k + 1]);
    }
  }
}

TEST(Widened, WhatIsLostIsLost) {
  FirstCosts first{};
  first.back() = privacy::kLost;
  first.front() = 5;
  privacy::Charge wide = widened(first, 0);
  for (size_t k = 0; k < privacy::kOrders.size(); ++k) {
    EXPECT_EQ(wide.rdp[k] == privacy::kLost, privacy::kOrders[k] > 256) << privacy::kOrders[k];
  }
  EXPECT_EQ(wide.rdp.front(), 5u);
}

} // namespace sojourn::owner::ledger::test
