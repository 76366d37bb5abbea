// SPDX-License-Identifier: Apache-2.0
// What a request costs to read grows no faster than the request. Method: one thing at a time is
// doubled; each size is decoded in a process of its own, whose time and peak memory are compared.
#include "runtime/Limits.h"
#include "test/runtime/RawProgram.h"
#include "test/runtime/Support.h"

#include <gtest/gtest.h>

#include <functional>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace sojourn;
using namespace sojourn::test;
using namespace sojourn_wire;

namespace {

struct Cost {
  double seconds = 0, megabytes = 0;
  int code = -1;
};

/// Processor time and growth of peak memory of `work` in a process of its own, which ends with what it returns.
Cost measure(const std::function<int()> &work) {
  auto once = [](const std::function<int()> &job) {
    pid_t child = fork();
    if (child == 0) {
      // Bounded even where what is tested is broken.
      rlimit memory{size_t{3} << 30, size_t{3} << 30}, time{60, 60};
      setrlimit(RLIMIT_DATA, &memory);
      setrlimit(RLIMIT_CPU, &time);
      _exit(job());
    }
    int state = 0;
    rusage usage{};
    EXPECT_EQ(wait4(child, &state, 0, &usage), child);
    auto seconds = [](const timeval &t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return Cost{seconds(usage.ru_utime) + seconds(usage.ru_stime), static_cast<double>(usage.ru_maxrss) / 1024,
                WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state)};
  };
  Cost empty = once([] { return 0; }), cost = once(work);
  cost.megabytes -= empty.megabytes;
  return cost;
}

constexpr int kDecoded = 0, kRefused = 1;

int decode(const std::string &program, const std::string &debug = "") {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = runtime::decodeProgram(context, program, debug);
  if (!module) {
    std::string text = llvm::toString(module.takeError());
    std::fprintf(stderr, "refused: %.200s\n", text.c_str());
    return kRefused;
  }
  return kDecoded;
}

const std::vector<int64_t> kVector = {3};

RawProgram arguments(size_t count) {
  RawProgram program;
  uint32_t type = program.type(Element::f32, kVector);
  for (size_t i = 0; i < count; ++i) {
    program.arg(ArgKind_state, type);
  }
  return program;
}

RawProgram results(size_t count) {
  RawProgram program = arguments(count);
  for (uint32_t i = 0; i < count; ++i) {
    program.result(i, ResultKind_commit, i);
  }
  return program;
}

std::vector<std::string> columnNames(size_t count, size_t length = 8) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    std::string name = std::to_string(i);
    names.push_back(std::string(length - std::min(length, name.size()), 'c') + name);
  }
  return names;
}

/// One op reads every column.
RawProgram columns(size_t count) {
  RawProgram program;
  uint32_t index = program.type(Element::i64, kVector),
           rows = program.type(Element::f32, {3, static_cast<int64_t>(count)});
  uint32_t positions = program.arg(ArgKind_upload, index), table = program.table(1000, columnNames(count));
  program.op("read_rows", {table, positions}, {rows}, {{"columns", AttrKind_strings, {}, columnNames(count)}});
  return program;
}

/// Each of many ops reads one of many columns.
RawProgram reads(size_t count) {
  RawProgram program;
  uint32_t index = program.type(Element::i64, kVector), row = program.type(Element::f32, {3, 1});
  uint32_t positions = program.arg(ArgKind_upload, index), table = program.table(1000, columnNames(count));
  for (const std::string &name : columnNames(count)) {
    program.op("read_rows", {table, positions}, {row}, {{"columns", AttrKind_strings, {}, {name}}});
  }
  return program;
}

RawProgram ops(size_t count) {
  RawProgram program;
  uint32_t type = program.type(Element::f32, kVector), value = program.arg(ArgKind_upload, type);
  for (size_t i = 0; i < count; ++i) {
    value = program.op("neg", {value}, {type});
  }
  program.result(value);
  return program;
}

/// Ops that all read one value, and ops of many operands.
RawProgram operands(size_t count) {
  RawProgram program;
  uint32_t type = program.type(Element::f32, kVector), value = program.arg(ArgKind_upload, type);
  for (size_t i = 0; i < count / 2000; ++i) {
    uint32_t wide = program.type(Element::f32, {3 * 2000});
    program.op("concat", std::vector<uint32_t>(2000, value), {wide}, {{"dim", AttrKind_integer, {0}}});
  }
  return program;
}

RawProgram types(size_t count) {
  RawProgram program;
  for (size_t i = 0; i < count; ++i) {
    program.arg(ArgKind_upload, program.type(Element::i8, {1, 1, static_cast<int64_t>(i + 1), 1}));
  }
  return program;
}

RawProgram attributes(size_t count) {
  RawProgram program;
  uint32_t type = program.type(Element::i64, kVector);
  for (size_t i = 0; i < count; ++i) {
    program.op("iota", {}, {type}, {{"dim", AttrKind_integer, {0}}});
  }
  return program;
}

/// Decodes, and prints the program as the owner's log does.
int decodeAndPrint(const std::string &program, const std::string &debug) {
  constexpr size_t kText = size_t{1} << 20;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = runtime::decodeProgram(context, program, debug);
  if (!module) {
    std::fprintf(stderr, "refused: %.200s\n", llvm::toString(module.takeError()).c_str());
    return kRefused;
  }
  std::string text = runtime::printProgram(**module, kText);
  return text.size() <= kText && llvm::StringRef(text).ends_with("...") ? kDecoded : kRefused + 1;
}

/// `count` ops, each called from as deep as may be, in files with names as long as may be.
RawDebug deepCalls(size_t count, size_t nameBytes) {
  RawDebug debug;
  debug.files = {std::string(nameBytes, 'f')};
  for (uint32_t depth = 0; depth + 1 < runtime::limits::kLocationDepth; ++depth) {
    debug.locations.emplace_back(0, depth, 0, depth);
  }
  uint32_t deepest = static_cast<uint32_t>(debug.locations.size());
  for (size_t i = 0; i < count; ++i) {
    debug.locations.emplace_back(0, static_cast<uint32_t>(i), 1, deepest);
    debug.opLocations.push_back(static_cast<uint32_t>(debug.locations.size()));
  }
  return debug;
}

struct Case {
  const char *name;
  RawProgram (*make)(size_t);
  size_t size;
};

class Doubling : public testing::TestWithParam<Case> {};

TEST_P(Doubling, DoesNotTripleTheCost) {
  std::string once = GetParam().make(GetParam().size).bytes(), twice = GetParam().make(2 * GetParam().size).bytes();
  Cost small = measure([&] { return decode(once); }), large = measure([&] { return decode(twice); });
  std::printf("%zu bytes: %.3f s, %.1f MB; %zu bytes: %.3f s, %.1f MB\n", once.size(), small.seconds, small.megabytes,
              twice.size(), large.seconds, large.megabytes);
  EXPECT_EQ(small.code, kDecoded);
  ASSERT_EQ(large.code, kDecoded);
  // Below these the start of a process hides what is compared.
  EXPECT_LT(large.seconds, 3 * std::max(small.seconds, 0.1));
  EXPECT_LT(large.megabytes, 3 * std::max(small.megabytes, 20.0));
}

INSTANTIATE_TEST_SUITE_P(Scale, Doubling,
                         testing::Values(Case{"arguments", arguments, 30'000}, Case{"results", results, 30'000},
                                         Case{"columns", columns, 30'000}, Case{"reads", reads, 30'000},
                                         Case{"ops", ops, 80'000}, Case{"operands", operands, 1'000'000},
                                         Case{"types", types, 30'000}, Case{"attributes", attributes, 80'000}),
                         [](const auto &info) { return std::string(info.param.name); });

/// Short requests that once asked for gigabytes or minutes.
void expectCheap(const char *what, int code, const std::function<int()> &work) {
  Cost cost = measure(work);
  std::printf("%s: %.3f s, %.1f MB\n", what, cost.seconds, cost.megabytes);
  EXPECT_EQ(cost.code, code) << what;
  EXPECT_LT(cost.megabytes, 500) << what;
  EXPECT_LT(cost.seconds, 20) << what;
}

TEST(Scale, AMegabyteOfArguments) {
  std::string program = results(runtime::limits::kArguments).bytes();
  EXPECT_GT(program.size(), size_t{1} << 20);
  expectCheap("arguments", kDecoded, [&] { return decode(program); });
}

TEST(Scale, TextsOfDeepCallsAreCut) {
  for (auto [count, bytes] : {std::pair<size_t, size_t>{2'000, 4'096}, {100'000, 4'096}, {100'000, 10}}) {
    std::string program = ops(count).bytes(), debug = deepCalls(count, bytes).bytes();
    expectCheap("deep calls", kDecoded, [&] { return decodeAndPrint(program, debug); });
  }
}

TEST(Scale, TextsOfWideTablesAreCut) {
  std::string program = reads(30'000).bytes();
  expectCheap("wide table", kDecoded, [&] { return decodeAndPrint(program, ""); });
}

TEST(Scale, OneLongTextUsedOften) {
  std::string column(60'000, 'c');
  RawProgram names;
  uint32_t index = names.type(Element::i64, kVector), rows = names.type(Element::f32, {3, 1'000'000});
  uint32_t positions = names.arg(ArgKind_upload, index), table = names.table(1000, {column});
  names.op("read_rows", {table, positions}, {rows},
           {{"columns", AttrKind_strings, std::vector<int64_t>(1'000'000, names.string(column))}});
  std::string program = names.bytes();
  expectCheap("columns", kRefused, [&] { return decode(program); });

  RawProgram wide;
  uint32_t type = wide.type(Element::f32, kVector), value = wide.arg(ArgKind_upload, type);
  for (int i = 0; i < 150'000; ++i) {
    wide.op(column, {value}, {type});
  }
  program = wide.bytes();
  expectCheap("op names", kRefused, [&] { return decode(program); });
}

TEST(Scale, ManyTablesOfTheSameColumns) {
  RawProgram many;
  for (size_t i = 0; i < runtime::limits::kTables; ++i) {
    many.table(1000, columnNames(20'000));
  }
  std::string program = many.bytes();
  expectCheap("tables", kRefused, [&] { return decode(program); });
}

} // namespace
