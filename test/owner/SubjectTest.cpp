// SPDX-License-Identifier: Apache-2.0
// Subjects: read in one form, sealed beside the rows, opened by whoever has store and key, and shown to nobody.
#include "owner/Accounts.h"
#include "owner/Import.h"
#include "owner/SealedSubjects.h"
#include "owner/Store.h"
#include "test/owner/Support.h"

#include <arrow/api.h>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sqlite3.h>
#include <sys/stat.h>

namespace sojourn::owner::test {

using runtime::Element;
namespace fs = std::filesystem;

namespace {

void expectHas(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

std::vector<std::string> listOf(const Subjects &subjects) {
  std::vector<std::string> list;
  for (int64_t row = 0; row < subjects.size(); ++row) {
    list.emplace_back(subjects[row]);
  }
  return list;
}

std::string bytesOf(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

uint64_t freshSeed() {
  const char *given = std::getenv("SOJOURN_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

/// Distinct texts, long enough not to be anywhere by chance.
std::vector<std::string> randomSubjects(std::mt19937_64 &random, size_t count) {
  static constexpr const char *kLetters[] = {"a", "b", "c", "X", "0", "7", "-", "é", "ß", "字"};
  std::set<std::string> distinct;
  while (distinct.size() < count) {
    std::string text;
    for (size_t letters = 12 + random() % 30; letters > 0; --letters) {
      text += kLetters[random() % std::size(kLetters)];
    }
    distinct.insert(text);
  }
  std::vector<std::string> subjects(distinct.begin(), distinct.end());
  std::shuffle(subjects.begin(), subjects.end(), random);
  return subjects;
}

/// Columns "who" and "a" as CSV; the subjects have neither quotes nor line ends.
std::string csvOf(const std::vector<std::string> &subjects) {
  std::string csv = "who,a\n";
  for (size_t row = 0; row < subjects.size(); ++row) {
    csv += '"' + subjects[row] + "\"," + std::to_string(row % 9) + "\n";
  }
  return csv;
}

RegisterOptions options(const std::string &name = "people") {
  RegisterOptions with;
  with.name = name;
  with.bounds = {{"a", {0, 9}}};
  with.subject = "who";
  return with;
}

/// A store on disk, from the owner's side and from that of later code.
struct SubjectStores : testing::Test {
  World world;
  TemporaryFolder folder;
  Environment environment;
  uint64_t seed = freshSeed();
  std::mt19937_64 random{seed};
  testing::ScopedTrace trace{__FILE__, __LINE__, "SOJOURN_TEST_SEED=" + std::to_string(seed)};
  void SetUp() override {
    world.store = folder.file("store");
    environment = world.environment();
  }

  std::string add(const std::string &csv, const RegisterOptions &with = options()) {
    Owner owner(world.environment());
    return errorText(owner.registerDataset({folder.write("t.csv", csv), {}}, with));
  }
  std::unique_ptr<Store> store() {
    EXPECT_EQ(errorText(Store::makeFolder(environment)), "");
    auto key = Accounts::openKey(environment);
    EXPECT_TRUE(bool(key)) << llvm::toString(key.takeError());
    auto opened = Store::open(environment, key->publicKey(), testWorker());
    EXPECT_TRUE(bool(opened)) << llvm::toString(opened.takeError());
    return std::move(*opened);
  }
  std::vector<std::string> opened(const std::string &name = "people") {
    auto subjects = store()->openSubjects(name);
    EXPECT_TRUE(bool(subjects)) << llvm::toString(subjects.takeError());
    return subjects ? listOf(*subjects) : std::vector<std::string>{};
  }
  std::string refused(const std::string &name = "people") {
    auto subjects = store()->openSubjects(name);
    EXPECT_FALSE(bool(subjects));
    return subjects ? "" : llvm::toString(subjects.takeError());
  }
  fs::path box(const std::string &name = "people") {
    auto record = store()->record(name);
    EXPECT_TRUE(bool(record)) << llvm::toString(record.takeError());
    return fs::path(world.store) / "datasets" / record->subjectsFile.value_or("");
  }
  fs::path key() const { return fs::path(world.store) / "subjects.key"; }
  void sql(const std::string &statement) {
    sqlite3 *books = nullptr;
    ASSERT_EQ(sqlite3_open((world.store + "/catalogue.db").c_str(), &books), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(books, statement.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(books);
    sqlite3_close(books);
  }
  size_t filesOfTables() {
    return static_cast<size_t>(std::distance(fs::directory_iterator(world.store + "/datasets"), {}));
  }
  /// What of `texts` is in a file of the store, and which.
  std::string found(const std::vector<std::string> &texts) {
    std::string all;
    for (const auto &entry : fs::recursive_directory_iterator(world.store)) {
      std::string bytes = entry.is_regular_file() ? bytesOf(entry.path()) : "";
      for (const std::string &text : texts) {
        all += bytes.find(text) == std::string::npos ? "" : entry.path().string() + ": " + text + "\n";
      }
    }
    return all;
  }
};

/// Of a column of texts that Arrow holds.
llvm::Expected<Subjects> readTexts(const std::vector<std::string> &texts) {
  arrow::StringBuilder builder;
  EXPECT_TRUE(builder.AppendValues(texts).ok());
  auto column = *builder.Finish();
  return readSubjects(*arrow::Table::Make(arrow::schema({arrow::field("who", arrow::utf8())}), {column}), "who");
}

template <class Builder>
std::vector<std::string> numbers(const std::vector<typename Builder::value_type> &values) {
  Builder builder;
  EXPECT_TRUE(builder.AppendValues(values).ok());
  auto column = *builder.Finish();
  auto table = arrow::Table::Make(arrow::schema({arrow::field("who", column->type())}), {column});
  auto subjects = readSubjects(*table, "who");
  EXPECT_TRUE(bool(subjects)) << llvm::toString(subjects.takeError());
  return subjects ? listOf(*subjects) : std::vector<std::string>{};
}

} // namespace

TEST(Subjects, HaveOneForm) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(numbers<arrow::Int8Builder>({-128, 0, 7}), (Texts{"-128", "0", "7"}));
  EXPECT_EQ(numbers<arrow::UInt8Builder>({255, 7}), (Texts{"255", "7"}));
  EXPECT_EQ(numbers<arrow::Int64Builder>({std::numeric_limits<int64_t>::min(), -1}),
            (Texts{"-9223372036854775808", "-1"}));
  EXPECT_EQ(numbers<arrow::UInt64Builder>({std::numeric_limits<uint64_t>::max()}), (Texts{"18446744073709551615"}));
  auto texts = readTexts({"7", " 007\t", "\v\f\r\nAda B \n", "ada b", "\xc2\xa0x", "e\xcc\x81", "\xc3\xa9"});
  ASSERT_TRUE(bool(texts)) << llvm::toString(texts.takeError());
  EXPECT_EQ(listOf(*texts), (Texts{"7", "007", "Ada B", "ada b", "\xc2\xa0x", "e\xcc\x81", "\xc3\xa9"}))
      << "white space of ASCII goes, and nothing else is changed";
}

TEST(Subjects, AreTheSameOnceTheyAreInThatForm) {
  for (auto [first, second] : {std::pair("7", " 7"), {"ada", "ada\n"}, {"\tada", "ada "}}) {
    auto subjects = readTexts({"bob", first, "eve", second});
    ASSERT_FALSE(bool(subjects));
    std::string text = llvm::toString(subjects.takeError());
    expectHas(text, "rows 1 and 3 (counting from 0) have the same subject in column 'who'");
    EXPECT_EQ(text.find("ada"), std::string::npos) << "a value of the table";
  }
  auto blank = readTexts({"bob", " \t"});
  ASSERT_FALSE(bool(blank));
  expectHas(llvm::toString(blank.takeError()), "row 1 (counting from 0) has no subject in column 'who'");
}

TEST(Subjects, AreManyAndOfAnyLength) {
  uint64_t seed = freshSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::vector<std::string> list = randomSubjects(random, 3000);
  Subjects subjects;
  for (const std::string &text : list) {
    subjects.add(text);
  }
  subjects.add("");
  list.emplace_back();
  EXPECT_EQ(listOf(subjects), list);
  Subjects moved = std::move(subjects);
  EXPECT_EQ(listOf(moved), list);
  signing::KeyBytes key = signing::newKeyBytes();
  std::vector<char> sealed = sealSubjects(moved, "v1", key);
  EXPECT_NE(sealed, sealSubjects(moved, "v1", key)) << "a nonce is used once";
  auto rows = static_cast<int64_t>(list.size());
  auto again = openSealed(sealed, "v1", rows, key, "they");
  ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
  EXPECT_EQ(listOf(*again), list);
  auto says = [](llvm::Expected<Subjects> result, const std::string &part) {
    ASSERT_FALSE(bool(result));
    expectHas(llvm::toString(result.takeError()), part);
  };
  says(openSealed(sealed, "v2", rows, key, "they"), "they belong to another table");
  says(openSealed(sealed, "v", rows, key, "they"), "they belong to another table");
  says(openSealed(sealed, "v1", rows + 1, key, "they"), "they belong to another table");
  says(openSealed(sealed, "v1", rows - 1, key, "they"), "they belong to another table");
  says(openSealed(sealed, "v1", std::numeric_limits<int64_t>::max(), key, "they"), "they belong to another table");
  key[0] ^= 1;
  says(openSealed(sealed, "v1", rows, key, "they"),
       "they cannot be opened: the file was changed, or sealed with a key other");
  says(openSealed({}, "v1", rows, key, "they"), "they have a format unknown to this release");
}

TEST_F(SubjectStores, KeepThemSealedBesideTheRows) {
  std::vector<std::string> subjects = randomSubjects(random, 1 + random() % 300);
  ASSERT_EQ(add(csvOf(subjects)), "");
  EXPECT_EQ(opened(), subjects) << "in the order of the rows";
  EXPECT_EQ(found(subjects), "");
  for (const fs::path &path : {box(), key()}) {
    EXPECT_EQ(fs::status(path).permissions(), fs::perms(0600)) << path;
  }
  EXPECT_EQ(filesOfTables(), 2u) << "rows and subjects, and nothing unfinished";
  // One key for the store; another table adds a box of its own.
  std::string keyBytes = bytesOf(key());
  std::vector<std::string> more = randomSubjects(random, subjects.size());
  ASSERT_EQ(add(csvOf(more), options("more")), "");
  EXPECT_EQ(bytesOf(key()), keyBytes);
  EXPECT_EQ(opened("more"), more);
  EXPECT_EQ(opened(), subjects);
  EXPECT_EQ(found(more), "");
}

TEST_F(SubjectStores, KeepNumbersAsTheirDigits) {
  std::vector<int64_t> ids(50);
  std::vector<double> a(50, 1);
  std::vector<std::string> digits, bytes;
  for (int64_t &id : ids) {
    id = static_cast<int64_t>(random() | uint64_t{1} << 62);
    digits.push_back(std::to_string(id));
    bytes.emplace_back(reinterpret_cast<const char *>(&id), sizeof(id));
  }
  {
    Owner owner(world.environment());
    ASSERT_EQ(errorText(owner.registerDataset(
                  {"", {{"who", Element::i64, 50, ids.data()}, {"a", Element::f64, 50, a.data()}}}, options())),
              "");
  }
  EXPECT_EQ(opened(), digits);
  EXPECT_EQ(found(digits), "");
  EXPECT_EQ(found(bytes), "");
}

TEST_F(SubjectStores, AChangedByteIsNoticed) {
  ASSERT_EQ(add(csvOf(randomSubjects(random, 20))), "");
  std::string good = bytesOf(box());
  auto write = [&](const std::string &bytes) { std::ofstream(box(), std::ios::binary) << bytes; };
  for (int round = 0; round < 100; ++round) {
    std::string bytes = good;
    size_t place = round < 50 ? static_cast<size_t>(round) : random() % bytes.size();
    bytes[place] = static_cast<char>(bytes[place] ^ static_cast<char>(1 << random() % 8));
    write(bytes);
    std::string text = refused();
    expectHas(text, "the subjects of dataset 'people' ('" + box().string() + "') ");
    expectHas(text, place < 5 ? "have a format unknown to this release" : "cannot be opened: the file was changed");
    expectHas(text, "import the table again");
  }
  for (size_t size : {size_t{0}, size_t{4}, size_t{44}, good.size() - 1}) {
    write(good.substr(0, size));
    EXPECT_NE(refused(), "");
  }
  write(good + "x");
  expectHas(refused(), "cannot be opened");
  fs::remove(box());
  expectHas(refused(), "cannot be read; restore the file's copy, or import the table again");
  write(good);
  EXPECT_EQ(opened().size(), 20u);
}

TEST_F(SubjectStores, AnotherTablesAreNoticed) {
  ASSERT_EQ(add(csvOf(randomSubjects(random, 20))), "");
  ASSERT_EQ(add(csvOf(randomSubjects(random, 20)), options("more")), "");
  fs::copy_file(box("more"), box(), fs::copy_options::overwrite_existing);
  expectHas(refused(), "belong to another table; restore matching copies of the table and its subjects");
  EXPECT_EQ(opened("more").size(), 20u);
}

TEST_F(SubjectStores, WithoutTheirKeyThereAreNone) {
  std::vector<std::string> subjects = randomSubjects(random, 5);
  ASSERT_EQ(add(csvOf(subjects)), "");
  std::string good = bytesOf(key());
  fs::remove(key());
  expectHas(refused(), "the key '" + key().string() + "', which seals the subjects of this store's tables, is missing");
  EXPECT_FALSE(fs::exists(key())) << "a new one opens nothing";
  std::ofstream(key()) << good << "x";
  ASSERT_EQ(chmod(key().c_str(), 0600), 0);
  expectHas(refused(), "'" + key().string() + "' is not a key of subjects of this release; restore its copy");
  std::ofstream(key()) << good;
  EXPECT_EQ(opened(), subjects);
  ASSERT_EQ(chmod(key().c_str(), 0640), 0);
  expectHas(refused(), "other users may read the key of subjects");
  // A store whose key is gone makes another for later tables; the first box is not opened by that.
  fs::remove(key());
  ASSERT_EQ(add(csvOf(subjects), options("more")), "");
  EXPECT_EQ(opened("more"), subjects);
  expectHas(refused(), "sealed with a key other than the store's");
  // Nothing else needs the key.
  fs::remove(key());
  Owner owner(world.environment());
  EXPECT_EQ(owner.status(), "");
  EXPECT_TRUE(bool(owner.dataset("people")));
}

TEST_F(SubjectStores, AreKeptWhereAColumnNamesThemOnly) {
  auto with = options("rows");
  with.subject = "";
  with.columns = {"a"};
  ASSERT_EQ(add("who,a\n1,1\n2,2\n", with), "");
  expectHas(refused("rows"),
            "no column names the subjects of dataset 'rows', so it cannot be aligned; import "
            "the table again under another name, with its bounds, for the same population: sojourn-owner "
            "import '" +
                folder.file("t.csv") + "' --name NAME --subject COLUMN --population 'rows'");
  with.name = "nobody";
  with.subject.reset();
  with.policy = Policy::open;
  ASSERT_EQ(add("who,a\n1,1\n2,2\n", with), "");
  expectHas(refused("nobody"), "no column names the subjects of dataset 'nobody'");
  EXPECT_FALSE(fs::exists(key())) << "a key is made when something is sealed";
  with = options("open");
  with.policy = Policy::open;
  ASSERT_EQ(add("who,a\n1,1\n2,2\n", with), "");
  EXPECT_EQ(opened("open"), (std::vector<std::string>{"1", "2"}));
  expectHas(refused("nowhere"), "no dataset is named 'nowhere'");
}

TEST_F(SubjectStores, OfOlderReleasesSayHowToGetThem) {
  auto with = options();
  with.population = "ward";
  ASSERT_EQ(add("who,a\nada,1\nbob,2\n", with), "");
  {
    int64_t who[] = {7};
    double a[] = {1};
    Owner owner(world.environment());
    ASSERT_EQ(errorText(owner.registerDataset({"", {{"who", Element::i64, 1, who}, {"a", Element::f64, 1, a}}},
                                              options("arrays"))),
              "");
  }
  sql("ALTER TABLE datasets DROP COLUMN subjects_file; PRAGMA user_version = 3");
  expectHas(refused(), "dataset 'people' was imported by a release that did not keep subjects; import the table again "
                       "under another name, with its bounds, for the same population: sojourn-owner import '" +
                           folder.file("t.csv") + "' --name NAME --subject 'who' --population 'ward'");
  expectHas(refused("arrays"), "owner.register(NAME, ..., subject='who', population='arrays')");
  // What it says is what helps.
  with.name = "people2";
  ASSERT_EQ(add("who,a\nada,1\nbob,2\n", with), "");
  EXPECT_EQ(opened("people2"), (std::vector<std::string>{"ada", "bob"}));
}

TEST_F(SubjectStores, WhatIsNotRegisteredLeavesNothing) {
  auto first = store(), second = store();
  auto record = first->begin(options()), other = second->begin(options());
  ASSERT_TRUE(record && other);
  DatasetSource source{folder.write("t.csv", csvOf(randomSubjects(random, 5))), {}};
  auto table = first->import(*record, source, options()), again = second->import(*other, source, options());
  ASSERT_TRUE(table && again);
  EXPECT_FALSE(table->subjects) << "they are sealed by now";
  EXPECT_EQ(filesOfTables(), 6u) << "rows, subjects, and the marks of imports under way";
  EXPECT_EQ(errorText(first->enter(*record, std::move(*table))), "");
  expectHas(errorText(second->enter(*other, std::move(*again))), "already registered");
  EXPECT_EQ(filesOfTables(), 2u);
  EXPECT_EQ(opened().size(), 5u);
}

TEST_F(SubjectStores, InMemoryKeepThemSealedToo) {
  environment.storeDirectory.clear();
  auto kept = store();
  auto record = kept->begin(options());
  ASSERT_TRUE(bool(record));
  std::vector<std::string> subjects = randomSubjects(random, 5);
  auto table = kept->import(*record, {folder.write("t.csv", csvOf(subjects)), {}}, options());
  ASSERT_TRUE(bool(table)) << llvm::toString(table.takeError());
  EXPECT_FALSE(table->subjects);
  std::string sealed(table->sealedSubjects.begin(), table->sealedSubjects.end());
  for (const std::string &subject : subjects) {
    EXPECT_EQ(sealed.find(subject), std::string::npos) << subject;
  }
  ASSERT_EQ(errorText(kept->enter(*record, std::move(*table))), "");
  auto opened = kept->openSubjects("people");
  ASSERT_TRUE(bool(opened)) << llvm::toString(opened.takeError());
  EXPECT_EQ(listOf(*opened), subjects);
}

TEST_F(SubjectStores, NobodyIsToldOfThem) {
  std::vector<std::string> subjects = randomSubjects(random, 4);
  std::string csv = csvOf(subjects);
  Owner owner(world.environment());
  ASSERT_EQ(errorText(owner.registerDataset({folder.write("t.csv", csv), {}}, options())), "");
  ASSERT_EQ(errorText(owner.grant(kLocalClient, "people", 5, 1e-5)), "");
  Client client(owner);
  StepRequest step;
  step.tables = {"people"};
  Reply reply = client.run(sumProgram(), step);
  std::string told = owner.handle(listDatasetsBytes()) + owner.handle(listProgramsBytes(true)) + reply.error();
  for (const std::string &line : world.logged) {
    told += line;
  }
  subjects[1] = subjects[0];
  told += errorText(owner.registerDataset({folder.write("t.csv", csvOf(subjects)), {}}, options("twice")));
  expectHas(told, "have the same subject");
  told += tool("datasets --store " + world.store).first + tool("programs --store " + world.store).first +
          tool("ledger show --store " + world.store).first;
  for (const std::string &subject : subjects) {
    EXPECT_EQ(told.find(subject), std::string::npos) << subject;
  }
}

} // namespace sojourn::owner::test
