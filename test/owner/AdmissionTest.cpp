// SPDX-License-Identifier: Apache-2.0
// What a step may cost before it runs: no statement of a database, as long as nobody writes. And what anyone writes
// holds for the next request all the same.
#include "owner/Accounts.h"
#include "test/owner/Support.h"

#include <atomic>
#include <set>
#include <sqlite3.h>

namespace sojourn::owner::test {

namespace {

using signing::SigningKey;

/// Statements of all connections of this process that are opened while it lives; not the look at moved entries of the
/// log, ten times a second.
class Statements {
public:
  Statements() { sqlite3_auto_extension(reinterpret_cast<void (*)()>(&attach)); }
  ~Statements() { sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(&attach)); }
  static size_t since() { return count.exchange(0); }

private:
  static int attach(sqlite3 *database, const char **, const void *) {
    return sqlite3_trace_v2(database, SQLITE_TRACE_STMT, &note, nullptr);
  }
  static int note(unsigned, void *, void *, void *text) {
    count += std::string_view(static_cast<const char *>(text)).find("log_state") == std::string_view::npos;
    return 0;
  }
  static inline std::atomic<size_t> count = 0;
};

struct Admission : testing::Test {
  World world;
  TemporaryFolder folder;
  Statements statements;
  std::unique_ptr<Owner> owner;
  SigningKey key = SigningKey::generate();

  void SetUp() override {
    world.store = folder.file("store");
    owner = std::make_unique<Owner>(world.environment());
    ASSERT_EQ(owner->status(), "");
    ASSERT_EQ(errorText(owner->accounts().addClient("ada", key.publicKey())), "");
    registerNumbers(*owner, "open", Policy::open);
    registerNumbers(*owner, "private", Policy::privateOnly);
    ASSERT_EQ(errorText(owner->changeAccess("open", {"ada"}, {})), "");
    ASSERT_EQ(errorText(owner->setCap("private", 1e5, 1e-5)), "");
    ASSERT_EQ(errorText(owner->grant("ada", "private", 1e5, 1e-5)), "");
  }
  StepRequest reading(const std::string &table) {
    StepRequest step;
    step.tables = {TableName(table.c_str(), llvm::cantFail(owner->dataset(table)).version)};
    if (table == "private") {
      step.spending.run = 1;
      step.spending.steps = 10'000;
      step.spending.noiseMultiplier = 100;
    }
    return step;
  }
  static std::set<std::string> listed(Client &client, bool withSession) {
    Reply reply = client.send(listDatasetsBytes(withSession ? client.session : 0));
    std::set<std::string> names;
    for (const wire::Dataset *dataset : *reply.root->body_as_Datasets()->datasets()) {
      names.insert(dataset->name()->str());
    }
    return names;
  }
};

} // namespace

TEST_F(Admission, AsksNoDatabase) {
  Client ada = identified(*owner, key);
  for (const char *table : {"open", "private"}) {
    const StepRequest step = reading(table);
    for (int round = 0; round < 3; ++round) { // the program is logged, the run is paid for
      ASSERT_EQ(ada.run(sumProgram(), step).error(), "");
    }
    Statements::since();
    for (int round = 0; round < 40; ++round) {
      ASSERT_EQ(ada.run(sumProgram(), step).error(), "");
    }
    EXPECT_EQ(Statements::since(), 0u) << table;
  }
}

TEST_F(Admission, ListsAreReadOnce) {
  Client ada = identified(*owner, key), nobody(*owner, "test", Peer::client);
  for (bool withSession : {true, false}) {
    listed(ada, withSession);
    Statements::since();
    for (int round = 0; round < 20; ++round) {
      EXPECT_EQ(listed(ada, withSession),
                withSession ? (std::set<std::string>{"open", "private"}) : std::set<std::string>());
      EXPECT_EQ(listed(nobody, withSession), std::set<std::string>());
    }
    EXPECT_EQ(Statements::since(), 0u);
  }
}

/// Programs are logged, which is a write. Columns and categories of no table are read again for it.
TEST_F(Admission, ListsAreMadeAnewWhereATableHasChanged) {
  Client ada = identified(*owner, key), nobody(*owner, "test", Peer::client);
  EXPECT_EQ(listed(ada, true), (std::set<std::string>{"open", "private"}));
  StepRequest keep;
  keep.uploads = {f32({3}, {1, 2, 3})};
  keep.results = {1};
  ASSERT_EQ(nobody.run(keepProgram(), keep).error(), "");
  Statements::since();
  EXPECT_EQ(listed(ada, true), (std::set<std::string>{"open", "private"}));
  EXPECT_LE(Statements::since(), 3u); // with their columns and access 6
  EXPECT_EQ(listed(ada, true), (std::set<std::string>{"open", "private"}));
  EXPECT_EQ(Statements::since(), 0u);
}

/// By this owner, and by another process's: one of its own on the same store.
TEST_F(Admission, ChangesHoldForTheNextRequest) {
  auto other = std::make_unique<Owner>(world.environment());
  ASSERT_EQ(other->status(), "");
  Client ada = identified(*owner, key);
  const StepRequest step = reading("open");
  for (Owner *by : {owner.get(), other.get(), owner.get(), other.get()}) {
    ASSERT_EQ(ada.run(sumProgram(), step).error(), "");
    EXPECT_EQ(listed(ada, true), (std::set<std::string>{"open", "private"}));
    ASSERT_EQ(errorText(by->changeAccess("open", {}, {"ada"})), "");
    EXPECT_NE(ada.run(sumProgram(), step).error().find("has no access to table 'open'"), std::string::npos);
    EXPECT_EQ(listed(ada, true), std::set<std::string>{"private"});
    ASSERT_EQ(errorText(by->changeAccess("open", {"ada"}, {})), "");
    ASSERT_EQ(ada.run(sumProgram(), step).error(), "");
    // What may be done with a value is looked up anew, too.
    ASSERT_EQ(errorText(by->setPolicy("open", Policy::privateOnly)), "");
    EXPECT_NE(ada.run(sumProgram(), step).error(), "");
    ASSERT_EQ(errorText(by->setPolicy("open", Policy::open)), "");
  }
  // A key that is changed ends its sessions.
  ASSERT_EQ(ada.run(sumProgram(), step).error(), "");
  ASSERT_EQ(errorText(other->accounts().changeKey("ada", SigningKey::generate().publicKey())), "");
  EXPECT_NE(ada.run(sumProgram(), step).error().find("another key"), std::string::npos);
}

} // namespace sojourn::owner::test
