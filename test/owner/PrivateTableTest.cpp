// SPDX-License-Identifier: Apache-2.0
// What a table needs to be private: bounds, subjects, people; the data owner's defaults; books of older releases.
#include "owner/Accounts.h"
#include "owner/Import.h"
#include "owner/PlanCache.h"
#include "test/owner/Support.h"

#include <arrow/api.h>
#include <cmath>
#include <filesystem>
#include <sqlite3.h>

namespace sojourn::owner::test {

using runtime::Element;

namespace {

struct PrivateTables : testing::Test {
  World world;
  TemporaryFolder folder;
  std::unique_ptr<Owner> owner;
  void SetUp() override {
    world.store = folder.file("store");
    owner = std::make_unique<Owner>(world.environment());
    ASSERT_EQ(owner->status(), "");
  }

  static RegisterOptions options(const std::string &name = "t") {
    RegisterOptions with;
    with.name = name;
    with.bounds = {{"a", {0, 9}}};
    with.subject = "";
    return with;
  }
  std::string add(const std::string &csv, const RegisterOptions &with) {
    return errorText(owner->registerDataset({folder.write("t.csv", csv), {}}, with));
  }
  DatasetRecord record(const std::string &name = "t") {
    auto found = owner->dataset(name);
    EXPECT_TRUE(bool(found)) << llvm::toString(found.takeError());
    return found ? std::move(*found) : DatasetRecord{};
  }
};

void expectHas(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

} // namespace

TEST_F(PrivateTables, NeedBoundsOfEveryColumn) {
  std::string csv = "a,b,c,flag\n1,2,3,true\n4,5,6,false\n";
  std::string text = add(csv, options());
  expectHas(text, "2 of 4 have none: 'b', 'c'. Declare them (bounds, --bound COLUMN=LOWER:UPPER");
  EXPECT_TRUE(owner->datasets()->empty());
  EXPECT_TRUE(std::filesystem::is_empty(world.store + "/datasets"));
  auto with = options();
  with.bounds["b"] = with.bounds["c"] = {0, 5};
  EXPECT_EQ(add(csv, with), "");
  // A boolean has the bounds of its type.
  ASSERT_TRUE(record().columns[3].bounds);
  EXPECT_EQ(record().columns[3].bounds->upper, 1);
  with = options("few");
  with.columns = {"a"};
  EXPECT_EQ(add(csv, with), "") << "columns that are left out need none";
  with.name = "open";
  with.columns.clear();
  with.policy = Policy::open;
  EXPECT_EQ(add(csv, with), "");
  expectHas(errorText(owner->setPolicy("open", Policy::privateOnly)), "2 of 4 have none: 'b', 'c'");
  EXPECT_EQ(record("open").policy, Policy::open);
}

TEST_F(PrivateTables, ManyColumnsWithoutBoundsAreCounted) {
  std::string head, row;
  for (int column = 0; column < 30; ++column) {
    head += (column ? ",c" : "c") + std::to_string(column);
    row += column ? ",1" : "1";
  }
  auto with = options();
  with.bounds.clear();
  std::string text = add(head + "\n" + row + "\n", with);
  expectHas(text, "30 of 30 have none: 'c0', 'c1'");
  expectHas(text, "'c19', ...");
  EXPECT_EQ(text.find("'c20'"), std::string::npos);
}

TEST_F(PrivateTables, NeedSomebodyToProtect) {
  auto with = options();
  with.subject.reset();
  expectHas(
      add("a\n1\n", with),
      "none are declared: say that each row is one (--rows-are-subjects), or name their column (--subject COLUMN)");
  with.policy = Policy::open;
  EXPECT_EQ(add("a\n1\n", with), "");
  EXPECT_FALSE(record().subject);
  expectHas(errorText(owner->setPolicy("t", Policy::privateOnly)), "add --rows-are-subjects");
  EXPECT_EQ(errorText(owner->setPolicy("t", Policy::privateOnly, /*rowsAreSubjects=*/true)), "");
  EXPECT_EQ(record().subject, std::optional<std::string>(""));
  EXPECT_EQ(record().policy, Policy::privateOnly);
}

TEST_F(PrivateTables, ASubjectHasOneRow) {
  auto with = options();
  with.subject = "who";
  for (std::string csv : {"who,a\n7,1\n8,2\n7,3\n", "who,a\nada,1\nbob,2\nada,3\n"}) {
    std::string text = add(csv, with);
    expectHas(text, "rows 0 and 2 (counting from 0) have the same subject in column 'who'");
    EXPECT_EQ(text.find("ada"), std::string::npos) << "a value of the table";
  }
  expectHas(add("who,a\nada,1\n,2\n", with), "row 1 (counting from 0) has no subject in column 'who'");
  expectHas(add("who,a\n1,1\n,2\n", with), "row 1 (counting from 0) has no subject in column 'who'");
  expectHas(add("who,a\n1.5,1\n2.5,2\n", with), "expected whole numbers or texts as subjects");
  with.subject = "whom";
  expectHas(add("who,a\n1,1\n2,2\n", with), "unknown column 'whom' for the subject of each row");
  EXPECT_TRUE(owner->datasets()->empty());
  with.subject = "who";
  EXPECT_EQ(add("who,a\nada,1\nbob,2\n", with), "");
  // Who it is stays with the data owner: no column, no bounds asked for.
  ASSERT_EQ(record().columns.size(), 1u);
  EXPECT_EQ(record().columns[0].name, "a");
  EXPECT_EQ(record().subject, std::optional<std::string>("who"));
  // Bounds of the column, as in one file for all, do no harm: subjects are told apart before anything is clamped.
  with = options("clamped");
  with.subject = "who";
  with.bounds["who"] = {0, 1};
  with.columns = {"who", "a"};
  EXPECT_EQ(add("who,a\n5,1\n6,2\n", with), "");
}

TEST_F(PrivateTables, SubjectsOfEveryTypeAreCompared) {
  std::mt19937_64 random = world.random;
  for (Element element : {Element::u8, Element::i8, Element::i16, Element::i32, Element::i64}) {
    std::vector<int64_t> numbers(100), memory(100);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::shuffle(numbers.begin(), numbers.end(), random);
    std::vector<double> a(100, 1.0);
    for (bool isTwice : {false, true}) {
      numbers[17] = isTwice ? numbers[83] : numbers[17];
      runtime::convertElements(Element::i64, numbers.data(), element, memory.data(), 100);
      DatasetSource source{"", {{"who", element, 100, memory.data()}, {"a", Element::f64, 100, a.data()}}};
      auto with = options("t" + std::to_string(static_cast<int>(element)) + (isTwice ? "twice" : ""));
      with.subject = "who";
      std::string text = errorText(owner->registerDataset(source, with));
      EXPECT_EQ(text.empty(), !isTwice) << text;
      expectHas(text, isTwice ? "rows 17 and 83" : "");
    }
  }
}

TEST_F(PrivateTables, OfOnePopulationHaveOneCap) {
  auto with = options("visits");
  with.population = "patients";
  EXPECT_EQ(add("a\n1\n2\n", with), "");
  with.name = "labs";
  EXPECT_EQ(add("a\n3\n4\n", with), "");
  EXPECT_EQ(add("a\n5\n", options("others")), "");
  EXPECT_EQ(errorText(owner->accounts().addClient("ada", signing::SigningKey::generate().publicKey())), "");
  expectHas(errorText(owner->grant("ada", "labs", 1, 1e-5)), "has no cap over all clients; set one first: "
                                                             "sojourn-owner budget cap labs --epsilon E --delta D");
  EXPECT_EQ(errorText(owner->setCap("visits", 2, 1e-5)), "");
  EXPECT_EQ(errorText(owner->grant("ada", "labs", 1, 1e-5)), "") << "the cap is the people's";
  expectHas(errorText(owner->grant("ada", "labs", 2.5, 1e-6)),
            "the grant, epsilon 2.5 at delta 1e-06, is above the cap on the people of 'patients' over all clients, "
            "epsilon 2 at delta 1e-05; grant less, or raise the cap first: sojourn-owner budget cap labs --epsilon 2.5 "
            "--delta 1e-05");
  expectHas(errorText(owner->grant("ada", "labs", 1, 2e-5)), "budget cap labs --epsilon 2 --delta 2e-05");
  EXPECT_EQ(owner->accounts().budget("ada", "labs")->epsilon, 1) << "the grant is what it was";
  EXPECT_EQ(errorText(owner->grant("ada", "labs", 2, 1e-5)), "") << "all of the cap";
  EXPECT_EQ(errorText(owner->setCap("labs", 1, 1e-5)), "") << "a cap may sink below grants, and stands";
  expectHas(errorText(owner->grant("ada", "labs", 2, 1e-5)), "is above the cap");
  expectHas(errorText(owner->grant("ada", "others", 1, 1e-5)), "has no cap");
  expectHas(errorText(owner->grant("ada", "nowhere", 1, 1e-5)), "no dataset is named 'nowhere'");
  expectHas(errorText(owner->setCap("nowhere", 1, 1e-5)), "no dataset is named 'nowhere'");
  // Without people there is nobody's budget; it made the books disagree after a rename.
  RegisterOptions open = options("points");
  open.policy = Policy::open;
  open.subject.reset();
  EXPECT_EQ(add("a\n1\n2\n", open), "");
  for (const std::string &error :
       {errorText(owner->setCap("points", 1, 1e-5)), errorText(owner->grant("ada", "points", 1, 1e-5))}) {
    expectHas(error, "dataset 'points' is open and names no subjects, so it has no people with a budget");
  }
  expectHas(errorText(owner->grant("eve", "labs", 1, 1e-5)), "no client is named 'eve'; add it with");
  auto populations = owner->accounts().ledger().populations();
  ASSERT_TRUE(populations);
  ASSERT_EQ(populations->size(), 2u);
  EXPECT_EQ((*populations)[1].population, "patients");
  EXPECT_EQ((*populations)[1].datasets.size(), 2u);
  with.name = "bad";
  with.population = "../x";
  expectHas(add("a\n1\n", with), "'../x' is not a valid name for a population");
}

TEST_F(PrivateTables, BudgetsAreNumbersWithinTheirBounds) {
  EXPECT_EQ(add("a\n1\n", options()), "");
  EXPECT_EQ(errorText(owner->accounts().addClient("ada", signing::SigningKey::generate().publicKey())), "");
  EXPECT_EQ(errorText(owner->setCap("t", 4, 1e-5)), "");
  double infinity = INFINITY, nan = std::nan("");
  for (double epsilon : {0.0, -1.0, infinity, -infinity, nan, 0x1p21}) {
    expectHas(errorText(owner->setCap("t", epsilon, 1e-5)), "epsilon is ");
    expectHas(errorText(owner->grant("ada", "t", epsilon, 1e-5)), "expected a number above 0 and at most");
  }
  for (double delta : {0.0, -1e-9, 1.0, 2.0, infinity, nan}) {
    expectHas(errorText(owner->setCap("t", 1, delta)), "delta is ");
    expectHas(errorText(owner->grant("ada", "t", 1, delta)), "expected a number above 0 and below 1");
  }
}

TEST_F(PrivateTables, DefaultsAreTheOwnersAndKept) {
  EXPECT_EQ(add("a\n1\n", options()), "");
  EXPECT_EQ(record().defaults.metricBound, 10);
  EXPECT_EQ(errorText(owner->setDefaults("t", {2.5, 0.125, 3})), "");
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(record().defaults.noiseMultiplier, 2.5);
    EXPECT_EQ(record().defaults.clip, 0.125);
    Reply listed(owner->handle(listDatasetsBytes()));
    EXPECT_EQ(listed.root->body_as_Datasets()->datasets()->Get(0)->metric_bound(), 3);
    owner = std::make_unique<Owner>(world.environment());
  }
  expectHas(errorText(owner->setDefaults("nowhere", {})), "no dataset is named 'nowhere'");
  for (double bad : {0.0, -1.0, static_cast<double>(INFINITY), std::nan("")}) {
    expectHas(errorText(owner->setDefaults("t", {bad, 1, 1})), "the noise multiplier is ");
    expectHas(errorText(owner->setDefaults("t", {1, bad, 1})), "the clip is ");
    expectHas(errorText(owner->setDefaults("t", {1, 1, bad})), "the metric bound is ");
  }
  EXPECT_EQ(record().defaults.clip, 0.125);
}

TEST_F(PrivateTables, StepsGiveNumbersWithinTheirBounds) {
  registerNumbers(*owner, "numbers", Policy::privateOnly);
  EXPECT_EQ(errorText(owner->grant(kLocalClient, "numbers", 100, 1e-5)), "");
  Client client(*owner);
  auto run = [&](const sojourn::wire::Spending &spending) {
    StepRequest step;
    step.tables = {"numbers"};
    step.spending = spending;
    return client.run(sumProgram(), step).error();
  };
  auto publish = [&](double bound, double epsilon, double delta) {
    sojourn::wire::Spending spending;
    spending.releases = {{bound, epsilon, delta, false}};
    return run(spending);
  };
  auto clip = [&](double value) {
    sojourn::wire::Spending spending;
    spending.clip = value;
    spending.releases = {{0, 0.5, 0, false}};
    return run(spending);
  };
  double infinity = INFINITY, nan = std::nan("");
  std::string range = "expected a number from 7.88861e-31 to 1.26765e+30";
  for (double bad : {1e-31, 0x1p-101, 5e-324, -1.0, 0x1p101, infinity, -infinity, nan}) {
    std::string text = publish(bad, 0.5, 0);
    expectHas(text, "bound is ");
    expectHas(text, range);
    text = clip(bad);
    expectHas(text, "clip is ");
    expectHas(text, range);
  }
  for (double bad : {-1.0, 0x1p21, infinity, nan}) {
    expectHas(publish(1, bad, 0), "epsilon is ");
    expectHas(publish(1, 0.5, bad), "delta is ");
  }
  expectHas(publish(1, 0.5, 1), "delta is 1, expected a number above 0 and below 1");
  EXPECT_EQ(owner->accounts().budget(kLocalClient, "numbers")->epsilonLeft, 100) << "refusals are free";
  for (double good : {0.0, 0x1p-100, 1e-30, 0.5, 1e30, 0x1p100}) { // 0: the owner's default
    EXPECT_EQ(publish(good, 0.5, 0), "") << good;
    EXPECT_EQ(clip(good), "") << good;
  }
}

/// Equal terms give equal modules, and other terms another one.
TEST_F(PrivateTables, VerdictsNameTheModuleThatWasProved) {
  const runtime::EncodedProgram sum = sumProgram();
  auto plan = makePlan(testWorker(), sum.program, sum.debug);
  ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
  auto verdictAt = [&](double rho) {
    PrivateTerms terms;
    terms.publicArguments = {false};
    terms.tables = {{.isPrivate = true, .rows = 4, .columns = {{"a", Element::f64, runtime::Extent{0, 10}}}}};
    terms.extents.resize(1);
    terms.releases = {{.rho = rho}};
    bool isLasting = false;
    auto made = llvm::cantFail(makePrivatePlan(testWorker(), **plan, terms, {}, isLasting));
    return made->verdict;
  };
  const runtime::Verdict verdict = verdictAt(0.1);
  EXPECT_TRUE(verdict == verdictAt(0.1));
  EXPECT_NE(verdict.moduleDigest, verdictAt(0.2).moduleDigest);
  EXPECT_NE(verdict.moduleDigest, runtime::ProgramHash{});
}

/// Prices so small that the noise is beyond its sampler, or the integers: refused as noise that cannot be drawn.
TEST_F(PrivateTables, TinyPricesAreRefused) {
  const runtime::EncodedProgram sum = sumProgram();
  auto plan = makePlan(testWorker(), sum.program, sum.debug);
  ASSERT_TRUE(bool(plan)) << llvm::toString(plan.takeError());
  for (double tiny : {1e-15, 1e-19, 1e-30, 1e-300, 5e-324}) {
    for (bool isLaplace : {false, true}) {
      PrivateTerms terms;
      terms.publicArguments = {false};
      terms.tables = {{.isPrivate = true, .rows = 4, .columns = {{"a", Element::f64, runtime::Extent{0, 10}}}}};
      terms.extents.resize(1);
      terms.releases = {{.rho = isLaplace ? 0 : tiny * tiny, .laplaceEpsilon = isLaplace ? tiny : 0}};
      if (!isLaplace && terms.releases[0].rho == 0) {
        continue;
      }
      bool isLasting = false;
      auto made = makePrivatePlan(testWorker(), **plan, terms, {}, isLasting);
      ASSERT_FALSE(bool(made)) << tiny;
      EXPECT_TRUE(isLasting) << tiny;
      const std::string text = takeRequestError(made.takeError()).message;
      // The least of them that the op of the noise takes is refused for its sampler.
      expectHas(text,
                tiny == 1e-15
                    ? "units of its grid, more than can be drawn; release fewer numbers at once, or with less noise"
                    : "is too small: its noise is more than can be drawn; give a larger epsilon or metric_share");
      EXPECT_EQ(text.find("would be -"), std::string::npos) << text;
    }
  }
}

TEST_F(PrivateTables, BooksOfOlderReleasesAreBroughtUpToDate) {
  EXPECT_EQ(add("a\n1\n2\n", options()), "");
  owner.reset();
  for (int version : {3, 2, 1}) {
    sqlite3 *books = nullptr;
    ASSERT_EQ(sqlite3_open((world.store + "/catalogue.db").c_str(), &books), SQLITE_OK);
    std::string sql = "ALTER TABLE datasets DROP COLUMN subjects_file;";
    if (version < 3) {
      sql += "ALTER TABLE datasets DROP COLUMN subject; ALTER TABLE datasets DROP COLUMN population;"
             "ALTER TABLE datasets DROP COLUMN noise_multiplier; ALTER TABLE datasets DROP COLUMN clip;"
             "ALTER TABLE datasets DROP COLUMN metric_bound; DROP TABLE reports;";
    }
    sql += version == 1 ? "ALTER TABLE columns DROP COLUMN dims;" : "";
    sql += "PRAGMA user_version = " + std::to_string(version);
    char *wrong = nullptr;
    ASSERT_EQ(sqlite3_exec(books, sql.c_str(), nullptr, nullptr, &wrong), SQLITE_OK) << wrong;
    sqlite3_close(books);
    owner = std::make_unique<Owner>(world.environment());
    ASSERT_EQ(owner->status(), "");
    EXPECT_EQ(record().rows, 2);
    EXPECT_EQ(record().policy, Policy::privateOnly);
    EXPECT_EQ(record().subject, version == 3 ? std::optional<std::string>("") : std::nullopt);
    EXPECT_FALSE(record().subjectsFile) << "as a release that did not keep them left it";
    EXPECT_EQ(record().defaults.clip, 1);
    EXPECT_EQ(errorText(owner->setCap("t", 1, 1e-5)), "");
    owner.reset();
  }
}

} // namespace sojourn::owner::test
