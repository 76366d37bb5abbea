// SPDX-License-Identifier: Apache-2.0
// Who may ask for a table: refused before anything is planned, proved or read, and live in all processes of a store.
#include "owner/Accounts.h"
#include "test/owner/Support.h"

#include <set>
#include <sqlite3.h>

namespace sojourn::owner::test {

namespace {

using signing::SigningKey;

struct AccessOfClients : testing::Test {
  World world;
  TemporaryFolder folder;
  std::unique_ptr<Owner> owner;
  std::map<std::string, SigningKey> keys;
  size_t planned = 0, ran = 0; ///< phases that the owner entered

  void SetUp() override {
    world.store = folder.file("store");
    open();
    for (const char *name : {"ada", "bob"}) {
      keys.emplace(name, SigningKey::generate());
      ASSERT_EQ(errorText(owner->accounts().addClient(name, keys.at(name).publicKey())), "");
    }
    registerNumbers(*owner, "private", Policy::privateOnly);
    registerNumbers(*owner, "open", Policy::open);
    ASSERT_EQ(errorText(owner->setCap("private", 8, 1e-5)), "");
  }
  void open() {
    owner.reset();
    Environment environment = world.environment();
    environment.entering = [this](Phase phase) { ++(phase == Phase::planning ? planned : ran); };
    owner = std::make_unique<Owner>(environment);
    ASSERT_EQ(owner->status(), "");
  }

  /// A session behind a transport; of nobody where `name` is empty.
  Client connect(const std::string &name) {
    if (name.empty()) {
      return Client(*owner, "test", Peer::client);
    }
    return identified(*owner, keys.at(name));
  }
  std::string version(const std::string &table) { return llvm::cantFail(owner->dataset(table)).version; }
  /// Reads all rows of a table and keeps them, by a message that no recorder writes without the table's description.
  StepRequest reading(const std::string &table) {
    static uint64_t next = 1;
    StepRequest step;
    auto record = owner->dataset(table);
    step.tables = {TableName(table.c_str(), record ? record->version : "00")};
    llvm::consumeError(record ? llvm::Error::success() : record.takeError());
    step.results = {next++};
    return step;
  }
  std::set<std::string> listed(const Client &client, bool withSession = true) {
    Reply reply(owner->handle(listDatasetsBytes(withSession ? client.session : 0), client.peer));
    std::set<std::string> names;
    for (const wire::Dataset *dataset : *reply.root->body_as_Datasets()->datasets()) {
      names.insert(dataset->name()->str());
    }
    return names;
  }
  double granted(const Client &client, const std::string &table) {
    flatbuffers::FlatBufferBuilder builder;
    auto name = builder.CreateString(table);
    Reply reply(owner->handle(
        finish(builder, wire::RequestBody_GetBudget, wire::CreateGetBudget(builder, client.session, name).Union()),
        client.peer));
    return reply.root->body_as_Budget()->epsilon();
  }
  /// Nothing was done for it.
  void expectRefused(Client &client, const StepRequest &step, const std::string &text,
                     const runtime::EncodedProgram &program = readProgram()) {
    size_t before = planned + ran;
    EXPECT_EQ(client.run(program, step).error(), text);
    EXPECT_EQ(planned + ran, before) << "something was planned or run";
  }
};

using Names = std::set<std::string>;

} // namespace

TEST_F(AccessOfClients, AStepIsRefusedBeforeAnythingIsDoneForIt) {
  Client nobody = connect(""), ada = connect("ada");
  for (const char *table : {"open", "private", "nowhere", ""}) {
    std::string name = table;
    expectRefused(nobody, reading(name),
                  "Refused: a client without an identity has no access to table '" + name +
                      "'; connect with sojourn.connect(address, identity=FILE), using an identity that the data owner "
                      "knows, and ask the data owner for: sojourn-owner access " +
                      (name.empty() ? "TABLE" : name) + " --add CLIENT");
    expectRefused(ada, reading(name),
                  "Refused: client 'ada' has no access to table '" + name +
                      "'; ask the data owner for: sojourn-owner access " + (name.empty() ? "TABLE" : name) +
                      " --add ada");
  }
  // A command that somebody may paste has no name that no table can have.
  for (const char *table : {"a;id", "$(id)", "a'b"}) {
    expectRefused(ada, reading(table),
                  std::string("Refused: client 'ada' has no access to table '") + table +
                      "'; ask the data owner for: sojourn-owner access TABLE --add ada");
  }
  // Strings of a message may share their bytes, so long ones are not copied.
  const std::string name(257, 'a');
  expectRefused(nobody, reading(name), "Malformed: table 0 has a name or version of 257 bytes, expected up to 256");
  StepRequest many = reading("open");
  many.tables.assign(65, many.tables[0]);
  expectRefused(nobody, many, "Malformed: the step binds 65 tables, a program has up to 64");
  // Bytes that are no program are not looked at.
  runtime::EncodedProgram wrong = readProgram();
  wrong.program = "no program";
  expectRefused(ada, reading("open"),
                "Refused: client 'ada' has no access to table 'open'; ask the data owner for: sojourn-owner access "
                "open --add ada",
                wrong);
  EXPECT_EQ(nobody.steps + ada.steps, 0u);
  // Those without tables need no access.
  StepRequest keep;
  keep.uploads = {f32({3}, {1, 2, 3})};
  keep.results = {99};
  EXPECT_EQ(nobody.run(keepProgram(), keep).error(), "");
}

TEST_F(AccessOfClients, AccessIsOfTheClientItWasGivenTo) {
  Client nobody = connect(""), ada = connect("ada"), bob = connect("bob");
  ASSERT_EQ(errorText(owner->changeAccess("open", {"ada"}, {})), "");
  EXPECT_EQ(ada.run(sumProgram(),
                    [&] {
                      StepRequest step = reading("open");
                      step.results.clear();
                      return step;
                    }())
                .error(),
            "");
  for (Client *other : {&nobody, &bob}) {
    EXPECT_NE(other->run(readProgram(), reading("open")).error().find("has no access to table 'open'"),
              std::string::npos);
  }
  EXPECT_EQ(listed(ada), Names{"open"});
  EXPECT_EQ(listed(ada, /*withSession=*/false), Names()) << "an older client is nobody";
  EXPECT_EQ(listed(bob), Names());
  EXPECT_EQ(listed(nobody), Names());
  ASSERT_EQ(errorText(owner->openToAnyone("open")), "");
  for (const Client *each : {&nobody, &ada, &bob}) {
    EXPECT_EQ(listed(*each), Names{"open"});
    EXPECT_EQ(listed(*each, /*withSession=*/false), Names{"open"});
  }
  EXPECT_EQ(nobody.run(readProgram(), reading("open")).error(), "");
  // What the data owner's own process sees does not change.
  Client local(*owner);
  EXPECT_EQ(listed(local), (Names{"open", "private"}));
  EXPECT_EQ(listed(local, /*withSession=*/false), (Names{"open", "private"}));
  EXPECT_EQ(local.run(readProgram(), reading("private")).error(), "");
}

TEST_F(AccessOfClients, APrivateTableNeedsAGrantWithARest) {
  Client nobody = connect(""), ada = connect("ada");
  ASSERT_EQ(errorText(owner->openToAnyone("private")), "");
  EXPECT_EQ(listed(nobody), Names{"private"});
  expectRefused(nobody, reading("private"),
                "Budget: private dataset 'private' needs a budget, and this connection has no identity: connect with "
                "sojourn.connect(address, identity=FILE), using an identity that the data owner has added and granted "
                "a budget");
  expectRefused(ada, reading("private"),
                "Budget: client 'ada' has no budget on private dataset 'private'; the data owner grants one: "
                "sojourn-owner budget grant ada private --epsilon E --delta D");
  ASSERT_EQ(errorText(owner->grant("ada", "private", 1, 1e-5)), "");
  EXPECT_EQ(ada.run(readProgram(), reading("private")).error(), "") << "a step that keeps rows costs nothing";
  StepRequest all = reading("private");
  all.results.clear();
  all.spending.releases = {{0, 1, 0}};
  EXPECT_EQ(ada.run(sumProgram(), all).error(), "");
  EXPECT_LT(llvm::cantFail(owner->accounts().budget("ada", "private")).epsilonLeft, 1e-6);
  expectRefused(ada, reading("private"),
                "Budget: the budget of client 'ada' on dataset 'private', epsilon 1 at delta "
                "1e-05, is spent");
  ASSERT_EQ(errorText(owner->grant("ada", "private", 2, 1e-5)), "");
  EXPECT_EQ(ada.run(readProgram(), reading("private")).error(), "");
  // The cap over all clients is a part of every grant.
  registerNumbers(*owner, "common", Policy::privateOnly);
  ASSERT_EQ(errorText(owner->setCap("common", 1, 1e-5)), "");
  for (const char *name : {"ada", "bob"}) {
    ASSERT_EQ(errorText(owner->grant(name, "common", 1, 1e-5)), "");
  }
  all.tables = reading("common").tables;
  EXPECT_EQ(ada.run(sumProgram(), all).error(), "");
  Client bob = connect("bob");
  expectRefused(bob, reading("common"),
                "Budget: the cap on the people of 'common' over all clients, epsilon 1 at delta 1e-05, is spent");
}

TEST_F(AccessOfClients, WhatIsWithdrawnIsGoneAtOnce) {
  ASSERT_EQ(errorText(owner->grant("ada", "private", 4, 1e-5)), "");
  Client ada = connect("ada");
  EXPECT_EQ(listed(ada), Names{"private"}) << "a grant gives access";
  EXPECT_EQ(granted(ada, "private"), 4);
  StepRequest first = reading("private");
  ASSERT_EQ(ada.run(readProgram(), first).error(), "");
  // By another process of the same store.
  World beside;
  beside.store = world.store;
  beside.random.seed(7);
  Owner tool(beside.environment());
  ASSERT_EQ(errorText(tool.changeAccess("private", {}, {"ada"})), "");
  EXPECT_EQ(listed(ada), Names());
  EXPECT_EQ(granted(ada, "private"), 0) << "nor is its budget told";
  std::string text = "Refused: client 'ada' has no access to table 'private'";
  std::string asks = "; ask the data owner for: sojourn-owner access private --add ada";
  expectRefused(ada, reading("private"), text + asks);
  // Nor a program that the owner holds, by its hash alone, nor what was kept before.
  runtime::EncodedProgram known = readProgram();
  known.program.clear();
  expectRefused(ada, reading("private"), text + asks, known);
  auto twice = encode(moduleText("(%x: tensor<4x1xf32> {sojourn.kind = \"state\"}) -> (tensor<4x1xf32> "
                                 "{sojourn.result = \"keep\"})",
                                 "    %y = sojourn.add %x, %x : tensor<4x1xf32>, tensor<4x1xf32>\n"
                                 "    return %y : tensor<4x1xf32>"));
  StepRequest later;
  later.states = first.results;
  later.results = {1000};
  expectRefused(ada, later, text + ", from which a value that this step uses was computed" + asks, twice);
  ASSERT_EQ(errorText(tool.changeAccess("private", {"ada"}, {})), "");
  EXPECT_EQ(ada.run(twice, later).error(), "");
  ASSERT_EQ(errorText(tool.revoke("ada", "private")), "");
  expectRefused(ada, reading("private"), text + asks);
  EXPECT_EQ(ada.send(releaseBytes(ada.session, first.results)).error(), "");
}

TEST_F(AccessOfClients, WithdrawnWhileAMessageRunsItEndsThere) {
  ASSERT_EQ(errorText(owner->changeAccess("open", {"ada"}, {})), "");
  Environment environment = world.environment();
  size_t runs = 0;
  World beside;
  beside.store = world.store;
  beside.random.seed(7);
  Owner tool(beside.environment());
  environment.entering = [&](Phase phase) {
    if (phase == Phase::running && ++runs == 2) {
      EXPECT_EQ(errorText(tool.setAccess("open", {})), "");
    }
  };
  owner = std::make_unique<Owner>(environment);
  Client ada = connect("ada");
  StepRequest step = reading("open");
  step.repetitions.resize(3);
  for (StepRequest &repetition : step.repetitions) {
    repetition.results = reading("open").results;
  }
  Reply reply = ada.run(readProgram(), step);
  ASSERT_EQ(reply.error(), "");
  EXPECT_EQ(reply.root->body_as_Done()->steps(), 2u);
  EXPECT_NE(reply.root->body_as_Done()->failure()->message()->str().find("has no access to table 'open'"),
            std::string::npos);
}

TEST_F(AccessOfClients, ChangesNameWhatIsWrong) {
  auto expect = [](llvm::Error error, const std::string &part) {
    std::string text = errorText(std::move(error));
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(owner->changeAccess("open", {"ada", "eve"}, {}), "no client is named 'eve'; add it with: sojourn-owner client "
                                                          "add eve --key FILE.pub");
  EXPECT_TRUE(llvm::cantFail(owner->dataset("open")).access.clients.empty()) << "all or nothing";
  expect(owner->setAccess("open", {false, {"local"}}), "'local' is the data owner's own process");
  expect(owner->setAccess("nowhere", {}), "no dataset is named 'nowhere'");
  expect(owner->openToAnyone("nowhere"), "no dataset is named 'nowhere'");
  expect(owner->changeAccess("open", {}, {"bob"}), "client 'bob' has no access to table 'open' by its name");
  ASSERT_EQ(errorText(owner->setAccess("open", {false, {"bob", "ada"}})), "");
  EXPECT_EQ(llvm::cantFail(owner->dataset("open")).access.clients, (std::vector<std::string>{"ada", "bob"}));
  ASSERT_EQ(errorText(owner->setAccess("open", {false, {"bob"}})), "");
  EXPECT_EQ(llvm::cantFail(owner->dataset("open")).access.clients, std::vector<std::string>{"bob"});
}

/// A store of a release that knew no access.
TEST_F(AccessOfClients, TablesOfBeforeKeepTheAccessTheyHad) {
  registerNumbers(*owner, "unknown", Policy::privateOnly);
  ASSERT_EQ(errorText(owner->grant("ada", "private", 4, 1e-5)), "");
  ASSERT_EQ(errorText(owner->grant("bob", "private", 4, 1e-5)), "");
  ASSERT_EQ(errorText(owner->accounts().revoke("bob", "private")), "");
  owner.reset();
  sqlite3 *books = nullptr;
  ASSERT_EQ(sqlite3_open((world.store + "/catalogue.db").c_str(), &books), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(books, "DROP TABLE access", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(books);
  for (int life = 0; life < 2; ++life) {
    open();
    EXPECT_EQ(listed(connect("ada")), (Names{"open", "private"}));
    EXPECT_EQ(listed(connect("bob")), Names{"open"}) << "its grant was taken away";
    EXPECT_EQ(listed(connect("")), Names{"open"});
    Client ada = connect("ada");
    EXPECT_EQ(ada.run(readProgram(), reading("private")).error(), "");
  }
  registerNumbers(*owner, "new", Policy::open);
  EXPECT_EQ(listed(connect("ada")), (Names{"open", "private"})) << "new tables are closed";
}

/// What is known of a program that others have sent is not seen in the time of a reply: it is planned and proved as a
/// new one, in each session.
TEST_F(AccessOfClients, ProgramsOfOthersTakeAsLongAsNewOnes) {
  for (const char *name : {"ada", "bob"}) {
    ASSERT_EQ(errorText(owner->setAccess("private", {false, {"ada", "bob"}})), "");
    ASSERT_EQ(errorText(owner->grant(name, "private", 4, 5e-6)), "");
  }
  int planned = 0, proved = 0;
  std::vector<Client> clients;
  owner.reset();
  Environment environment = world.environment();
  environment.entering = [&](Phase phase) {
    planned += phase == Phase::planning ? 1 : 0;
    proved += phase == Phase::proving ? 1 : 0;
  };
  owner = std::make_unique<Owner>(environment);
  auto run = [&](Client &client) {
    StepRequest step;
    step.tables = {TableName("private", version("private"))};
    step.spending.releases = {{.epsilon = 0.1, .delta = 1e-8}};
    EXPECT_EQ(client.run(sumProgram(), step).error(), "");
    return std::pair(std::exchange(planned, 0), std::exchange(proved, 0));
  };
  for (const char *name : {"ada", "ada", "bob"}) {
    clients.push_back(connect(name));
    EXPECT_EQ(run(clients.back()), std::pair(1, 1)) << "the first time, by " << name;
  }
  for (Client &client : clients) {
    EXPECT_EQ(run(client), std::pair(0, 0)) << "each knows its own";
  }
  Client local(*owner);
  StepRequest step;
  step.tables = {TableName("open", version("open"))};
  EXPECT_EQ(local.run(sumProgram(), step).error(), "");
  EXPECT_EQ(planned, 0) << "the data owner's own process sees all programs anyway";
}

} // namespace sojourn::owner::test
