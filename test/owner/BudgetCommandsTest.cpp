// SPDX-License-Identifier: Apache-2.0
// The data owner's first minutes on the command line: import, client, cap, grant, ledger; and what each refuses.
#include "owner/Accounts.h"
#include "runtime/signing/SigningKey.h"
#include "test/owner/Support.h"

#include <filesystem>

namespace sojourn::owner::test {

namespace {

struct Commands : testing::Test {
  TemporaryFolder folder;
  std::string store = " --store " + folder.file("store");

  /// What a command that must end with this code prints.
  std::string run(const std::string &arguments, int code = 0) {
    auto [text, found] = tool(arguments + store);
    EXPECT_EQ(found, code) << arguments << ": " << text;
    return text;
  }
  void expect(const std::string &arguments, int code, const std::string &part) {
    std::string text = run(arguments, code);
    EXPECT_NE(text.find(part), std::string::npos) << arguments << ": '" << text << "' lacks '" << part << "'";
  }
  void import(const std::string &name, const std::string &more = "") {
    run("import " + folder.write("t.csv", "who,age\nx,20\ny,150\nz,30\n") + " --name " + name +
        " --policy private --bound age=0:120 --subject who" + more);
  }
  std::string keyOf(const std::string &name) {
    auto key = signing::SigningKey::makeClient(folder.file(name + ".key"));
    EXPECT_TRUE(key);
    return folder.file(name + ".key.pub");
  }
};

} // namespace

TEST_F(Commands, TellWhatTheyDo) {
  // A start of the tool takes half a second: one of each kind.
  for (const char *command :
       {"", "import", "defaults", "client", "client add", "budget grant", "ledger show", "key", "forgive-overruns"}) {
    auto [text, code] = tool(std::string(command) + " --help");
    EXPECT_EQ(code, 0) << command;
    EXPECT_NE(text.find("--help"), std::string::npos) << command;
  }
  for (const char *command :
       {"budget", "budget cap t --epsilon 1", "client add a", "ledger show --last 0", "forgive-overruns t"}) {
    EXPECT_EQ(tool(command).second, 2) << command;
  }
}

TEST_F(Commands, ImportAsksForBoundsAndSubjects) {
  std::string csv = folder.write("t.csv", "who,age,weight\n1,20,70\n2,30,80\n1,40,90\n");
  std::string import = "import " + csv + " --name t --policy private";
  expect(import + " --bound age=0:120 --bound weight=0:300 --bound who=0:9", 1, "(--rows-are-subjects)");
  expect(import + " --rows-are-subjects --bound age=0:120", 1, "2 of 3 have none: 'who', 'weight'");
  expect(import + " --subject who --bound age=0:120 --bound weight=0:300", 1, "rows 0 and 2 (counting from 0)");
  EXPECT_EQ(tool(import + " --subject who --rows-are-subjects" + store).second, 2);
  std::string bounds = folder.write("bounds.toml", "who = [0, 9]\nage = [0, 120]\nweight = [0, 300]\n");
  expect(import + " --rows-are-subjects --bounds " + bounds, 0, "each row is a subject, people of 't'");
  expect("datasets", 0, "defaults: noise multiplier 1, clip 1, metric bound 10");
}

TEST_F(Commands, FromImportToGrant) {
  import("visits", " --population patients");
  import("labs", " --population patients");
  expect("datasets", 0, "subjects by 'who', people of 'patients'");
  expect("client list", 0, "no clients yet");
  std::string pub = keyOf("ada");
  expect("client add ada --key " + folder.file("ada.key"), 1, "is the secret key of a client; ask for the public key");
  expect("client add ada --key " + folder.file("nothing"), 1, "cannot open");
  std::string owner = run("key");
  EXPECT_EQ(owner.size(), 65u);
  expect("client add ada --key " + pub, 0, "owner_key=\"" + owner.substr(0, 64) + "\"");
  expect("client add eve --key " + pub, 1, "this key already belongs to client 'ada'");
  expect("client list", 0, "ada");
  expect("budget grant ada visits --epsilon 1 --delta 1e-5", 1,
         "dataset 'visits' has no cap over all clients; set one first: sojourn-owner budget cap visits");
  expect("budget show", 0, "none");
  std::string cap = run("budget cap visits --epsilon 4 --delta 1e-5");
  EXPECT_NE(cap.find("patients  visits"), std::string::npos) << cap;
  expect("budget grant ada labs --epsilon 1.5 --delta 1e-6", 0, "labs     1.5      1e-06  0      1.5");
  expect(
      "budget grant ada labs --epsilon 5 --delta 1e-6", 1,
      "is above the cap on the people of 'patients' over all clients, epsilon 4 at delta 1e-05; grant less, or raise");
  expect("budget show labs", 0, "labs     1.5      1e-06  0      1.5");
  expect("budget grant bob labs --epsilon 1 --delta 1e-6", 1,
         "no client is named 'bob'; add it with: sojourn-owner client add bob");
  expect("budget show labs", 0, "visits, labs");
  expect("budget show nowhere", 1, "no dataset is named 'nowhere'");
  expect("budget revoke ada visits", 1, "client 'ada' has no grant on dataset 'visits'");
  expect("budget revoke ada labs", 0, "none");
  std::string ledger = run("ledger show");
  for (const char *part : {"client added", "dataset linked", "population 'patients', null_one", "cap set",
                           "epsilon 4, delta 1e-05", "grant set", "epsilon 0, delta 0"}) {
    EXPECT_NE(ledger.find(part), std::string::npos) << ledger;
  }
  EXPECT_LT(ledger.find("cap set"), ledger.find("grant set")) << "newest last";
  expect("ledger show --last 1", 0, "the newest 1; --last N shows more");
  expect("ledger show --client nobody", 0, "has no entry of client 'nobody'");
  expect("ledger verify", 0, "the ledger is intact: 6 entries in one chain, 0 releases and 0 runs");
}

TEST_F(Commands, RefusePricesThatAreNone) {
  import("t");
  run("client add ada --key " + keyOf("ada"));
  for (const char *epsilon : {"-1", "nan", "inf"}) {
    expect(std::string("budget cap t --delta 1e-5 --epsilon ") + epsilon, 1, "expected a number above 0 and at most");
  }
  for (const char *delta : {"0", "nan", "1"}) {
    expect(std::string("budget cap t --epsilon 1 --delta ") + delta, 1, "expected a number above 0 and below 1");
  }
  run("budget cap t --epsilon 1 --delta 1e-5");
  expect("budget grant ada t --epsilon 0 --delta 1e-5", 1, "epsilon is 0, expected");
}

TEST_F(Commands, DefaultsChangeWhatIsNamed) {
  import("t");
  EXPECT_EQ(run("defaults t --clip 1e-05"), "t: noise multiplier 1, clip 1e-05, metric bound 10\n");
  EXPECT_EQ(run("defaults t --clip 0.5"), "t: noise multiplier 1, clip 0.5, metric bound 10\n");
  expect("defaults t --noise-multiplier 1.25 --metric-bound 20", 0, "multiplier 1.25, clip 0.5, metric bound 20\n");
  expect("datasets", 0, "defaults: noise multiplier 1.25, clip 0.5, metric bound 20");
  expect("defaults t --clip nan", 1, "the clip is nan, expected a number from");
  expect("defaults t --noise-multiplier 0", 1, "the noise multiplier is 0, expected a number from");
  expect("defaults nowhere --clip 1", 1, "no dataset is named 'nowhere'");
}

TEST_F(Commands, WorkBesideARunningServer) {
  import("t");
  World world;
  world.store = folder.file("store");
  Owner serving(world.environment());
  run("client add ada --key " + keyOf("ada"));
  run("budget cap t --epsilon 2 --delta 1e-5");
  run("budget grant ada t --epsilon 1 --delta 1e-5");
  auto budget = serving.accounts().budget("ada", "t");
  ASSERT_TRUE(bool(budget));
  EXPECT_EQ(budget->epsilon, 1);
  EXPECT_EQ(run("key"), serving.key() + "\n");
  run("defaults t --clip 0.25");
  EXPECT_EQ(serving.dataset("t")->defaults.clip, 0.25);
  expect("ledger verify", 0, "the ledger is intact");
}

TEST_F(Commands, ForgiveOverruns) {
  import("patients");
  run("client add ada --key " + keyOf("ada"));
  run("budget cap patients --epsilon 2 --delta 1e-5");
  World world;
  world.store = folder.file("store");
  Owner serving(world.environment());
  Accounts &accounts = serving.accounts();
  auto check = [&](uint64_t most) { return llvm::toString(accounts.checkOverruns("ada", "patients", most)); };
  EXPECT_EQ(check(1), "");
  EXPECT_EQ(run("budget show").find("overruns"), std::string::npos);
  expect("forgive-overruns patients --client ada", 1, "client 'ada' has no overruns on dataset 'patients'");
  EXPECT_EQ(llvm::toString(accounts.addOverruns("ada", "patients", 99)), "");
  EXPECT_EQ(check(100), "");
  EXPECT_EQ(llvm::toString(accounts.addOverruns("ada", "patients", 1)), "");
  EXPECT_EQ(check(100), "private dataset 'patients' is closed to client 'ada': steps that took longer than their time "
                        "may have told it 100 bits about rows, and the limit is 100; the data owner opens it again "
                        "with: sojourn-owner forgive-overruns patients --client ada");
  EXPECT_NE(check(99), "");
  EXPECT_EQ(check(101), "");
  EXPECT_EQ(check(0), "") << "no limit";
  EXPECT_EQ(llvm::toString(accounts.checkOverruns("bob", "patients", 1)), "");
  for (const char *command : {"budget show", "budget show patients"}) { // beside no grant
    expect(command, 0, "no grants yet");
    expect(command, 0, "client  dataset   bits");
    expect(command, 0, "ada     patients  100");
  }
  run("budget grant ada patients --epsilon 1 --delta 1e-5");
  expect("budget show", 0, "ada     patients  100");
  expect("ledger show", 0, "99 bits");
  expect("forgive-overruns patients --client bob", 1, "no client is named 'bob'");
  expect("forgive-overruns nowhere --client ada", 1, "no private dataset is named 'nowhere'");
  EXPECT_EQ(run("forgive-overruns patients --client ada"),
            "overruns of client ada on patients are forgiven; they are counted from zero again\n");
  EXPECT_EQ(check(1), "") << "in the running server, too";
  EXPECT_EQ(run("budget show").find("overruns"), std::string::npos);
  expect("ledger show", 0, "overruns forgiven");
  expect("ledger verify", 0, "the ledger is intact");
}

TEST_F(Commands, ADamagedLedgerIsNamed) {
  import("t");
  run("budget cap t --epsilon 2 --delta 1e-5");
  std::filesystem::remove_all(folder.file("store/head"));
  for (const char *command : {"ledger verify", "budget show", "serve --listen inproc://x"}) {
    expect(command, 1, "sojourn-owner: ");
  }
}

} // namespace sojourn::owner::test
