// SPDX-License-Identifier: Apache-2.0
// Registration: what comes in, what is refused, what a second owner finds in the store.
#include "owner/Import.h"
#include "owner/worker/TableRows.h"
#include "test/owner/Support.h"

#include <arrow/api.h>
#include <arrow/io/api.h>
#include <arrow/ipc/api.h>
#include <cmath>
#include <filesystem>
#include <limits>
#include <parquet/arrow/writer.h>

namespace sojourn::owner::test {

using runtime::Element;

namespace {

/// An owner in memory and shorthands for registering.
struct Registration : testing::Test {
  World world;
  TemporaryFolder folder;
  Owner owner{world.environment()};

  RegisterOptions options(const std::string &name = "t") {
    RegisterOptions result;
    result.name = name;
    result.policy = Policy::open;
    return result;
  }
  std::string add(const DatasetSource &source, const RegisterOptions &with) {
    return errorText(owner.registerDataset(source, with));
  }
  std::string addColumn(std::vector<double> data, const RegisterOptions &with) {
    return add({"", {{"a", Element::f64, static_cast<int64_t>(data.size()), data.data()}}}, with);
  }
  std::string addCsv(const std::string &text, const RegisterOptions &with) {
    return add({folder.write("t.csv", text), {}}, with);
  }
  ImportedTable imported(const std::string &csv, const RegisterOptions &with) {
    auto table = importTable({folder.write("t.csv", csv), {}}, with);
    EXPECT_TRUE(bool(table)) << llvm::toString(table.takeError());
    return table ? std::move(*table) : ImportedTable{};
  }
};

template <class T>
std::vector<T> column(const ImportedTable &table, size_t index) {
  auto *data = static_cast<const T *>(table.columns[index].data);
  return {data, data + table.rows};
}

void expectHas(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

} // namespace

TEST_F(Registration, CsvTypesAreInferred) {
  auto table = imported("x,n,b\n1.5,7,true\n-2,8,false\n", options());
  ASSERT_EQ(table.columns.size(), 3u);
  EXPECT_EQ(table.columns[0].element, Element::f64);
  EXPECT_EQ(table.columns[1].element, Element::i64);
  EXPECT_EQ(table.columns[2].element, Element::i1);
  EXPECT_EQ(column<double>(table, 0), (std::vector<double>{1.5, -2}));
  EXPECT_EQ(column<int64_t>(table, 1), (std::vector<int64_t>{7, 8}));
  EXPECT_EQ(column<uint8_t>(table, 2), (std::vector<uint8_t>{1, 0}));
}

TEST_F(Registration, ValuesAreClampedToBounds) {
  auto with = options();
  with.bounds = {{"x", {0, 1}}, {"n", {2.5, 1e300}}};
  auto table = imported("x,n\n-3,1\n0.5,5\n9,9\n", with);
  EXPECT_EQ(column<double>(table, 0), (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(column<int64_t>(table, 1), (std::vector<int64_t>{3, 5, 9}));
}

TEST_F(Registration, Float32BoundsRoundInwards) {
  float data[] = {-1, 1};
  auto with = options();
  with.bounds = {{"a", {-0.1, 0.1}}};
  auto table = importTable({"", {{"a", Element::f32, 2, data}}}, with);
  ASSERT_TRUE(bool(table));
  EXPECT_LE(static_cast<double>(column<float>(*table, 0)[1]), 0.1);
  EXPECT_GE(static_cast<double>(column<float>(*table, 0)[0]), -0.1);
}

TEST_F(Registration, MissingAndNonFiniteValuesAreRefusedByColumnAndRow) {
  std::string error = addColumn({1, std::nan(""), 3}, options());
  expectHas(error, "column 'a', row 1");
  expectHas(error, "NaN");
  expectHas(error, "--fill a=VALUE");
  expectHas(addColumn({1, 2, INFINITY}, options()), "row 2 (counting from 0): an infinite value");
  expectHas(addCsv("a,b\n1,2\n,3\n", options()), "column 'a', row 1 (counting from 0): no value");
}

TEST_F(Registration, FillReplacesThem) {
  auto with = options();
  with.fills = {{"a", 7}};
  auto table = imported("a\n1\nnan\n\"\"\n4\n", with);
  EXPECT_EQ(column<int64_t>(table, 0), (std::vector<int64_t>{1, 7, 7, 4}));
  with.bounds = {{"a", {0, 5}}};
  expectHas(addCsv("a\n1\n\"\"\n", with), "fill value 7");
}

TEST_F(Registration, NamesAreUnique) {
  EXPECT_EQ(addColumn({1}, options()), "");
  expectHas(addColumn({1}, options()), "already registered");
}

TEST_F(Registration, NamesArePlain) {
  expectHas(addColumn({1}, options("../x/y")), "is not a valid name for a dataset");
  expectHas(addColumn({1}, options("")), "is not a valid name for a dataset");
}

TEST_F(Registration, UnreadableSourcesSayWhy) {
  expectHas(add({folder.file("none.csv"), {}}, options()), "no such file");
  expectHas(add({folder.write("t.xls", "x"), {}}, options()), "expected a name ending in .csv");
  expectHas(add({folder.write("t.parquet", "not parquet"), {}}, options()), "cannot read");
  expectHas(add({folder.write("t.npz", "not a zip"), {}}, options()), "not a readable .npz");
  expectHas(addCsv("a\n", options()), "0 rows");
}

TEST_F(Registration, TextColumnsAreNamedWithTheWayOut) {
  auto with = options();
  with.policy = Policy::privateOnly;
  with.subject = "";
  with.bounds = {{"a", {0, 1}}};
  std::string error = addCsv("a,who\n1,bob\n", with);
  expectHas(error, "column 'who' holds text or categories; on a private table they must be declared");
  expectHas(error, "--categories who=A,B");
  EXPECT_EQ(error.find("bob"), std::string::npos);
  with.columns = {"a"};
  EXPECT_EQ(addCsv("a,who\n1,bob\n", with), "");
}

TEST_F(Registration, TextOfAnOpenTableBecomesCodes) {
  auto table = imported("a,who\n1,bob\n2,ada\n3,bob\n", options());
  ASSERT_TRUE(table.columns[1].meaning);
  EXPECT_EQ(table.columns[1].meaning->texts, (std::vector<std::string>{"ada", "bob"}));
  EXPECT_TRUE(table.columns[1].meaning->isFound);
  EXPECT_EQ(column<int64_t>(table, 1), (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(table.columns[1].bounds->upper, 1);
}

/// Arrays hold the positions of their categories, and say so before values are clamped.
TEST_F(Registration, CodesOfArraysLieInTheirCategories) {
  int64_t codes[] = {0, 2, 1};
  auto with = options();
  with.meanings["a"].texts = {"x", "y"};
  expectHas(add({"", {{"a", Element::i64, 3, codes}}}, with),
            "column 'a', row 1 (counting from 0): a code found outside of its 2 categories, expected 0 to 1");
  with.meanings["a"].texts = {"x", "y", "z"};
  EXPECT_EQ(add({"", {{"a", Element::i64, 3, codes}}}, with), "");
  double numbers[] = {0, 2, 1};
  with.name = "u";
  expectHas(add({"", {{"a", Element::f64, 3, numbers}}}, with), "its categories need codes of type int64");
}

TEST_F(Registration, CategoriesBelongToTheContents) {
  auto with = options();
  with.meanings["who"].texts = {"ada", "bob"};
  auto one = imported("who\nada\nbob\n", with);
  with.meanings["who"].texts = {"adam", "bob"};
  auto other = imported("who\nadam\nbob\n", with);
  EXPECT_EQ(column<int64_t>(one, 0), column<int64_t>(other, 0));
  EXPECT_NE(contentHash(one), contentHash(other));
}

TEST_F(Registration, UnknownColumnsAreNamed) {
  auto with = options();
  with.bounds = {{"z", {0, 1}}};
  expectHas(addCsv("a,b\n1,2\n", with), "bounds are declared for the unknown column 'z'");
  expectHas(addCsv("a,b\n1,2\n", with), "the table has 'a', 'b'");
  with = options();
  with.columns = {"q"};
  expectHas(addCsv("a,b\n1,2\n", with), "unknown column 'q' in the columns to keep");
  expectHas(addCsv("a,a\n1,2\n", options()), "column 'a' appears twice");
}

TEST_F(Registration, BoundsMustBeARange) {
  auto with = options();
  with.bounds = {{"a", {2, 1}}};
  expectHas(addCsv("a\n1\n", with), "bounds [2, 1] of column 'a' are not a range");
  with.bounds = {{"a", {0.2, 0.8}}};
  expectHas(addCsv("a\n1\n", with), "contain no value of its integer type");
}

TEST_F(Registration, ArraysMustBeEquallyLong) {
  double data[] = {1, 2};
  expectHas(add({"", {{"a", Element::f64, 2, data}, {"b", Element::f64, 1, data}}}, options()),
            "column 'b' has 1 rows, but column 'a' has 2");
}

TEST_F(Registration, HalfFloatsWiden) {
  uint16_t half[] = {0x3c00, 0xc000}; // 1, -2
  auto table = importTable({"", {{"a", Element::f16, 2, half}}}, options());
  ASSERT_TRUE(bool(table));
  EXPECT_EQ(table->columns[0].element, Element::f32);
  EXPECT_EQ(column<float>(*table, 0), (std::vector<float>{1, -2}));
}

TEST_F(Registration, ParquetArrowAndCsvFilesAreOneTable) {
  arrow::DoubleBuilder doubles;
  arrow::Int32Builder integers;
  ASSERT_TRUE(doubles.AppendValues({0.1, -2.5e300, 3}).ok());
  ASSERT_TRUE(integers.AppendValues({1, 2, -7}).ok());
  auto table =
      arrow::Table::Make(arrow::schema({arrow::field("x", arrow::float64()), arrow::field("n", arrow::int32())}),
                         {*doubles.Finish(), *integers.Finish()});
  {
    auto output = *arrow::io::FileOutputStream::Open(folder.file("t.parquet"));
    ASSERT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), output, 2).ok());
    ASSERT_TRUE(output->Close().ok());
    output = *arrow::io::FileOutputStream::Open(folder.file("t.arrow"));
    auto writer = *arrow::ipc::MakeFileWriter(output, table->schema());
    ASSERT_TRUE(writer->WriteTable(*table, 2).ok() && writer->Close().ok() && output->Close().ok());
  }
  folder.write("t.csv", "x,n\n0.1,1\n-2.5e300,2\n3,-7\n");
  for (const char *name : {"t.parquet", "t.arrow", "t.csv"}) {
    auto read = importTable({folder.file(name), {}}, options());
    ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
    ASSERT_EQ(read->columns.size(), 2u);
    EXPECT_EQ(column<double>(*read, 0), (std::vector<double>{0.1, -2.5e300, 3}));
    bool csv = std::string(name) == "t.csv"; // whole numbers of a text are i64
    EXPECT_EQ(read->columns[1].element, csv ? Element::i64 : Element::i32);
    EXPECT_EQ(csv ? static_cast<const int64_t *>(read->columns[1].data)[2]
                  : static_cast<const int32_t *>(read->columns[1].data)[2],
              -7);
  }
}

TEST_F(Registration, BoundsFile) {
  RegisterOptions with;
  EXPECT_EQ(errorText(readBoundsFile(folder.write("b.toml", "age = [0, 120]\n[\"blood pressure\"]\n"
                                                            "lower = 1.5\nupper = 2\nfill = 2\n"),
                                     with)),
            "");
  EXPECT_EQ(with.bounds["age"].upper, 120);
  EXPECT_EQ(with.bounds["blood pressure"].lower, 1.5);
  EXPECT_EQ(with.fills["blood pressure"], 2);
  expectHas(errorText(readBoundsFile(folder.write("c.toml", "\nage = 3\n"), with)),
            "line 2: column 'age' expects [lower, upper]");
  expectHas(errorText(readBoundsFile(folder.write("d.toml", "age = [\n"), with)), "cannot read");
  EXPECT_EQ(errorText(parseBound("a=b=0:1.5", with)), "");
  EXPECT_EQ(with.bounds["a=b"].upper, 1.5);
  expectHas(errorText(parseBound("a=0", with)), "column=lower:upper");
  expectHas(errorText(parseFill("a", with)), "column=value");
}

TEST_F(Registration, RowsConvertAndEndInZeros) {
  double data[] = {1.7, -2.2, 3e10, 0};
  auto table = importTable({"", {{"a", Element::f64, 4, data}}}, options());
  ASSERT_TRUE(bool(table));
  const TableRows dataset(std::make_shared<Dataset>("t", "1", 4, table->columns, table->storage));
  int32_t out[6];
  dataset.readRows({"a"}, {2, -1, 1, 0, 4, std::numeric_limits<int64_t>::min()}, Element::i32, out);
  int32_t expected[6] = {std::numeric_limits<int32_t>::max(), 0, -2, 1, 0, 0};
  EXPECT_EQ(std::memcmp(out, expected, sizeof(out)), 0);
  double pairs[4];
  dataset.readRows({"a", "a"}, {0, 3}, Element::f64, pairs);
  EXPECT_EQ(std::vector<double>(pairs, pairs + 4), (std::vector<double>{1.7, 1.7, 0, 0}));
}

TEST_F(Registration, SurvivesInTheStore) {
  world.store = folder.file("store");
  {
    Owner first(world.environment());
    ASSERT_EQ(first.status(), "");
    auto with = options("kept");
    with.bounds = {{"a", {0, 2}}};
    double data[] = {1, 5};
    uint8_t flags[] = {1, 0};
    DatasetSource source{"", {{"a", Element::f64, 2, data}, {"f", Element::i1, 2, flags}}};
    ASSERT_EQ(errorText(first.registerDataset(source, with)), "");
  }
  Owner second(world.environment());
  auto records = second.datasets();
  ASSERT_TRUE(bool(records));
  ASSERT_EQ(records->size(), 1u);
  EXPECT_EQ((*records)[0].name, "kept");
  EXPECT_EQ((*records)[0].policy, Policy::open);
  EXPECT_EQ((*records)[0].columns[0].bounds->upper, 2);
  EXPECT_EQ((*records)[0].columns[1].element, Element::i1);
  auto program =
      encode(moduleText("(%t: !sojourn.table<2, \"a\" : f64, \"f\" : i1> {sojourn.kind = \"table\"}) -> "
                        "(tensor<2x2xf64> {sojourn.result = \"publish\"})",
                        "    %i = sojourn.iota dim = 0 : tensor<2xi64>\n"
                        "    %x = sojourn.read_rows %t, %i, columns = [\"a\", \"f\"] : !sojourn.table<2, \"a\" : f64, "
                        "\"f\" : i1>, tensor<2xi64> -> tensor<2x2xf64>\n"
                        "    return %x : tensor<2x2xf64>"));
  Client client(second);
  StepRequest step;
  step.tables = {"kept"};
  Reply reply = client.run(program, step);
  ASSERT_EQ(reply.error(), "");
  EXPECT_EQ(values<double>(reply.published(0)), (std::vector<double>{1, 1, 2, 0}));
}

TEST_F(Registration, ARunningOwnerSeesALaterImport) {
  world.store = folder.file("store");
  Owner serving(world.environment());
  Client client(serving);
  {
    Owner tool(world.environment());
    registerNumbers(tool, "late", Policy::open);
  }
  StepRequest step;
  step.tables = {"late"};
  step.results = {1};
  EXPECT_EQ(client.run(readProgram(), step).error(), "");
  registerNumbers(serving, "more", Policy::open);
}

TEST_F(Registration, ADamagedStoreIsAnErrorNotACrash) {
  world.store = folder.file("store");
  {
    Owner first(world.environment());
    registerNumbers(first, "n", Policy::open);
  }
  for (const auto &entry : std::filesystem::directory_iterator(world.store + "/datasets")) {
    std::filesystem::resize_file(entry.path(), 20);
  }
  {
    Owner second(world.environment());
    Client client(second);
    StepRequest step;
    step.tables = {"n"};
    step.results = {1};
    EXPECT_NE(client.run(readProgram(), step).error(), "");
  }
  folder.write("store/catalogue.db", "this is not a database, it is only text of some length");
  Owner third(world.environment());
  expectHas(third.status(), "cannot open");
  expectHas(Reply(third.handle(listDatasetsBytes())).error(), "cannot open");
  world.store = "/proc/none/such";
  expectHas(Owner(world.environment()).status(), "cannot create the store");
}

} // namespace sojourn::owner::test
