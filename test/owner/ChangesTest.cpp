// SPDX-License-Identifier: Apache-2.0
// Tables that get another name or other rows, or go; clients that go or get another key: live in all processes of a
// store, and never to the profit of a budget.
#include "owner/Accounts.h"
#include "test/owner/Support.h"

#include <filesystem>
#include <set>

namespace sojourn::owner::test {

namespace {

using signing::SigningKey;

struct Changes : testing::Test {
  World world, beside;
  TemporaryFolder folder;
  std::unique_ptr<Owner> owner, tool; ///< the server, and another process of the same store
  SigningKey ada = SigningKey::generate(), bob = SigningKey::generate();

  void SetUp() override {
    world.store = beside.store = folder.file("store");
    beside.random.seed(7);
    open();
    ASSERT_EQ(errorText(owner->addClient("ada", ada.publicKey())), "");
    ASSERT_EQ(errorText(owner->addClient("bob", bob.publicKey())), "");
    registerNumbers(*owner, "private", Policy::privateOnly);
    registerNumbers(*owner, "open", Policy::open);
    ASSERT_EQ(errorText(owner->setCap("private", 8, 1e-5)), "");
    for (const char *client : {"ada", "bob"}) {
      ASSERT_EQ(errorText(owner->grant(client, "private", 4, 1e-5)), "");
      ASSERT_EQ(errorText(owner->changeAccess("open", {client}, {})), "");
    }
  }
  void open() {
    tool.reset();
    owner.reset();
    owner = std::make_unique<Owner>(world.environment());
    tool = std::make_unique<Owner>(beside.environment());
    ASSERT_EQ(owner->status() + tool->status(), "");
  }
  static std::string version(Owner &of, const std::string &table) { return llvm::cantFail(of.dataset(table)).version; }
  static StepRequest on(const std::string &table, const std::string &version) {
    static uint64_t next = 1;
    StepRequest step;
    step.tables = {TableName(table.c_str(), version)};
    step.results = {next++};
    return step;
  }
  static StepRequest priced(const std::string &table, const std::string &version, double epsilon) {
    StepRequest step = on(table, version);
    step.results.clear();
    step.spending.releases = {{0, epsilon, 0}};
    return step;
  }
  /// Publishes a kept value of all rows of "a".
  static Reply publish(Client &client, uint64_t handle) {
    StepRequest step;
    step.states = {handle};
    return client.run(encode(moduleText("(%x: tensor<4x1xf32> {sojourn.kind = \"state\"}) -> (tensor<4x1xf32> "
                                        "{sojourn.result = \"publish\"})",
                                        "    return %x : tensor<4x1xf32>")),
                      step);
  }
  static llvm::Error replace(Owner &of, const std::string &name, double scale = 1) {
    double a[] = {5 * scale, 6 * scale, 7 * scale, 8 * scale};
    int64_t n[] = {1, 2, 3, 4};
    return of.replaceDataset(name, {"", {{"a", runtime::Element::f64, 4, a}, {"n", runtime::Element::i64, 4, n}}}, {});
  }
  double left(const std::string &client, const std::string &table) {
    return llvm::cantFail(owner->accounts().budget(client, table)).epsilonLeft;
  }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto &file : std::filesystem::directory_iterator(world.store + "/datasets")) {
      names.insert(file.path().filename().string());
    }
    return names;
  }
  static void has(const std::string &text, const std::string &part) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
  }
};

} // namespace

TEST_F(Changes, ARenamedTableIsFoundUnderItsNewNameWithItsBudget) {
  Client client = identified(*owner, ada);
  std::string then = version(*owner, "private");
  StepRequest kept = on("private", then);
  ASSERT_EQ(client.run(readProgram(), kept).error(), "");
  ASSERT_EQ(client.run(sumProgram(), priced("private", then, 1)).error(), "");
  const double rest = left("ada", "private");
  ASSERT_EQ(errorText(tool->renameDataset("private", "people")), "");
  EXPECT_EQ(client.run(sumProgram(), priced("private", then, 1)).error(),
            "Dataset: the data owner renamed table 'private' to 'people'; get it again with owner.dataset(\"people\") "
            "and record the step with it");
  Client local(*owner);
  has(local.run(readProgram(), on("private", then)).error(), "Dataset: the data owner renamed table 'private'");
  EXPECT_EQ(left("ada", "people"), rest);
  EXPECT_EQ(llvm::cantFail(owner->dataset("people")).population, "private") << "the cap is that of the same people";
  // Steps that use what was kept of it go on; it is as private as before, and access to it is by the new name.
  StepRequest later;
  later.states = kept.results;
  later.results = {1000};
  auto twice = encode(moduleText("(%x: tensor<4x1xf32> {sojourn.kind = \"state\"}) -> (tensor<4x1xf32> "
                                 "{sojourn.result = \"keep\"})",
                                 "    %y = sojourn.add %x, %x : tensor<4x1xf32>, tensor<4x1xf32>\n"
                                 "    return %y : tensor<4x1xf32>"));
  EXPECT_EQ(client.run(twice, later).error(), "");
  has(publish(client, 1000).error(), "Refused");
  ASSERT_EQ(errorText(tool->changeAccess("people", {}, {"ada"})), "");
  later.results = {1001};
  has(client.run(twice, later).error(), "has no access to table 'people', from which a value");
  has(client.run(readProgram(), on("private", then)).error(), "has no access to table 'private'");
  ASSERT_EQ(errorText(tool->changeAccess("people", {"ada"}, {})), "");
  EXPECT_EQ(client.run(sumProgram(), priced("people", then, 1)).error(), "");
  EXPECT_LT(left("ada", "people"), rest);
  auto report = owner->accounts().ledger().verify();
  ASSERT_TRUE(report) << report.problem().text;
  open();
  EXPECT_EQ(errorText(tool->dataset("private").takeError()),
            "no dataset is named 'private'; 'sojourn-owner datasets' lists all datasets");
}

TEST_F(Changes, ReplacedRowsAreAnotherVersionOnTheSameAccount) {
  Client client = identified(*owner, ada);
  std::string then = version(*owner, "private"), openThen = version(*owner, "open");
  StepRequest keptOpen = on("open", openThen), keptPrivate = on("private", then);
  ASSERT_EQ(client.run(readProgram(), keptOpen).error(), "");
  ASSERT_EQ(client.run(readProgram(), keptPrivate).error(), "");
  ASSERT_EQ(client.run(sumProgram(), priced("private", then, 1)).error(), "");
  const double rest = left("ada", "private");
  std::set<std::string> before = files();
  for (const char *name : {"private", "open"}) {
    ASSERT_EQ(errorText(replace(*tool, name)), "");
    EXPECT_NE(version(*owner, name), name == std::string("open") ? openThen : then);
  }
  for (const std::string &file : files()) {
    EXPECT_FALSE(before.count(file)) << "rows of before";
  }
  EXPECT_EQ(files().size(), 2u);
  has(client.run(sumProgram(), priced("private", then, 1)).error(),
      "Dataset: the data owner replaced the rows of table 'private'; get it again with owner.dataset(\"private\")");
  EXPECT_EQ(left("ada", "private"), rest);
  StepRequest sum = on("open", version(*owner, "open"));
  sum.results.clear();
  Reply reply = client.run(sumProgram(), sum);
  ASSERT_EQ(reply.error(), "");
  EXPECT_EQ(values<double>(reply.published(0)), std::vector<double>{26});
  // What was open stays so, as long as the table is.
  EXPECT_EQ(values<float>(publish(client, keptOpen.results[0]).published(0)), (std::vector<float>{1, 2, 3, 4}));
  has(publish(client, keptPrivate.results[0]).error(), "Refused");
  ASSERT_EQ(errorText(tool->setPolicy("private", Policy::open)), "");
  has(publish(client, keptPrivate.results[0]).error(), "Refused");
  ASSERT_EQ(errorText(tool->setPolicy("open", Policy::privateOnly)), "");
  has(publish(client, keptOpen.results[0]).error(), "Refused");
  ASSERT_EQ(errorText(tool->renameDataset("open", "other")), "");
  has(client.run(readProgram(), on("open", openThen)).error(),
      "replaced the rows of table 'open' and renamed it to 'other'");
  // A second replacement: both versions of before are known as such.
  ASSERT_EQ(errorText(replace(*tool, "private")), "");
  has(client.run(readProgram(), on("private", then)).error(), "replaced the rows of table 'private'");
}

TEST_F(Changes, AReplacementKeepsWhatWasDeclared) {
  ASSERT_EQ(errorText(replace(*owner, "private", 10)), "") << "values are clamped to the bounds of the first import";
  DatasetRecord record = llvm::cantFail(owner->dataset("private"));
  ASSERT_EQ(record.columns.size(), 2u);
  EXPECT_EQ(record.columns[0].bounds->upper, 10);
  EXPECT_EQ(record.subject, "");
  double a[] = {1};
  float b[] = {1};
  auto refused = [&](DatasetSource source, RegisterOptions options, const std::string &part) {
    std::set<std::string> before = files();
    has(errorText(owner->replaceDataset("private", source, options)), part);
    EXPECT_EQ(files(), before);
    EXPECT_EQ(version(*owner, "private"), record.version);
  };
  refused({"", {{"a", runtime::Element::f64, 1, a}}}, {}, "unknown column 'n' in the columns to keep");
  int64_t n[] = {1};
  refused({"", {{"a", runtime::Element::f32, 1, b}, {"n", runtime::Element::i64, 1, n}}}, {},
          "column 'a' of the new rows is f32, that of dataset 'private' is f64; convert the file");
  has(errorText(replace(*owner, "nowhere")), "no dataset is named 'nowhere'");
  RegisterOptions wider;
  wider.bounds = {{"a", {0, 20}}};
  ASSERT_EQ(errorText(owner->replaceDataset(
                "private", {"", {{"n", runtime::Element::i64, 1, n}, {"a", runtime::Element::f64, 1, a}}}, wider)),
            "");
  record = llvm::cantFail(owner->dataset("private"));
  EXPECT_EQ(record.columns[0].name, "a") << "in the order of before";
  EXPECT_EQ(record.columns[0].bounds->upper, 20);
  EXPECT_EQ(record.columns[1].bounds->upper, 100);
  EXPECT_EQ(record.rows, 1);
}

TEST_F(Changes, ARemovedTableIsGoneWithItsFiles) {
  Client client = identified(*owner, ada), local(*owner);
  std::string then = version(*owner, "private");
  StepRequest kept = on("private", then);
  ASSERT_EQ(client.run(readProgram(), kept).error(), "");
  ASSERT_EQ(client.run(sumProgram(), priced("private", then, 3)).error(), "");
  const double rest = left("ada", "private");
  ASSERT_EQ(errorText(tool->removeDataset("private")), "");
  EXPECT_EQ(files().size(), 1u);
  const std::string text = "Dataset: the data owner removed table 'private'; steps on it are refused";
  has(client.run(sumProgram(), priced("private", then, 0.1)).error(), text);
  has(local.run(readProgram(), on("private", then)).error(), text);
  StepRequest later;
  later.states = kept.results;
  later.results = {1000};
  has(publish(client, kept.results[0]).error(), text);
  has(client.run(readProgram(), on("private", "another")).error(), "Refused: client 'ada' has no access to table");
  EXPECT_EQ(left("ada", "private"), rest) << "in the books, where nobody can spend it";
  RegisterOptions options;
  options.name = "private";
  options.subject = "";
  options.bounds = {{"a", {0, 10}}};
  double a[] = {1, 2, 3, 4};
  DatasetSource source{"", {{"a", runtime::Element::f64, 4, a}}};
  has(errorText(owner->registerDataset(source, options)), "is the name of a dataset that was removed");
  has(errorText(owner->renameDataset("open", "private")), "'private' is a name of a dataset that was removed");
  options.continuesBudget = true;
  ASSERT_EQ(errorText(owner->registerDataset(source, options)), "");
  has(client.run(readProgram(), on("private", version(*owner, "private"))).error(), "has no access");
  EXPECT_NEAR(left("ada", "private"), rest, 1e-9);
  options.name = "new";
  has(errorText(owner->registerDataset(source, options)), "leave out --continue-budget");
  // Open tables without people have no budget, and their names are free again.
  ASSERT_EQ(errorText(tool->setPolicy("open", Policy::open)), "");
}

TEST_F(Changes, AStepThatHasNotPaidIsNotPaidFromARemovedTable) {
  Environment environment = world.environment();
  bool isFirst = true;
  environment.entering = [&](Phase phase) {
    if (phase == Phase::running && std::exchange(isFirst, false)) {
      EXPECT_EQ(errorText(tool->removeDataset("private")), "");
    }
  };
  owner = std::make_unique<Owner>(environment);
  Client client = identified(*owner, ada);
  has(client.run(sumProgram(), priced("private", version(*owner, "private"), 1)).error(),
      "dataset 'private' was removed by the data owner");
  EXPECT_FALSE(isFirst);
}

TEST_F(Changes, ARemovedClientGetsNothingMore) {
  Client client = identified(*owner, ada), other = identified(*owner, bob);
  StepRequest upload;
  upload.uploads = {f32({3}, {1, 2, 3})};
  upload.results = {7};
  ASSERT_EQ(client.run(keepProgram(), upload).error(), "");
  StepRequest sum = priced("private", version(*owner, "private"), 1);
  const std::string paid = client.request(sumProgram(), sum);
  ASSERT_EQ(client.send(paid).error(), "");
  EXPECT_EQ(client.send(paid).error(), "") << "a repetition is answered from memory";
  const size_t before = owner->liveSessions();
  ASSERT_EQ(errorText(tool->removeClient("ada")), "");
  const std::string text = "Session: the data owner removed client 'ada', so its sessions are over";
  has(client.send(watchBytes(client.session, false)).error(), text);
  for (const std::string &request :
       {paid, listDatasetsBytes(client.session), releaseBytes(client.session, {7}),
        uploadBytes(client.session, 1, 4, 0, "abcd"), watchBytes(client.session, true), byeBytes(client.session)}) {
    std::string error = client.send(request).error();
    EXPECT_TRUE(error.find(text) == 0 || error.find("Session: unknown session") == 0 ||
                request == byeBytes(client.session))
        << error;
  }
  EXPECT_EQ(owner->liveSessions(), before - 1);
  EXPECT_EQ(owner->liveHandles(), 0u);
  EXPECT_EQ(other.run(keepProgram(), upload).error(), "");
  EXPECT_TRUE(llvm::cantFail(owner->dataset("open")).access.clients == std::vector<std::string>{"bob"});
  has(errorText(owner->grant("ada", "private", 1, 1e-5)), "no client is named 'ada'");
  has(errorText(owner->changeAccess("open", {"ada"}, {})), "no client is named 'ada'");
  for (const char *name : {"ada", "eve", "local"}) {
    has(errorText(owner->addClient(name, ada.publicKey())),
        name == std::string("local") ? "data owner's own process" : "was removed");
  }
  has(errorText(owner->removeClient("local")), "data owner's own process, which is always there");
  ASSERT_EQ(errorText(owner->addClient("ada", ada.publicKey(), /*again=*/true)), "");
  EXPECT_EQ(left("ada", "private"), 0);
  ASSERT_EQ(errorText(owner->grant("ada", "private", 4, 1e-5)), "");
  EXPECT_NEAR(left("ada", "private"), 3, 1e-6);
  has(client.send(paid).error(), "Session: unknown session");
}

TEST_F(Changes, ARepetitionWithAnOldKeyGetsNothing) {
  Client client = identified(*owner, ada);
  const std::string paid = client.request(sumProgram(), priced("private", version(*owner, "private"), 1));
  Reply first = client.send(paid);
  ASSERT_EQ(first.error(), "");
  const double rest = left("ada", "private");
  const size_t before = owner->liveSessions();
  SigningKey fresh = SigningKey::generate();
  ASSERT_EQ(errorText(tool->accounts().changeKey("ada", fresh.publicKey())), "");
  has(client.send(paid).error(), "Session: the data owner gave client 'ada' another key, so the sessions of the last "
                                 "one are over");
  has(client.send(paid).error(), "Session: unknown session");
  EXPECT_EQ(owner->liveSessions(), before - 1);
  Client renewed = identified(*owner, fresh);
  EXPECT_EQ(left("ada", "private"), rest);
  EXPECT_EQ(renewed.run(sumProgram(), priced("private", version(*owner, "private"), 1)).error(), "");
  EXPECT_LT(left("ada", "private"), rest);
  has(errorText(tool->accounts().changeKey("local", ada.publicKey())), "which has no key");
}

TEST_F(Changes, AMessageEndsWhereItsKeyDoes) {
  Environment environment = world.environment();
  size_t runs = 0;
  environment.entering = [&](Phase phase) {
    if (phase == Phase::running && ++runs == 2) {
      EXPECT_EQ(errorText(tool->accounts().changeKey("ada", SigningKey::generate().publicKey())), "");
    }
  };
  owner = std::make_unique<Owner>(environment);
  Client client = identified(*owner, ada);
  StepRequest step = on("open", version(*owner, "open"));
  step.repetitions.resize(3);
  for (StepRequest &repetition : step.repetitions) {
    repetition.results = on("open", "").results;
  }
  Reply reply = client.run(readProgram(), step);
  ASSERT_EQ(reply.error(), "");
  EXPECT_EQ(reply.root->body_as_Done()->steps(), 2u);
  has(reply.root->body_as_Done()->failure()->message()->str(), "gave client 'ada' another key");
}

TEST_F(Changes, WhatAProcessDidNotFinishIsFinished) {
  // It ended between the ledger and the catalogue.
  ASSERT_EQ(tool->accounts().ledger().renameDataset("private", "people"), std::nullopt);
  open();
  EXPECT_EQ(llvm::cantFail(owner->dataset("people")).population, "private");
  Client client = identified(*owner, ada);
  EXPECT_EQ(client.run(sumProgram(), priced("people", version(*owner, "people"), 1)).error(), "");
  ASSERT_EQ(tool->accounts().ledger().removeDataset("people"), std::nullopt);
  open();
  Client again = identified(*owner, ada);
  has(again.run(sumProgram(), priced("people", version(*owner, "people"), 1)).error(), "was removed");
  EXPECT_EQ(files().size(), 2u) << "rows are deleted by a command alone";
  ASSERT_EQ(errorText(owner->removeDataset("people")), "");
  EXPECT_EQ(files().size(), 1u);
}

/// Every sequence of up to three of the data owner's commands, careless ones included. Afterwards each table has a cap
/// and each client a grant again; what was spent on the people is still spent.
TEST(FreshBudget, IsInNoSequenceOfCommands) {
  const SigningKey ada = SigningKey::generate();
  size_t sequences = 0, admitted = 0;
  for (size_t code = 0; code < 11 * 11 * 11; ++code) {
    World world;
    world.random.seed(code);
    Owner owner(world.environment());
    ASSERT_EQ(errorText(owner.addClient("ada", ada.publicKey())), "");
    registerNumbers(owner, "a", Policy::privateOnly);
    ASSERT_EQ(errorText(owner.setCap("a", 2, 1e-5)), "");
    ASSERT_EQ(errorText(owner.grant("ada", "a", 2, 1e-5)), "");
    ledger::ReserveRequest paid;
    paid.client = "ada";
    paid.key = "k";
    paid.items = {{"a", "v", "", privacy::Charge{}, owner.accounts().key().publicKey()}};
    for (uint64_t &order : paid.items[0].charge.rdp) {
      order = uint64_t{1} << 39; // well within the cap, and more than half of it
    }
    ASSERT_TRUE(bool(owner.accounts().payReleases(paid)));
    const double rest = llvm::cantFail(owner.accounts().budget("ada", "a")).epsilonLeft;
    ASSERT_LT(rest, 1.5);
    ASSERT_GT(rest, 0.01);
    std::string trace;
    auto again = [&](const char *name, bool continues) {
      double a[] = {1, 2, 3, 4};
      RegisterOptions options;
      options.name = name;
      options.subject = "";
      options.bounds = {{"a", {0, 10}}};
      options.continuesBudget = continues;
      return owner.registerDataset({"", {{"a", runtime::Element::f64, 4, a}}}, options);
    };
    for (size_t each = code, k = 0; k < 3; each /= 11, ++k) {
      llvm::Error error = llvm::Error::success();
      switch (each % 11) {
      case 0: error = owner.renameDataset("a", "b"); break;
      case 1: error = owner.renameDataset("b", "a"); break;
      case 2: error = owner.removeDataset("a"); break;
      case 3: error = owner.removeDataset("b"); break;
      case 4: error = again("a", false); break;
      case 5: error = again("a", true); break;
      case 6: error = again("b", true); break;
      case 7: error = owner.removeClient("ada"); break;
      case 8: error = owner.addClient("ada", SigningKey::generate().publicKey(), true); break;
      case 9: error = owner.accounts().changeKey("ada", SigningKey::generate().publicKey()); break;
      default: error = owner.setPolicy("a", Policy::open); break;
      }
      trace += std::to_string(each % 11) + (error ? " refused, " : " done, ");
      llvm::consumeError(std::move(error));
    }
    SCOPED_TRACE(trace);
    ++sequences;
    auto records = llvm::cantFail(owner.datasets());
    EXPECT_LE(records.size(), 1u) << "one set of people, one table";
    for (const DatasetRecord &record : records) {
      llvm::consumeError(owner.addClient("ada", SigningKey::generate().publicKey(), true));
      EXPECT_EQ(errorText(owner.setCap(record.name, 2, 1e-5)), "");
      EXPECT_EQ(errorText(owner.grant("ada", record.name, 2, 1e-5)), "");
      BudgetInfo info = llvm::cantFail(owner.accounts().budget("ada", record.name));
      EXPECT_NEAR(info.epsilonLeft, rest, 1e-9);
      ledger::ReserveRequest more = paid;
      more.key = "l";
      more.items[0].dataset = record.name;
      more.items[0].charge = 3 * more.items[0].charge;
      EXPECT_NE(errorText(owner.accounts().payReleases(more).takeError()).find("is spent up to"), std::string::npos);
      ++admitted;
    }
    EXPECT_TRUE(owner.accounts().ledger().verify());
  }
  EXPECT_EQ(sequences, 11u * 11 * 11);
  EXPECT_GT(admitted, 500u);
}

} // namespace sojourn::owner::test
