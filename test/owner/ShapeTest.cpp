// SPDX-License-Identifier: Apache-2.0
// Columns whose rows are arrays: from arrays, Arrow and Parquet files, at rest, and read row by row.
// Random tables are compared with the values they were made of.
#include "owner/Import.h"
#include "owner/ReadFile.h"
#include "owner/worker/TableRows.h"
#include "test/owner/Support.h"

#include "llvm/ADT/STLExtras.h"

#include <arrow/api.h>
#include <arrow/io/api.h>
#include <arrow/ipc/api.h>
#include <cmath>
#include <filesystem>
#include <parquet/arrow/writer.h>

namespace sojourn::owner::test {

using runtime::Element;

namespace {

struct Shapes : testing::Test {
  World world;
  TemporaryFolder folder;
  std::mt19937_64 random{[] {
    const char *given = std::getenv("SOJOURN_TEST_SEED");
    uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
    std::printf("SOJOURN_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
    return seed;
  }()};

  static RegisterOptions options(const std::string &name = "t") {
    RegisterOptions result;
    result.name = name;
    result.policy = Policy::open;
    return result;
  }
  std::vector<uint8_t> pixels(size_t count) {
    std::vector<uint8_t> result(count);
    for (uint8_t &pixel : result) {
      pixel = static_cast<uint8_t>(random());
    }
    return result;
  }
  ImportedTable imported(const DatasetSource &source, const RegisterOptions &with = options()) {
    auto table = importTable(source, with);
    if (!table) { // ends the test
      throw std::runtime_error(llvm::toString(table.takeError()));
    }
    return std::move(*table);
  }
  std::string refused(const DatasetSource &source, const RegisterOptions &with = options()) {
    return errorText(importTable(source, with).takeError());
  }
  std::string refused(const std::shared_ptr<arrow::Array> &array) { return refused({save("r.arrow", array), {}}); }

  /// A file with one column "x", in parts of at most `part` rows.
  std::string save(const std::string &name, const std::shared_ptr<arrow::Array> &array, int64_t part = 1000) {
    auto table = arrow::Table::Make(arrow::schema({arrow::field("x", array->type())}), {array});
    auto output = *arrow::io::FileOutputStream::Open(folder.file(name));
    if (llvm::StringRef(name).ends_with(".parquet")) {
      // Parquet itself knows lists of any length only; Arrow's schema beside it says that they are fixed.
      auto schema = parquet::ArrowWriterProperties::Builder().store_schema()->build();
      EXPECT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), output, part,
                                             parquet::default_writer_properties(), schema)
                      .ok());
    } else {
      auto writer = *arrow::ipc::MakeFileWriter(output, table->schema());
      EXPECT_TRUE(writer->WriteTable(*table, part).ok() && writer->Close().ok());
    }
    EXPECT_TRUE(output->Close().ok());
    return folder.file(name);
  }
};

/// Values inside fixed-size lists of these sizes, the first outermost.
std::shared_ptr<arrow::Array> lists(std::shared_ptr<arrow::Array> values, std::vector<int64_t> dims) {
  for (int64_t dim : llvm::reverse(dims)) {
    values = *arrow::FixedSizeListArray::FromArrays(values, static_cast<int32_t>(dim));
  }
  return values;
}

template <class Builder, class T>
std::shared_ptr<arrow::Array> array(const std::vector<T> &values) {
  Builder builder;
  EXPECT_TRUE(builder.AppendValues(values).ok());
  return *builder.Finish();
}

template <class T>
std::vector<T> contents(const ImportedTable &table, size_t index = 0) {
  int64_t count = table.rows;
  for (int64_t dim : table.columns[index].dims) {
    count *= dim;
  }
  auto *data = static_cast<const T *>(table.columns[index].data);
  return {data, data + count};
}

void expectHas(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

} // namespace

TEST_F(Shapes, ArraysOfTheCaller) {
  auto data = pixels(5 * 6);
  uint8_t flags[] = {1, 0, 0, 1};
  auto table = imported({"", {{"image", Element::u8, 5, data.data(), {3, 2}}}});
  EXPECT_EQ(table.columns[0].dims, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(contents<uint8_t>(table), data);
  table = imported({"", {{"flags", Element::i1, 2, flags, {2}}}});
  EXPECT_EQ(contents<uint8_t>(table), (std::vector<uint8_t>{1, 0, 0, 1}));
  uint16_t halves[] = {0x3c00, 0xc000, 0, 0x3c00}; // 1, -2, 0, 1
  table = imported({"", {{"h", Element::f16, 2, halves, {2}}}});
  EXPECT_EQ(table.columns[0].element, Element::f32);
  EXPECT_EQ(contents<float>(table), (std::vector<float>{1, -2, 0, 1}));
}

TEST_F(Shapes, ArrowAndParquetListsNestedAndFlat) {
  auto data = pixels(11 * 6);
  auto values = array<arrow::UInt8Builder>(data);
  for (const char *name : {"t.arrow", "t.parquet", "t.feather"}) {
    for (int64_t part : {1000, 4}) { // in one piece and in several
      auto nested = imported({save(name, lists(values, {3, 2}), part), {}});
      EXPECT_EQ(nested.columns[0].dims, (std::vector<int64_t>{3, 2})) << name;
      EXPECT_EQ(contents<uint8_t>(nested), data);
      auto flat = imported({save(name, lists(values, {6}), part), {}});
      EXPECT_EQ(flat.columns[0].dims, (std::vector<int64_t>{6})) << name;
      EXPECT_EQ(contents<uint8_t>(flat), data);
    }
  }
  // A slice begins inside its lists.
  auto sliced = imported({save("s.arrow", lists(values, {3, 2})->Slice(4, 5)), {}});
  EXPECT_EQ(contents<uint8_t>(sliced), std::vector<uint8_t>(data.begin() + 4 * 6, data.begin() + 9 * 6));
}

TEST_F(Shapes, BoundsAndFillsArePerElement) {
  double data[] = {-3, 0.5, 9, NAN, 1, INFINITY};
  DatasetSource source{"", {{"x", Element::f64, 2, data, {3}}}};
  std::string error = refused(source);
  expectHas(error, "column 'x', row 1 (counting from 0): NaN found");
  auto with = options();
  with.bounds = {{"x", {0, 2}}};
  with.fills = {{"x", 1.5}};
  EXPECT_EQ(contents<double>(imported(source, with)), (std::vector<double>{0, 0.5, 2, 1.5, 1, 1.5}));
}

TEST_F(Shapes, GapsInListsTakeTheFill) {
  // Rows [1, 2], nothing, [3, nothing]; nested once more in lists of one.
  auto inner = std::make_shared<arrow::Int64Builder>();
  arrow::FixedSizeListBuilder builder(arrow::default_memory_pool(), inner, 2);
  ASSERT_TRUE(builder.Append().ok() && inner->AppendValues({1, 2}).ok());
  ASSERT_TRUE(builder.AppendNull().ok());
  ASSERT_TRUE(builder.Append().ok() && inner->Append(3).ok() && inner->AppendNull().ok());
  std::shared_ptr<arrow::Array> gaps = *builder.Finish();
  for (const auto &column : {gaps, lists(gaps, {1})}) {
    for (const char *name : {"g.arrow", "g.parquet"}) {
      std::string path = save(name, column);
      expectHas(refused({path, {}}), "column 'x', row 1 (counting from 0): no value");
      auto with = options();
      with.fills = {{"x", 7}};
      EXPECT_EQ(contents<int64_t>(imported({path, {}}, with)), (std::vector<int64_t>{1, 2, 7, 7, 3, 7})) << name;
    }
  }
}

TEST_F(Shapes, WrongShapesNameTheColumn) {
  double data[] = {1, 2, 3, 4};
  auto given = [&](int64_t rows, std::vector<int64_t> dims) {
    return refused({"", {{"x", Element::f64, rows, data, std::move(dims)}}});
  };
  expectHas(given(2, {0}), "column 'x' has entries with a dimension of size 0");
  expectHas(given(2, {2, -1}), "column 'x' has entries with a dimension of size -1");
  expectHas(given(1, {1, 1, 1, 1, 1, 1, 1, 1, 1}), "column 'x' has entries of 9 dimensions, the limit is 8");
  expectHas(given(1, {4096, 4097}), "column 'x' has entries of more than 16777216 elements");
  expectHas(given(1, {int64_t{1} << 40, int64_t{1} << 40}), "more than 16777216 elements");
  expectHas(given(0, {2}), "0 rows");
  expectHas(given(int64_t{1} << 20, {1 << 20}), "column 'x' (1048576 rows of 1048576xf64) makes the table larger");
  expectHas(given(int64_t{1} << 60, {1 << 20}), "column 'x' has 1152921504606846976 rows");
  expectHas(refused({"", {{"x", Element::f64, 2, data, {2}}, {"y", Element::f64, 4, data}}}),
            "column 'y' has 4 rows, but column 'x' has 2");

  auto numbers = std::make_shared<arrow::DoubleBuilder>();
  arrow::ListBuilder ragged(arrow::default_memory_pool(), numbers);
  ASSERT_TRUE(ragged.Append().ok() && numbers->AppendValues({1, 2}).ok() && ragged.Append().ok());
  std::string error = refused(*ragged.Finish());
  expectHas(error, "column 'x' has type list<");
  expectHas(error, "cast it to fixed-size lists");
  expectHas(refused(lists(array<arrow::StringBuilder>(std::vector<std::string>{"a", "b"}), {2})), "expected booleans");
  arrow::FixedSizeListBuilder empty(arrow::default_memory_pool(), std::make_shared<arrow::DoubleBuilder>(), 0);
  ASSERT_TRUE(empty.AppendValues(3).ok());
  expectHas(refused(*empty.Finish()), "dimension of size 0");
  expectHas(refused(lists(array<arrow::Int8Builder>(std::vector<int8_t>{1}), {1, 1, 1, 1, 1, 1, 1, 1, 1, 1})),
            "dimensions, the limit is 8");
}

TEST_F(Shapes, ReadRowsOfShapedColumns) {
  auto data = pixels(4 * 6);
  auto table = imported({"", {{"image", Element::u8, 4, data.data(), {3, 2}}}});
  const TableRows dataset(std::make_shared<Dataset>("t", "1", 4, table.columns, table.storage));
  std::vector<int64_t> rows{3, -1, 0, 4, 3, std::numeric_limits<int64_t>::max()};
  std::vector<uint8_t> same(6 * rows.size(), 99);
  dataset.readRows({"image"}, rows, Element::u8, same.data());
  std::vector<float> floats(6 * rows.size(), 99);
  dataset.readRows({"image"}, rows, Element::f32, floats.data());
  for (size_t at = 0; at < same.size(); ++at) {
    int64_t row = rows[at / 6];
    uint8_t expected = row >= 0 && row < 4 ? data[static_cast<size_t>(row) * 6 + at % 6] : 0;
    EXPECT_EQ(same[at], expected) << at;
    EXPECT_EQ(floats[at], expected) << at;
  }
}

TEST_F(Shapes, SurviveInTheStore) {
  world.store = folder.file("store");
  auto data = pixels(3 * 6);
  std::vector<int64_t> words{1, 2, 3, 4, 5, 6};
  {
    Owner first(world.environment());
    DatasetSource source{
        "", {{"image", Element::u8, 3, data.data(), {3, 2}}, {"word", Element::i64, 3, words.data(), {2}}}};
    auto with = options("kept");
    with.bounds = {{"word", {2, 5}}};
    ASSERT_EQ(errorText(first.registerDataset(source, with)), "");
  }
  Owner second(world.environment());
  auto records = second.datasets();
  ASSERT_TRUE(bool(records));
  ASSERT_EQ(records->size(), 1u);
  const std::vector<Column> &columns = (*records)[0].columns;
  EXPECT_EQ(columns[0].dims, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(columns[1].dims, (std::vector<int64_t>{2}));
  for (const auto &entry : std::filesystem::directory_iterator(world.store + "/datasets")) {
    auto table = mapTable(entry.path(), 3, columns);
    ASSERT_TRUE(bool(table)) << llvm::toString(table.takeError());
    EXPECT_EQ(contents<uint8_t>(*table, 0), data);
    EXPECT_EQ(contents<int64_t>(*table, 1), (std::vector<int64_t>{2, 2, 3, 4, 5, 5}));
    for (const Column &column : table->columns) {
      // Used where it lies in the mapped file: Arrow pads buffers to 8 bytes, enough for any element.
      EXPECT_EQ(reinterpret_cast<uintptr_t>(column.data) % 8, 0u) << column.name;
    }
    // The catalogue and the file have to agree on the shape too.
    std::vector<Column> other = columns;
    other[0].dims = {6};
    expectHas(errorText(mapTable(entry.path(), 3, other).takeError()), "column 'image' differs");
  }
}

/// Small tables of any types and shapes, through the store: what is kept is what was given.
TEST_F(Shapes, RandomTables) {
  world.store = folder.file("store");
  Owner owner(world.environment());
  constexpr Element kKept[] = {Element::i1,  Element::u8,  Element::i8,  Element::i16,
                               Element::i32, Element::i64, Element::f32, Element::f64};
  for (int round = 0; round < 40; ++round) {
    auto rows = static_cast<int64_t>(1 + random() % 5);
    std::vector<std::vector<double>> memory; // as bytes, aligned
    DatasetSource source;
    for (size_t count = 1 + random() % 4; source.arrays.size() < count;) {
      NamedArray made{"c" + std::to_string(source.arrays.size()), kKept[random() % std::size(kKept)], rows};
      int64_t elements = rows;
      for (size_t rank = random() % 4; made.dims.size() < rank;) {
        made.dims.push_back(static_cast<int64_t>(1 + random() % 3));
        elements *= made.dims.back();
      }
      memory.emplace_back(static_cast<size_t>(elements));
      std::vector<double> numbers(static_cast<size_t>(elements));
      for (double &value : numbers) {
        value = static_cast<double>(static_cast<int64_t>(random() % 200)) - (made.element == Element::u8 ? 0 : 100);
      }
      runtime::convertElements(Element::f64, numbers.data(), made.element, memory.back().data(), elements);
      made.data = memory.back().data();
      source.arrays.push_back(std::move(made));
    }
    std::string name = "t" + std::to_string(round);
    ASSERT_EQ(errorText(owner.registerDataset(source, options(name))), "");
    auto records = owner.datasets();
    ASSERT_TRUE(bool(records));
    auto record = llvm::find_if(*records, [&](const DatasetRecord &known) { return known.name == name; });
    auto table = mapTable(world.store + "/datasets/" + record->file, rows, record->columns);
    ASSERT_TRUE(bool(table)) << llvm::toString(table.takeError());
    for (auto [column, given] : llvm::zip_equal(table->columns, source.arrays)) {
      EXPECT_EQ(column.dims, given.dims);
      size_t bytes = static_cast<size_t>(rows) * runtime::byteWidth(given.element);
      for (int64_t dim : given.dims) {
        bytes *= static_cast<size_t>(dim);
      }
      EXPECT_EQ(std::memcmp(column.data, given.data, bytes), 0) << name << " " << column.name;
    }
  }
}

} // namespace sojourn::owner::test
