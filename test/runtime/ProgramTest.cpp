// SPDX-License-Identifier: Apache-2.0
// The format's promise: golden bytes both ways, equal modules equal bytes, and no bytes that crash.
#include "runtime/Program.h"
#include "runtime/Program_generated.h"
#include "test/runtime/Support.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

using namespace sojourn;
using namespace sojourn::test;

namespace {

const std::string golden = SOJOURN_GOLDEN;

std::string print(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

TEST(Program, GoldenTextGivesGoldenBytes) {
  Context context;
  auto module = context.parse(readFile(golden + "/v3.mlir"));
  ASSERT_TRUE(module);
  auto encoded = runtime::encodeProgram(*module);
  ASSERT_TRUE(static_cast<bool>(encoded)) << llvm::toString(encoded.takeError());
  EXPECT_EQ(encoded->program, readFile(golden + "/v3.program"));
  EXPECT_EQ(encoded->hash, runtime::hashProgram(encoded->program));
}

TEST(Program, GoldenBytesGiveGoldenText) {
  Context context;
  auto module = runtime::decodeProgram(context.context, readFile(golden + "/v3.program"), "");
  ASSERT_TRUE(static_cast<bool>(module)) << llvm::toString(module.takeError());
  auto text = context.parse(readFile(golden + "/v3.mlir"));
  EXPECT_EQ(print(**module), print(*text));
}

/// Bytes of a version that is no longer read say so, and what to do.
TEST(Program, OlderVersionsAreRefused) {
  for (std::string version : {"1", "2"}) {
    Context context;
    auto module = runtime::decodeProgram(context.context, readFile(golden + "/v" + version + ".program"), "");
    ASSERT_FALSE(static_cast<bool>(module));
    std::string message;
    llvm::handleAllErrors(module.takeError(), [&](const runtime::ProgramError &error) {
      EXPECT_EQ(error.code(), runtime::ErrorCode::Version);
      message = error.text();
    });
    EXPECT_NE(message.find("the program uses format version " + version + ", this side reads 3; encode it again"),
              std::string::npos)
        << message;
  }
}

/// Fields are appended from version 2 on.
TEST(Program, SchemaConformsToOlderVersions) {
  for (std::string version : {"2", "3"}) {
    std::string command =
        std::string(SOJOURN_FLATC) + " --conform " + golden + "/Program_v" + version + ".fbs " + SOJOURN_SCHEMA;
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
}

/// Roles and parts go through bytes and back; equal parts are one record, and a step of one owner has none of it.
TEST(Program, RolesOfAJointStep) {
  const std::string text =
      R"(module attributes {sojourn.parties = 3 : i64, sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%a: tensor<6xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 2, 0], rows = [1, 3, 2], stride = 1>}, %b: tensor<6x2xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 2>}, %c: tensor<6xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 2, 0], rows = [1, 3, 2], stride = 1>}, %d: tensor<f32> {sojourn.kind = "upload", sojourn.party = 2 : i64}, %t: !sojourn.table<?, "x" : f64> {sojourn.kind = "table", sojourn.party = 1 : i64}) -> (tensor<6xf32> {sojourn.result = "keep"}) {
    return %a : tensor<6xf32>
  }
})";
  Context context;
  auto module = context.parse(text);
  ASSERT_TRUE(module);
  auto encoded = runtime::encodeProgram(*module);
  ASSERT_TRUE(static_cast<bool>(encoded)) << llvm::toString(encoded.takeError());
  EXPECT_EQ(sojourn_wire::GetProgram(encoded->program.data())->parts()->size(), 2u);
  auto decoded = runtime::decodeProgram(context.context, encoded->program, "");
  ASSERT_TRUE(static_cast<bool>(decoded)) << llvm::toString(decoded.takeError());
  EXPECT_EQ(print(**decoded), print(*module));
  EXPECT_EQ(llvm::cantFail(runtime::encodeProgram(**decoded)).program, encoded->program);
}

std::string tableProgram(const std::string &columns) {
  return "module attributes {sojourn.promotion = \"torch\", sojourn.phase = \"core\"} {\n"
         "  func.func @step(%t: !sojourn.table<5" +
         columns +
         "> {sojourn.kind = \"table\"}) -> (tensor<i64> {sojourn.result = \"publish\"}) {\n"
         "    %c = sojourn.constant 1 : i64\n    return %c : tensor<i64>\n  }\n}\n";
}

/// Sizes of entries go through bytes and back, and where no column has any the fields are absent.
TEST(Program, ColumnsKeepTheirShapes) {
  Context context;
  for (const char *columns : {"", ", \"a\" : f64, \"b\" : i1", ", \"a\" : 3x1xf64, \"b\" : i1, \"c\" : 7xui8",
                              ", \"a\" : 1x2x1x2x1x2x1x2xi64"}) {
    auto module = context.parse(tableProgram(columns));
    ASSERT_TRUE(module) << columns;
    auto encoded = runtime::encodeProgram(*module);
    ASSERT_TRUE(static_cast<bool>(encoded)) << llvm::toString(encoded.takeError());
    const auto &record = *sojourn_wire::GetProgram(encoded->program.data())->tables()->Get(0);
    bool shaped = std::string(columns).find('x') != std::string::npos;
    EXPECT_EQ(record.column_ranks() != nullptr, shaped) << columns;
    EXPECT_EQ(record.column_dims_begin() != nullptr, shaped) << columns;
    auto decoded = runtime::decodeProgram(context.context, encoded->program, "");
    ASSERT_TRUE(static_cast<bool>(decoded)) << llvm::toString(decoded.takeError());
    EXPECT_EQ(print(**decoded), print(*module));
    auto again = runtime::encodeProgram(**decoded);
    ASSERT_TRUE(static_cast<bool>(again));
    EXPECT_EQ(again->program, encoded->program);
  }
}

template <typename T>
void put(const flatbuffers::Vector<T> *vector, uint32_t index, T value) {
  const_cast<flatbuffers::Vector<T> *>(vector)->Mutate(index, value);
}

template <typename T>
void shorten(const flatbuffers::Vector<T> *vector, uint32_t size) {
  auto *prefix = reinterpret_cast<uint8_t *>(const_cast<flatbuffers::Vector<T> *>(vector));
  std::memcpy(prefix, &size, sizeof(size));
}

void setVersion(sojourn_wire::Program &program, flatbuffers::voffset_t field, uint32_t version) {
  reinterpret_cast<flatbuffers::Table *>(&program)->SetField<uint32_t>(field, version, 0);
}

/// Entries that lie: each spelling is refused with what is wrong.
TEST(Program, WrongEntriesAreRefused) {
  Context context;
  auto encoded = runtime::encodeProgram(*context.parse(tableProgram(", \"a\" : 3x4xf64, \"b\" : i1")));
  ASSERT_TRUE(static_cast<bool>(encoded));
  using Wire = sojourn_wire::Program;
  using Record = sojourn_wire::TableRecord;
  using Change = void (*)(Wire &, const Record &);
  const std::pair<Change, const char *> changes[] = {
      {[](Wire &, const Record &t) { put<uint8_t>(t.column_ranks(), 0, 1); }, "dims that no type and no column uses"},
      {[](Wire &, const Record &t) { put<uint8_t>(t.column_ranks(), 0, 3); }, "sizes of its entries out of place"},
      {[](Wire &, const Record &t) { put<uint8_t>(t.column_ranks(), 0, 9); },
       "9 entry sizes in argument 0, column 0, the limit is 8"},
      {[](Wire &, const Record &t) { put<uint32_t>(t.column_dims_begin(), 0, 1); },
       "sizes of its entries out of place"},
      {[](Wire &, const Record &t) { put<uint32_t>(t.column_dims_begin(), 1, 2); },
       "sizes of its entries out of place"},
      {[](Wire &, const Record &t) { shorten(t.column_ranks(), 1); }, "does not have one begin and one entry rank"},
      {[](Wire &, const Record &t) { shorten(t.column_dims_begin(), 0); },
       "does not have one begin and one entry rank"},
      {[](Wire &p, const Record &) { put<int64_t>(p.dims(), 0, 0); }, "entries with a size of 0"},
      {[](Wire &p, const Record &) { put<int64_t>(p.dims(), 0, -7); }, "entries with a size of -7"},
      {[](Wire &p, const Record &) { put<int64_t>(p.dims(), 1, int64_t{1} << 62); }, "more than 16777216 elements"},
      {[](Wire &p, const Record &) { put<int64_t>(p.dims(), 1, (1 << 24) / 3 + 1); }, "more than 16777216 elements"},
      {[](Wire &p, const Record &t) {
         shorten(p.dims(), 0);
         put<uint8_t>(t.column_ranks(), 0, 0);
         put<uint32_t>(t.column_dims_begin(), 0, 0);
       },
       "lists entry shapes, but no column has one"},
      {[](Wire &p, const Record &) { setVersion(p, Wire::VT_DIALECT_VERSION, 1); },
       "dialect version 1, this side reads 3"},
      {[](Wire &p, const Record &) { setVersion(p, Wire::VT_FORMAT_VERSION, 4); },
       "format version 4, this side reads 3"},
  };
  for (const auto &[change, expected] : changes) {
    std::string bytes = encoded->program;
    auto &program = *flatbuffers::GetMutableRoot<Wire>(bytes.data());
    change(program, *program.tables()->Get(0));
    auto module = runtime::decodeProgram(context.context, bytes, "");
    ASSERT_FALSE(static_cast<bool>(module)) << expected;
    std::string message = llvm::toString(module.takeError());
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
}

TEST(Program, LocationsStayOutOfTheBytes) {
  Context context;
  const char *text = R"(module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
    func.func @step(%x: tensor<3xf32> {sojourn.kind = "upload"}) -> (tensor<3xf32> {sojourn.result = "publish"}) {
      %y = sojourn.neg %x : tensor<3xf32> loc("a.py":LINE:2)
      return %y : tensor<3xf32>
    }
  })";
  auto at = [&](const std::string &line) {
    std::string copy = text;
    copy.replace(copy.find("LINE"), 4, line);
    auto encoded = runtime::encodeProgram(*context.parse(copy));
    return std::move(*encoded);
  };
  auto first = at("7"), second = at("70");
  EXPECT_EQ(first.program, second.program);
  EXPECT_NE(first.debug, second.debug);
  auto module = runtime::decodeProgram(context.context, first.program, first.debug);
  ASSERT_TRUE(static_cast<bool>(module));
  std::string location;
  (*module)->walk([&](mlir::Operation *op) {
    if (op->getName().getStringRef() == "sojourn.neg") {
      location = runtime::describeLocation(op->getLoc());
    }
  });
  EXPECT_NE(location.find("a.py:7"), std::string::npos) << location;
}

TEST(Program, TextForPeopleParsesAndIsCut) {
  Context context;
  auto module = context.parse(readFile(golden + "/v1.mlir"));
  ASSERT_TRUE(module);
  std::string text = runtime::printProgram(*module, 1 << 20);
  auto again = context.parse(text);
  ASSERT_TRUE(again) << text;
  (*again)->setDiscardableAttrs((*module)->getDiscardableAttrDictionary());
  EXPECT_EQ(print(*again), print(*module));
  EXPECT_NE(text.find("  // -:"), std::string::npos) << text; // a place per op; the parser reads text, not a file
  for (size_t limit : {size_t{0}, size_t{2}, size_t{3}, size_t{100}, text.size() - 1}) {
    std::string cut = runtime::printProgram(*module, limit);
    EXPECT_LE(cut.size(), limit + 3);
    EXPECT_EQ(cut.substr(0, cut.size() - 3), text.substr(0, cut.size() - 3));
    EXPECT_TRUE(llvm::StringRef(cut).ends_with("...")) << cut;
  }
  EXPECT_EQ(runtime::printProgram(*module, text.size()), text);
}

TEST(Program, PlacesAreOneLineAndCut) {
  Context context;
  auto place = [&](const std::string &file, unsigned depth) {
    mlir::LocationAttr location = mlir::FileLineColLoc::get(&context.context, file, 7, 0);
    for (unsigned i = 0; i < depth; ++i) {
      location = mlir::CallSiteLoc::get(location, mlir::FileLineColLoc::get(&context.context, file, i, 0));
    }
    return runtime::describeLocation(location);
  };
  EXPECT_EQ(place("a.py", 1), "a.py:7 (called from a.py:0)");
  EXPECT_EQ(place("a\nforged line\x1b", 0), "a?forged line?:7");
  std::string cut = place(std::string(400, 'f'), 60);
  EXPECT_LE(cut.size(), 1'000u);
  EXPECT_TRUE(llvm::StringRef(cut).ends_with("..."));
  // No character is split.
  std::string wide;
  for (int i = 0; i < 1'000; ++i) {
    wide += "\u00e9";
  }
  cut = place(wide, 0);
  EXPECT_EQ(cut.size() % 2, 1u) << cut; // whole pairs and three points
}

TEST(Program, CapturedFormIsNoProgram) {
  Context context;
  auto module = context.parse(R"(module attributes {sojourn.promotion = "torch", sojourn.phase = "captured"} {
    func.func @step(%x: !sojourn.ref<3xf32> {sojourn.kind = "upload"}) {
      return
    }
  })");
  ASSERT_TRUE(module);
  auto encoded = runtime::encodeProgram(*module);
  EXPECT_FALSE(static_cast<bool>(encoded));
  llvm::consumeError(encoded.takeError());
}

/// A verifier of FlatBuffers takes a vector of 64-bit numbers at any multiple of 4 bytes.
TEST(Program, NumbersStandWhereTheyCanBeRead) {
  Context context;
  const std::string bytes = readFile(golden + "/v3.program");
  for (auto [field, what] : {std::pair(sojourn_wire::Program::VT_DIMS, "dims"),
                             std::pair(sojourn_wire::Program::VT_INTS, "attribute integers")}) {
    for (size_t offset : {0u, 4u}) { // of the length, which stands before the numbers
      std::string moved = bytes;
      moved.resize((moved.size() + 7) / 8 * 8 + offset);
      const auto *program = flatbuffers::GetRoot<flatbuffers::Table>(moved.data());
      const auto *vector = program->GetPointer<const flatbuffers::Vector<int64_t> *>(field);
      ASSERT_NE(vector, nullptr);
      ASSERT_GT(vector->size(), 0u);
      size_t at = static_cast<size_t>(reinterpret_cast<const char *>(program->GetAddressOf(field)) - moved.data());
      std::string copy(reinterpret_cast<const char *>(vector), 4 + 8 * vector->size());
      flatbuffers::WriteScalar(moved.data() + at, static_cast<flatbuffers::uoffset_t>(moved.size() - at));
      moved += copy;
      auto module = runtime::decodeProgram(context.context, moved, "");
      std::string problem = module ? "" : llvm::toString(module.takeError());
      std::string expected = "the " + std::string(what) + " are not aligned to 8 bytes";
      EXPECT_EQ(problem.find(expected) != std::string::npos, offset == 0) << problem;
      EXPECT_EQ(problem.empty(), offset == 4) << problem;
    }
  }
}

/// Flipped bits, cut ends and changed words: refused or read, never a crash; what is read encodes.
TEST(Program, DamagedBytesNeverCrash) {
  std::string bytes = readFile(golden + "/v3.program");
  unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  Context context;
  int refused = 0, read = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string damaged = bytes;
    switch (random() % 3) {
    case 0: damaged[random() % damaged.size()] ^= static_cast<char>(1 << (random() % 8)); break;
    case 1: damaged.resize(random() % damaged.size()); break;
    default: {
      size_t at = random() % (damaged.size() / 4) * 4;
      uint32_t word = random() % 2 ? random() : random() % 64;
      damaged.replace(at, 4, reinterpret_cast<const char *>(&word), 4);
    }
    }
    auto module = runtime::decodeProgram(context.context, damaged, "");
    if (!module) {
      ++refused;
      EXPECT_FALSE(llvm::toString(module.takeError()).empty());
      continue;
    }
    auto again = runtime::encodeProgram(**module);
    ASSERT_TRUE(static_cast<bool>(again)) << llvm::toString(again.takeError());
    ++read;
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(read, 20);
}

} // namespace
