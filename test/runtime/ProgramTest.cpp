// SPDX-License-Identifier: Apache-2.0
// The format's promise: golden bytes both ways, equal modules equal bytes, and no bytes that crash.
#include "runtime/Program.h"
#include "test/runtime/Support.h"

#include <gtest/gtest.h>

#include <cstdlib>
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
  auto module = context.parse(readFile(golden + "/v1.mlir"));
  ASSERT_TRUE(module);
  auto encoded = runtime::encodeProgram(*module);
  ASSERT_TRUE(static_cast<bool>(encoded)) << llvm::toString(encoded.takeError());
  EXPECT_EQ(encoded->program, readFile(golden + "/v1.program"));
  EXPECT_EQ(encoded->hash, runtime::hashProgram(encoded->program));
}

TEST(Program, GoldenBytesGiveGoldenText) {
  Context context;
  auto module = runtime::decodeProgram(context.context, readFile(golden + "/v1.program"), "");
  ASSERT_TRUE(static_cast<bool>(module)) << llvm::toString(module.takeError());
  auto text = context.parse(readFile(golden + "/v1.mlir"));
  EXPECT_EQ(print(**module), print(*text));
}

TEST(Program, SchemaConformsToVersionOne) {
  std::string command = std::string(SOJOURN_FLATC) + " --conform " + golden + "/Program_v1.fbs " + SOJOURN_SCHEMA;
  EXPECT_EQ(std::system(command.c_str()), 0);
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

/// Flipped bits, cut ends and changed words: refused or read, never a crash; what is read encodes.
TEST(Program, DamagedBytesNeverCrash) {
  std::string bytes = readFile(golden + "/v1.program");
  unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  Context context;
  int refused = 0;
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
  }
  EXPECT_GT(refused, 500);
}

} // namespace
