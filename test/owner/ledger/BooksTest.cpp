// SPDX-License-Identifier: Apache-2.0
// Which entry may follow which: a history that no release wrote is refused whoever hashed and
// signed it, and a refused entry changes nothing.
#include "test/owner/ledger/Support.h"

namespace sojourn::owner::ledger::test {

namespace {

struct Histories : testing::Test {
  Books books{plainFilter};
  void SetUp() override {
    for (const Body &body : {Body(ClientAdded{"ada", ""}), Body(DatasetLinked{"people", "humans", Relation::nullOne}),
                             Body(CapSet{"humans", {1, 0.5}}), Body(GrantSet{"ada", "people", {1, 0.5}})}) {
      ASSERT_EQ(textOf(add(body)), "");
    }
  }
  Entry next(const Body &body) { return {books.seq + 1, books.seq + 1, books.hash, 0, body}; }
  Status add(const Entry &entry) { return books.apply(entry, hashOf(encode(entry))); }
  Status add(const Body &body) { return add(next(body)); }
  void expectRefused(const Entry &entry, const std::string &part) {
    auto populations = books.populations;
    auto accounts = books.accounts;
    auto overruns = books.overruns;
    uint64_t seq = books.seq;
    EXPECT_NE(textOf(add(entry)).find(part), std::string::npos)
        << kindName(entry.body) << ": '" << textOf(books.apply(entry, {})) << "'";
    EXPECT_EQ(books.seq, seq);
    EXPECT_EQ(books.populations, populations);
    EXPECT_EQ(books.accounts, accounts);
    EXPECT_EQ(books.overruns, overruns);
  }
  void expectRefused(const Body &body, const std::string &part) { expectRefused(next(body), part); }
  std::vector<Item> items(uint64_t units) { return {{"people", "v1", "humans", chargeOf(units)}}; }
  Reserved reserved(const std::string &key, uint64_t units) {
    return {"ada", key, "", hashOf(key), Relation::nullOne, items(units), {}, 1};
  }
  RunOpened opened(uint64_t steps, bool whole) {
    return {"ada", "", {}, Relation::nullOne, items(10), {}, steps, whole, 1};
  }
};

} // namespace

TEST_F(Histories, NumbersHashesAndBatchesFollowEachOther) {
  Entry entry = next(reserved("k", 1));
  entry.previous[7] ^= 1;
  expectRefused(entry, "does not follow entry 4");
  entry = next(reserved("k", 1));
  entry.seq += 1;
  expectRefused(entry, "does not follow entry 4");
  entry = next(reserved("k", 1));
  entry.batch = 2;
  expectRefused(entry, "batch 2 is neither its own nor the last one");
  entry.batch = 4;
  EXPECT_EQ(textOf(add(entry)), "");
  EXPECT_EQ(books.batch, 4u);
  EXPECT_EQ(books.seqBeforeBatch, 3u) << "both belong to one transaction";
}

TEST_F(Histories, OfAPublish) {
  ASSERT_EQ(textOf(add(reserved("k", 100))), "");
  expectRefused(reserved("k", 100), "was used by publish 5");
  for (const Body &body : {Body(Sealed{5, 0, {}}), Body(Delivered{5}), Body(Burnt{5, ""})}) {
    expectRefused(body, "publish 5 is reserved and cannot become");
  }
  expectRefused(Started{6}, "no publish has number 6");
  ASSERT_EQ(textOf(add(Started{5})), "");
  for (const Body &body : {Body(Started{5}), Body(Delivered{5}), Body(Voided{5, ""})}) {
    expectRefused(body, "publish 5 is started and cannot become");
  }
  ASSERT_EQ(textOf(add(Sealed{5, 0, {}})), "");
  for (const Body &body : {Body(Started{5}), Body(Sealed{5, 0, {}}), Body(Voided{5, ""}), Body(Burnt{5, ""})}) {
    expectRefused(body, "publish 5 is sealed and cannot become");
  }
  ASSERT_EQ(textOf(add(Delivered{5})), "");
  expectRefused(Delivered{5}, "is delivered");
  EXPECT_TRUE(books.live.empty());
}

TEST_F(Histories, OfNames) {
  Reserved other = reserved("k", 1);
  other.items[0].population = "people";
  expectRefused(other, "no private dataset is named 'people'");
  other = reserved("k", 1);
  other.items.push_back(other.items[0]);
  expectRefused(other, "reads dataset 'people' as two tables");
  other = reserved("k", 1);
  other.relation = Relation::replaceOne;
  expectRefused(other, "accounted under null_one");
  expectRefused(reserved("k", 1'000'001), "is spent");
  expectRefused(reserved(std::string(257, 'k'), 1), "has 257 bytes");
  expectRefused(ClientAdded{std::string(257, 'c'), ""}, "has 257 bytes");
  expectRefused(CapSet{"people", {1, 0}}, "no dataset has population 'people'");
}

TEST_F(Histories, OfARun) {
  expectRefused(opened(0, /*whole=*/true), "must declare its steps");
  expectRefused(opened(100'001, /*whole=*/false), "is spent");
  ASSERT_EQ(textOf(add(opened(10, /*whole=*/false))), "");
  expectRefused(BlockStarted{4, 1, {chargeOf(10)}}, "run 4 is not open");
  expectRefused(BlockStarted{5, 0, {chargeOf(10)}}, "a block needs steps");
  expectRefused(BlockStarted{5, 1, {}}, "one charge for each dataset");
  expectRefused(BlockStarted{5, 11, {chargeOf(10)}}, "plan has 10 steps and 0 are taken");
  expectRefused(BlockStarted{5, UINT64_MAX, {chargeOf(0)}}, "plan has 10 steps");
  expectRefused(BlockStarted{5, 2, {chargeOf(500'001)}}, "is spent");
  ASSERT_EQ(textOf(add(BlockStarted{5, 8, {chargeOf(10)}})), "");
  expectRefused(BlockStarted{5, 1, {chargeOf(10)}}, "has an open block");
  expectRefused(RunClosed{5, 0}, "has an open block");
  expectRefused(BlockEnded{6, 9, false}, "block 6 has 8 steps, not 9");
  expectRefused(BlockEnded{6, 7, true}, "block 6 has 8 steps, not 7");
  expectRefused(BlockEnded{5, 1, false}, "no open block has number 5");
  ASSERT_EQ(textOf(add(BlockEnded{6, 7, false})), "");
  EXPECT_EQ(books.populations["humans"].spent, 7 * chargeOf(10));
  expectRefused(BlockEnded{6, 7, false}, "no open block has number 6");
  expectRefused(BlockStarted{5, 4, {chargeOf(10)}}, "plan has 10 steps and 7 are taken");
  expectRefused(RunClosed{5, 8}, "took other steps than 8");
  ASSERT_EQ(textOf(add(RunClosed{5, 7})), "");
  expectRefused(RunClosed{5, 7}, "is not open");
  expectRefused(BlockStarted{5, 1, {chargeOf(10)}}, "is not open");
  ASSERT_EQ(textOf(add(opened(10, /*whole=*/true))), "");
  EXPECT_EQ(books.populations["humans"].spent, 17 * chargeOf(10));
  expectRefused(BlockStarted{books.seq, 2, {chargeOf(9)}}, "has one price");
}

TEST_F(Histories, OfOverruns) {
  expectRefused(OverrunsForgiven{"ada", "people"}, "client 'ada' has no overruns on dataset 'people'");
  for (uint64_t bits : {uint64_t{3}, uint64_t{4}}) {
    ASSERT_EQ(textOf(add(Overruns{"ada", "people", bits})), "");
  }
  const std::pair<std::string, std::string> names("ada", "people");
  EXPECT_EQ(books.overruns, (decltype(books.overruns){{names, 7}}));
  expectRefused(Overruns{"ada", "people", 0}, "overruns of 0 bits");
  expectRefused(Overruns{"bob", "people", 1}, "no client is named 'bob'");
  expectRefused(Overruns{"ada", "humans", 1}, "no private dataset is named 'humans'");
  expectRefused(OverrunsForgiven{"bob", "people"}, "no client is named 'bob'");
  expectRefused(OverrunsForgiven{"ada", "humans"}, "no private dataset is named 'humans'");
  ASSERT_EQ(textOf(add(DatasetRenamed{"people", "p"})), "");
  expectRefused(Overruns{"ada", "people", 1}, "no private dataset is named 'people'");
  ASSERT_EQ(textOf(add(OverrunsForgiven{"ada", "p"})), "");
  EXPECT_TRUE(books.overruns.empty());
  EXPECT_EQ(books.nameNow("people"), "p");
  EXPECT_EQ(books.nameNow("p"), "p");
  EXPECT_EQ(books.nameNow("other"), "other");
}

TEST_F(Histories, AGrantOfNothingAdmitsNothing) {
  ASSERT_EQ(textOf(add(GrantSet{"ada", "people", {0, 0.5}})), "");
  expectRefused(reserved("k", 0), "is spent");
  ASSERT_EQ(textOf(add(GrantSet{"ada", "people", {1, 0.5}})), "");
  ASSERT_EQ(textOf(add(CapSet{"humans", {0, 0.5}})), "");
  expectRefused(reserved("k", 0), "the cap over all clients");
}

TEST_F(Histories, WhatWasDecidedIsNotDecidedAgain) {
  Entry entry = next(reserved("k", 2'000'000));
  EXPECT_EQ(textOf(books.apply(entry, hashOf(encode(entry)), /*decided=*/true)), "");
  EXPECT_EQ(books.populations["humans"].spent, chargeOf(2'000'000));
  expectRefused(reserved("l", 0), "is spent");
}

TEST_F(Histories, WhatNoFilterAdmitsIsInNoHistory) {
  Reserved lost = reserved("k", 0);
  lost.items[0].charge.rdp.fill(privacy::kLost);
  Entry entry = next(lost);
  EXPECT_NE(textOf(books.apply(entry, hashOf(encode(entry)), /*decided=*/true)).find("is spent"), std::string::npos);
  lost.items[0].charge.rdp[0] = 0;
  entry = next(lost);
  EXPECT_EQ(textOf(books.apply(entry, hashOf(encode(entry)), /*decided=*/true)), "");
}

} // namespace sojourn::owner::ledger::test
