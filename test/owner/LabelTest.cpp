// SPDX-License-Identifier: Apache-2.0
// Labels as values, and policies that change under values computed before.
#include "owner/Accounts.h"
#include "owner/Store.h"
#include "test/owner/Support.h"

#include <sqlite3.h>

namespace sojourn::owner::test {

namespace {

Policy allOpen(const Source &) { return Policy::open; }
Policy allPrivate(const Source &) { return Policy::privateOnly; }

constexpr signing::PublicKey kOwn{1, 2}, kOther{0xab, 0xcd, 0xef, 1, 2, 3, 4, 5, 6};

LabelPtr labelOf(const std::string &name, const std::string &version = "1", const signing::PublicKey &owner = kOwn) {
  return Label::of({owner, name, version});
}

/// Of a program whose results depend on these arguments.
DependenceSummary unionOf(size_t arguments, const std::vector<std::vector<size_t>> &sets) {
  DependenceSummary::Graph graph{arguments, {}, {}, {}};
  for (const auto &set : sets) {
    graph.returned.push_back(static_cast<uint32_t>(arguments + graph.ends.size()));
    graph.sources.insert(graph.sources.end(), set.begin(), set.end());
    graph.ends.push_back(static_cast<uint32_t>(graph.sources.size()));
  }
  EXPECT_TRUE(graph.isValid());
  return DependenceSummary(std::move(graph));
}

/// Handle 1 holds all rows of column a of "t".
struct Policies : testing::Test {
  World world;
  TemporaryFolder folder;
  std::unique_ptr<Owner> owner;
  std::unique_ptr<Client> client;

  void open(Policy policy) {
    world.store = folder.file("store");
    owner = std::make_unique<Owner>(world.environment());
    client = std::make_unique<Client>(*owner);
    registerNumbers(*owner, "t", policy);
    StepRequest step;
    step.tables = {"t"};
    step.results = {1};
    ASSERT_EQ(client->run(readProgram(), step).error(), "");
  }
  Reply fetch(uint64_t id = 1) {
    StepRequest step;
    step.states = {id};
    return client->run(encode(moduleText("(%x: tensor<4x1xf32> {sojourn.kind = \"state\"}) -> (tensor<4x1xf32> "
                                         "{sojourn.result = \"publish\"})",
                                         "    return %x : tensor<4x1xf32>")),
                       step);
  }
  void expectRefused(const Reply &reply) {
    ASSERT_NE(reply.root->body_as_Error(), nullptr);
    EXPECT_EQ(reply.asError().code(), wire::ErrorCode_Refused) << reply.error();
    EXPECT_NE(reply.error().find("private dataset 't'"), std::string::npos) << reply.error();
    // The way out, for values that were kept from an earlier step.
    EXPECT_NE(reply.error().find("read the column again, table[...], in the step that publishes"), std::string::npos)
        << reply.error();
  }
  void sql(const char *statement) {
    sqlite3 *books = nullptr;
    ASSERT_EQ(sqlite3_open(folder.file("store/catalogue.db").c_str(), &books), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(books, statement, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(books);
    sqlite3_close(books);
  }
};

} // namespace

TEST(Labels, AudiencesAreTheCommonOnes) {
  const signing::PublicKey a{1}, b{2}, c{3};
  const LabelPtr any = labelOf("a"), ab = Label::within(labelOf("a"), {a, b}), bc = Label::within(labelOf("b"), {b, c});
  EXPECT_EQ(any->audience(), std::nullopt);
  EXPECT_EQ(ab->sources(), any->sources());
  EXPECT_EQ(ab->audience(), (std::set<signing::PublicKey>{a, b}));
  EXPECT_FALSE(any->covers(*ab));
  EXPECT_TRUE(ab->covers(*any));
  EXPECT_FALSE(*ab == *any);
  EXPECT_EQ(joinLabels(any, ab), ab);
  const LabelPtr both = joinLabels(ab, bc);
  EXPECT_EQ(both->audience(), (std::set<signing::PublicKey>{b}));
  EXPECT_EQ(both->sources(), (std::set<Source>{{kOwn, "a", "1"}, {kOwn, "b", "1"}}));
  EXPECT_EQ(*joinLabels(bc, ab), *both);
  EXPECT_TRUE(both->covers(*ab));
  EXPECT_FALSE(ab->covers(*both));
  EXPECT_EQ(Label::within(ab, {b, c})->audience(), (std::set<signing::PublicKey>{b}));
  EXPECT_EQ(Label::within(nullptr, {a}), nullptr);
  const LabelPtr none = Label::within(ab, {c});
  EXPECT_EQ(none->audience(), (std::set<signing::PublicKey>{})) << "nobody, which is not anybody";
  EXPECT_TRUE(none->covers(*ab));
  EXPECT_EQ(Label::released(any), Label::client());
  EXPECT_EQ(*Label::released(ab), *Label::within(Label::client(), {a, b}));
  EXPECT_EQ(*Label::released(nullptr), *Label::within(Label::client(), {}));
}

TEST(Labels, JoinAndCoverAndEquality) {
  LabelPtr own = Label::client(), a = labelOf("a"), b = labelOf("b"), newer = labelOf("a", "2");
  EXPECT_EQ(joinLabels(own, own), own);
  EXPECT_EQ(joinLabels(own, a), a) << "no new object where one covers the other";
  EXPECT_EQ(joinLabels(a, own), a);
  LabelPtr both = joinLabels(a, b);
  EXPECT_TRUE(both->covers(*a) && both->covers(*b) && both->covers(*own));
  EXPECT_FALSE(a->covers(*both));
  EXPECT_FALSE(a->covers(*newer)) << "a version is a source of its own";
  EXPECT_EQ(joinLabels(both, a), both);
  EXPECT_EQ(*joinLabels(b, a), *both);
  EXPECT_FALSE(*a == *newer);
  EXPECT_EQ(*labelOf("a"), *a);
  EXPECT_EQ(both->sources(), (std::set<Source>{{kOwn, "a", "1"}, {kOwn, "b", "1"}}));
}

TEST(Labels, EqualNamesAtTwoOwnersAreTwoSources) {
  LabelPtr mine = labelOf("a"), theirs = labelOf("a", "1", kOther);
  EXPECT_FALSE(*mine == *theirs);
  EXPECT_TRUE(*mine < *theirs || *theirs < *mine);
  EXPECT_FALSE(mine->covers(*theirs) || theirs->covers(*mine));
  LabelPtr both = joinLabels(mine, theirs);
  EXPECT_EQ(both->sources().size(), 2u);
  EXPECT_TRUE(both->covers(*mine) && both->covers(*theirs));
  EXPECT_EQ(*both, *joinLabels(theirs, mine));
  // One that keeps a value here does so for its owner's dataset alone, and is told from that of the same name.
  auto onlyMine = [](const Source &source) { return source.owner == kOwn ? Policy::open : Policy::privateOnly; };
  EXPECT_EQ(blockers(mine, kOwn, onlyMine), "");
  EXPECT_EQ(blockers(both, kOwn, onlyMine), "private dataset 'a' of owner abcdef0102030405...");
  EXPECT_EQ(blockers(both, kOwn, allPrivate), "private dataset 'a', 'a' of owner abcdef0102030405...");
  EXPECT_EQ(blockers(both, kOther, allPrivate), "private dataset 'a', 'a' of owner 0102000000000000...");
  // A result of arguments of both has both.
  auto labels = joinLabels({mine, theirs}, unionOf(2, {{0, 1}, {1}}));
  EXPECT_EQ(*labels[0], *both);
  EXPECT_EQ(*labels[1], *theirs);
}

TEST(Labels, NoLabelIsTheMostCarefulOne) {
  LabelPtr own = Label::client();
  EXPECT_EQ(joinLabels(own, nullptr), nullptr);
  EXPECT_EQ(joinLabels(nullptr, own), nullptr);
  EXPECT_EQ(joinLabels(nullptr, nullptr), nullptr);
  EXPECT_EQ(blockers(nullptr, kOwn, allOpen), "data of unknown origin");
  EXPECT_EQ(blockers(own, kOwn, allOpen), "");
}

TEST(Labels, OfResultsAreJoinedOverWhatTheyDependOn) {
  LabelPtr own = Label::client(), a = labelOf("a"), again = labelOf("a"), b = labelOf("b");
  std::vector<LabelPtr> arguments{own, a, again, b, nullptr};
  std::vector<std::vector<size_t>> sets{{}, {0}, {0, 1}, {2}, {1, 3}, {0, 1, 4}, {4}};
  auto labels = joinLabels(arguments, unionOf(arguments.size(), sets));
  ASSERT_EQ(labels.size(), sets.size());
  EXPECT_EQ(labels[0], own);
  EXPECT_EQ(labels[1], own);
  EXPECT_EQ(*labels[2], *a);
  EXPECT_EQ(*labels[3], *a);
  EXPECT_EQ(*labels[4], *joinLabels(a, b));
  EXPECT_EQ(labels[5], nullptr);
  EXPECT_EQ(labels[6], nullptr);
}

TEST(Labels, OfResultsAreJoinedAcrossWords) {
  // A word holds 64 distinct labels.
  std::vector<LabelPtr> arguments;
  for (int i = 0; i < 150; ++i) {
    arguments.push_back(labelOf("d" + std::to_string(i)));
  }
  arguments.push_back(nullptr);
  std::vector<std::vector<size_t>> sets{{0, 64, 149}, {63}, {128}, {}, {3, 150}};
  auto labels = joinLabels(arguments, unionOf(arguments.size(), sets));
  EXPECT_EQ(*labels[0], *joinLabels(joinLabels(arguments[0], arguments[64]), arguments[149]));
  EXPECT_EQ(*labels[1], *arguments[63]);
  EXPECT_EQ(*labels[2], *arguments[128]);
  EXPECT_EQ(labels[3], Label::client());
  EXPECT_EQ(labels[4], nullptr);
}

TEST(Labels, BlockersAskForThePresentPolicy) {
  LabelPtr both = joinLabels(labelOf("a"), labelOf("b"));
  auto open = [](std::string name) {
    return [name](const Source &source) { return source.name == name ? Policy::open : Policy::privateOnly; };
  };
  EXPECT_EQ(blockers(both, kOwn, allOpen), "");
  EXPECT_EQ(blockers(both, kOwn, open("a")), "private dataset 'b'");
  EXPECT_EQ(blockers(both, kOwn, open("")), "private dataset 'a', 'b'");
}

TEST_F(Policies, AChangeReachesOldHandles) {
  open(Policy::open);
  EXPECT_EQ(values<float>(fetch().published(0)), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(errorText(owner->setPolicy("t", Policy::privateOnly)), "");
  expectRefused(fetch());
  EXPECT_EQ(client->send(listDatasetsBytes()).root->body_as_Datasets()->datasets()->Get(0)->policy()->str(), "private");
  EXPECT_EQ(errorText(owner->setPolicy("t", Policy::open)), "");
  EXPECT_EQ(values<float>(fetch().published(0)), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(Policies, APrivateTableCanBeOpened) {
  open(Policy::privateOnly);
  expectRefused(fetch());
  EXPECT_EQ(errorText(owner->setPolicy("t", Policy::open)), "");
  EXPECT_EQ(values<float>(fetch().published(0)), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(Policies, AnotherProcessMayChangeThem) {
  open(Policy::open);
  {
    Owner tool(world.environment());
    EXPECT_EQ(errorText(tool.setPolicy("t", Policy::privateOnly)), "");
  }
  expectRefused(fetch());
}

TEST_F(Policies, WhatIsNotThereOrNotKnownIsPrivate) {
  open(Policy::open);
  sql("UPDATE datasets SET policy = 'by appointment'");
  expectRefused(fetch());
  sql("UPDATE datasets SET policy = 'open', version = 'other'");
  expectRefused(fetch());
  sql("DELETE FROM datasets");
  expectRefused(fetch());
}

TEST_F(Policies, OfAnotherOwnersDatasetNothingIsKnown) {
  world.store = folder.file("store");
  {
    Owner tool(world.environment());
    registerNumbers(tool, "t", Policy::open);
    EXPECT_EQ(errorText(tool.setDefaults("t", {2, 3, 4})), "");
  }
  Environment environment = world.environment();
  auto key = Accounts::openKey(environment);
  ASSERT_TRUE(bool(key)) << llvm::toString(key.takeError());
  auto store = Store::open(environment, key->publicKey(), testWorker());
  ASSERT_TRUE(bool(store)) << llvm::toString(store.takeError());
  auto loaded = (*store)->find("t");
  ASSERT_TRUE(loaded && *loaded);
  ASSERT_EQ((*loaded)->label->sources().size(), 1u);
  Source own = *(*loaded)->label->sources().begin();
  EXPECT_EQ(own, (Source{key->publicKey(), "t", (*loaded)->dataset->version()}));
  EXPECT_EQ(*(*store)->policy(own), Policy::open);
  EXPECT_EQ((*store)->defaults(own)->noiseMultiplier, 2);
  Source other = own;
  other.owner[31] ^= 1;
  EXPECT_EQ(*(*store)->policy(other), Policy::privateOnly);
  EXPECT_EQ((*store)->defaults(other)->noiseMultiplier, 1);
  other.owner = {};
  EXPECT_EQ(*(*store)->policy(other), Policy::privateOnly);
}

TEST_F(Policies, OfNoDataset) {
  open(Policy::open);
  EXPECT_NE(errorText(owner->setPolicy("nowhere", Policy::open)).find("no dataset is named 'nowhere'"),
            std::string::npos);
}

} // namespace sojourn::owner::test
