// SPDX-License-Identifier: Apache-2.0
// Runs of one plan: several at once, with equal bits whatever the number of threads; arenas that come
// from a pool and go back; times of instructions.
#include "runtime/Buffer.h"
#include "runtime/Profile.h"
#include "runtime/VectorKernels.h"
#include "test/runtime/Programs.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <set>
#include <thread>

using namespace sojourn;
using namespace sojourn::runtime;
using namespace sojourn::test;

namespace {

TEST(Run, OnePlanRunsOnSeveralThreadsAtOnce) {
  unsigned seed = testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Context context;
  auto plan = compileText(context, stepText());
  ASSERT_TRUE(plan);
  constexpr int kThreads = 4, kRuns = 25;
  ArenaPool arenas;
  std::vector<std::vector<Binding>> inputs;
  std::vector<std::vector<std::string>> expected;
  for (int t = 0; t < kThreads; ++t) {
    inputs.push_back(bindWith(*plan, [&](Element) { return normal(random); }));
    expected.push_back(bytesOf(llvm::cantFail(plan->run(inputs.back(), {.threads = 1}))));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < kRuns; ++k) {
        RunOptions options;
        options.threads = 1 + static_cast<unsigned>(k) % 2;
        options.arenas = &arenas;
        wrong += bytesOf(llvm::cantFail(plan->run(inputs[static_cast<size_t>(t)], options))) !=
                 expected[static_cast<size_t>(t)];
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(arenas.leasedBytes(), 0u);
  EXPECT_GT(arenas.idleBytes(), 0u);
  EXPECT_GE(arenas.peakBytes(), plan->runMemory().arena);
}

/// Rows of a table that cannot be read.
class BrokenRows final : public RowSource {
public:
  int64_t rows() const override { return 100; }
  void readRows(llvm::ArrayRef<std::string>, llvm::ArrayRef<int64_t>, Element, void *) const override {
    throw std::runtime_error("the disk is gone");
  }
};

TEST(Run, FailedRunsReturnTheirArenaAndTheNextOneWorks) {
  Context context;
  auto plan = compileText(context, programText({"!sojourn.table<100, \"age\" : f64>", "tensor<8xi64>"},
                                               R"(%n = sojourn.neg %1 : tensor<8xi64>
    %r = sojourn.read_rows %0, %n, columns = ["age"] : !sojourn.table<100, "age" : f64>, tensor<8xi64> -> tensor<8x1xf32>
    %v, %i = sojourn.sort %r, dim = 0, descending = false : tensor<8x1xf32>)",
                                               {{"%v", "tensor<8x1xf32>"}}));
  ASSERT_TRUE(plan);
  ArenaPool arenas;
  BrokenRows table;
  auto inputs = bindWith(*plan, [](Element) { return 1; });
  inputs[0].table = &table;
  for (int k = 0; k < 10; ++k) {
    RunOptions options;
    options.arenas = &arenas;
    auto result = plan->run(inputs, options);
    ASSERT_FALSE(static_cast<bool>(result));
    std::string text = llvm::toString(result.takeError());
    EXPECT_NE(text.find("the disk is gone"), std::string::npos) << text;
    EXPECT_EQ(arenas.leasedBytes(), 0u);
  }
}

TEST(Run, AHundredPlansShareTheirArenas) {
  Context context;
  constexpr size_t kArena = size_t{64} << 20;
  // Two intermediate values of 32 MB each that live at the same time.
  std::string text = programText({"tensor<8388608xf32>"},
                                 R"(%r = sojourn.reverse %0, dims = [0] : tensor<8388608xf32>
    %c = sojourn.cumsum %r, dim = 0 : tensor<8388608xf32>
    %d = sojourn.cummax %c, dim = 0 : tensor<8388608xf32>
    %s = sojourn.slice %d, start = [8388607], limit = [8388608], stride = [1] : tensor<8388608xf32>)",
                                 {{"%s", "tensor<1xf32>"}});
  ArenaPool arenas(2 * kArena);
  std::vector<std::unique_ptr<Executable>> plans;
  size_t planBytes = 0;
  for (int k = 0; k < 100; ++k) {
    plans.push_back(compileText(context, text));
    ASSERT_TRUE(plans.back());
    planBytes += plans.back()->planBytes();
  }
  ASSERT_GE(plans[0]->runMemory().arena, kArena);
  EXPECT_LT(planBytes, size_t{100} * (64u << 10));
  auto inputs = bindWith(*plans[0], [](Element) { return 1; });
  for (size_t k = 0; k < plans.size(); k += 20) {
    RunOptions options;
    options.arenas = &arenas;
    auto values = llvm::cantFail(plans[k]->run(inputs, options));
    EXPECT_EQ(numbersOf(values[0])[0], 8388608.0);
  }
  EXPECT_EQ(arenas.leasedBytes(), 0u);
  EXPECT_LE(arenas.peakBytes(), 2 * kArena);
}

/// One element has no step: the largest stride is not multiplied by anything.
TEST(Run, ASliceOrUpdateOfOneElementMayHaveAnyStride) {
  const unsigned seed = testSeed();
  const ::testing::ScopedTrace trace{__FILE__, __LINE__, "SOJOURN_TEST_SEED=" + std::to_string(seed)};
  std::mt19937 random(seed);
  Context context;
  for (const std::string stride : {"1", "2", "4611686018427387904", "9223372036854775807"}) {
    const auto plan = compileText(context, R"(
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%x: tensor<4x216xf64> {sojourn.kind = "upload"})
      -> (tensor<1x216xf64> {sojourn.result = "publish"}, tensor<4x216xf64> {sojourn.result = "publish"}) {
    %row = sojourn.slice %x, start = [2, 0], limit = [3, 216], stride = [)" +
                                               stride + R"(, 1] : tensor<4x216xf64>
    %two = sojourn.add %row, %row : tensor<1x216xf64>, tensor<1x216xf64>
    %y = sojourn.update_slice %x, %two, start = [0, 0], stride = [)" +
                                               stride + R"(, 1] : tensor<4x216xf64>, tensor<1x216xf64>
    return %row, %y : tensor<1x216xf64>, tensor<4x216xf64>
  }
}
)");
    ASSERT_TRUE(plan);
    std::normal_distribution<double> normal;
    const std::vector<Binding> inputs = bindWith(*plan, [&](Element) { return normal(random); });
    const auto *x = static_cast<const double *>(inputs[0].tensor.buffer->data());
    auto results = llvm::cantFail(plan->run(inputs));
    const auto *row = static_cast<const double *>(results[0].buffer->data());
    const auto *y = static_cast<const double *>(results[1].buffer->data());
    for (int64_t k = 0; k < 4 * 216; ++k) {
      ASSERT_EQ(y[k], k < 216 ? 2 * x[2 * 216 + k] : x[k]) << "stride " << stride << ", element " << k;
      if (k < 216) {
        ASSERT_EQ(row[k], x[2 * 216 + k]) << "stride " << stride;
      }
    }
  }
}

TEST(ArenaPool, KeepsNoMoreThanItMay) {
  ArenaPool arenas(1 << 20);
  {
    auto a = arenas.acquire(700 << 10), b = arenas.acquire(700 << 10);
    EXPECT_NE(a.data(), b.data());
    EXPECT_GE(arenas.leasedBytes(), size_t{1400} << 10);
    std::memset(a.data(), 1, a.size());
  }
  EXPECT_EQ(arenas.leasedBytes(), 0u);
  EXPECT_LE(arenas.idleBytes(), size_t{1} << 20);
  EXPECT_GT(arenas.idleBytes(), 0u);
  // A small one leaves the large one alone; a far larger one is not kept.
  { auto small = arenas.acquire(100); }
  { auto large = arenas.acquire(8 << 20); }
  EXPECT_LE(arenas.idleBytes(), size_t{1} << 20);
  EXPECT_EQ(arenas.acquire(0).data(), nullptr);
}

TEST(Run, ProfilesCountEveryInstructionOfEveryRun) {
  unsigned seed = testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Context context;
  auto plan = compileText(context, stepText());
  ASSERT_TRUE(plan);
  llvm::SmallString<128> folder;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("sojourn-profile", folder));
  constexpr int kThreads = 2, kRuns = 3;
  auto inputs = bindWith(*plan, [&](Element) { return normal(random); });
  std::string table;
  {
    Profile profile(folder.str().str());
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int k = 0; k < kRuns; ++k) {
          RunOptions options;
          options.profile = &profile;
          llvm::cantFail(plan->run(inputs, options));
        }
      });
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
    table = profile.table();
  }
  EXPECT_NE(table.find(std::to_string(kThreads * kRuns) + " runs"), std::string::npos) << table;
  EXPECT_NE(table.find("dot"), std::string::npos) << table;

  auto text = llvm::MemoryBuffer::getFile(folder + "/trace.json");
  ASSERT_TRUE(static_cast<bool>(text));
  auto json = llvm::json::parse((*text)->getBuffer());
  ASSERT_TRUE(static_cast<bool>(json)) << llvm::toString(json.takeError());
  const llvm::json::Array *events = json->getAsObject()->getArray("traceEvents");
  ASSERT_NE(events, nullptr);
  EXPECT_EQ(events->size(), plan->instructionCount() * kThreads * kRuns);
  std::string described = plan->describePlan();
  std::set<int64_t> threads;
  for (const llvm::json::Value &value : *events) {
    const llvm::json::Object &event = *value.getAsObject();
    std::string line = std::to_string(*event.getObject("args")->getInteger("instruction")) + " " +
                       event.getString("name")->str() + " in ";
    EXPECT_NE(described.find(line), std::string::npos) << line << "\n" << described;
    EXPECT_GT(*event.getNumber("dur"), 0);
    EXPECT_GE(*event.getNumber("ts"), 0);
    EXPECT_GT(*event.getObject("args")->getInteger("bytes"), 0) << line;
    EXPECT_EQ(event.getString("ph")->str(), "X");
    threads.insert(*event.getInteger("tid"));
  }
  EXPECT_EQ(threads.size(), size_t{kThreads});

  // The same table, in a file per plan.
  std::error_code code;
  int tables = 0;
  for (llvm::sys::fs::directory_iterator entry(folder, code), end; entry != end && !code; entry.increment(code)) {
    llvm::StringRef name(entry->path());
    if (name.ends_with(".txt")) {
      ++tables;
      EXPECT_EQ(readFile(name.str()), table);
    }
  }
  EXPECT_EQ(tables, 1);
  llvm::sys::fs::remove_directories(folder);
}

TEST(Run, ProfilesThatCannotBeWrittenSaySo) {
  Profile profile;
  llvm::Error error = profile.writeChromeTrace("/proc/no such folder/trace.json");
  std::string text = llvm::toString(std::move(error));
  EXPECT_NE(text.find("cannot write the profile to '/proc/no such folder/trace.json'"), std::string::npos) << text;
}

// --- Bits and threads -----------------------------------------------------------------------------

std::string dims(std::initializer_list<int64_t> sizes, const char *element = "f32") {
  std::string text = "tensor<";
  for (int64_t size : sizes) {
    text += std::to_string(size) + "x";
  }
  return text + element + ">";
}

/// A random program of one family, with small, odd or large sizes.
std::string randomProgram(std::mt19937 &random) {
  auto pick = [&](std::initializer_list<int64_t> sizes) { return *(sizes.begin() + random() % sizes.size()); };
  auto n = [](int64_t number) { return std::to_string(number); };
  switch (random() % 7) {
  case 0: {
    int64_t m = pick({1, 3, 64, 127, 256, 517}), k = pick({1, 5, 96, 300, 1024}), c = pick({1, 7, 64, 129, 384, 600});
    bool left = random() % 2, right = random() % 2;
    std::string a = left ? dims({k, m}) : dims({m, k}), b = right ? dims({c, k}) : dims({k, c});
    return programText({a, b},
                       "%y = sojourn.dot %0, %1, lhs_batch = [], rhs_batch = [], lhs_contract = [" + n(left ? 0 : 1) +
                           "], rhs_contract = [" + n(right ? 1 : 0) + "] : " + a + ", " + b + " -> " + dims({m, c}),
                       {{"%y", dims({m, c})}});
  }
  case 1: {
    int64_t batch = pick({2, 5, 48}), m = pick({1, 17, 64, 200}), k = pick({8, 33, 128}), c = pick({1, 31, 96});
    std::string a = dims({batch, m, k}), b = dims({batch, k, c}), y = dims({batch, m, c});
    return programText({a, b},
                       "%y = sojourn.dot %0, %1, lhs_batch = [0], rhs_batch = [0], lhs_contract = [2], rhs_contract "
                       "= [1] : " +
                           a + ", " + b + " -> " + y,
                       {{"%y", y}});
  }
  case 2: {
    int64_t images = pick({1, 3, 16, 33}), in = pick({1, 4, 16}), out = pick({1, 8, 20}), side = pick({5, 12, 28});
    std::string x = dims({images, in, side, side}), w = dims({out, in, 3, 3}), y = dims({images, out, side, side});
    std::string options = ", stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1 : ";
    return programText({x, w},
                       "%y = sojourn.conv %0, %1" + options + x + ", " + w + "\n%dx = sojourn.conv_grad_input %y, %1" +
                           options + y + ", " + w + " -> " + x + "\n%dw = sojourn.conv_grad_weight %y, %0" + options +
                           y + ", " + x + " -> " + w,
                       {{"%y", y}, {"%dx", x}, {"%dw", w}});
  }
  case 3: {
    int64_t sizes[3] = {pick({1, 3, 70, 256}), pick({1, 9, 128}), pick({1, 11, 64, 200})};
    unsigned mask = 1 + random() % 7;
    std::string reduced, kept = "tensor<";
    for (unsigned d = 0; d < 3; ++d) {
      if (mask >> d & 1) {
        reduced += (reduced.empty() ? "" : ", ") + n(d);
      } else {
        kept += n(sizes[d]) + "x";
      }
    }
    kept += "f32>";
    std::string x = dims({sizes[0], sizes[1], sizes[2]}), t = dims({sizes[2], sizes[0], sizes[1]});
    std::string text = "%t = sojourn.transpose %0, perm = [1, 2, 0] : " + dims({sizes[2], sizes[0], sizes[1]}) + "\n";
    std::vector<std::pair<std::string, std::string>> results;
    for (const char *kind : {"sum", "prod", "max", "min"}) {
      std::string name = "%" + std::string(kind);
      text += name + " = sojourn.reduce_" + kind + " %t, dims = [" + reduced + "] : " + x + "\n";
      results.emplace_back(name, kept);
    }
    return programText({t}, text, results);
  }
  case 4: return stepText();
  case 5: {
    int64_t a = pick({1, 6, 300}), b = pick({2, 65, 1000}), dim = static_cast<int64_t>(random() % 2);
    std::string x = dims({a, b}), i = dims({a, b}, "i64");
    std::string line = ", dim = " + n(dim);
    return programText({x},
                       "%c = sojourn.cumsum %0" + line + " : " + x + "\n%l = sojourn.cumlogsumexp %0" + line + " : " +
                           x + "\n%v, %i = sojourn.sort %0" + line + ", descending = false : " + x,
                       {{"%c", x}, {"%l", x}, {"%v", x}, {"%i", i}});
  }
  default: {
    int64_t rows = pick({1, 100, 5000}), width = pick({1, 16, 33}), count = pick({1, 50, 3000});
    std::string x = dims({rows, width}), i = dims({count}, "i64"), u = dims({count, width});
    return programText({x, i, u},
                       "%p = sojourn.put \"add\" %0, %1, %2, dim = 0 : " + x + ", " + i + ", " + u +
                           "\n%t = sojourn.take %p, %1, dim = 0 : " + x + ", " + i +
                           "\n%e = sojourn.logistic %t : " + u,
                       {{"%p", x}, {"%e", u}});
  }
  }
}

TEST(Run, BitsDoNotDependOnTheNumberOfThreads) {
  unsigned seed = testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Context context;
  for (int k = 0; k < 60; ++k) {
    std::string text = randomProgram(random);
    auto plan = compileText(context, text);
    ASSERT_TRUE(plan);
    auto inputs = bindWith(*plan, [&](Element element) {
      return element == Element::i64 ? static_cast<double>(random() % 120) - 10 : normal(random);
    });
    auto expected = bytesOf(llvm::cantFail(plan->run(inputs, {.threads = 1})));
    for (unsigned threads : {2u, 3u, 4u, 1u}) {
      auto found = bytesOf(llvm::cantFail(plan->run(inputs, {.threads = threads})));
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_TRUE(found[i] == expected[i]) << "result " << i << " on " << threads << " threads:\n" << text;
      }
    }
  }
}

TEST(Run, MemoryInsideOfKernelsCounts) {
  Context context;
  std::string x = "tensor<1x1x512x512xf32>", y = "tensor<1x1x384x384x";
  auto pool = compileText(context, programText({x},
                                               "%y, %i = sojourn.pool_max %0, window = [129, 129], stride = [1, 1], "
                                               "padding = [0, 0], dilation = [1, 1] : " +
                                                   x,
                                               {{"%y", y + "f32>"}, {"%i", y + "i64>"}}));
  ASSERT_TRUE(pool);
  // Two sets of values with positions; of one plane they are needed once, however many workers there are.
  EXPECT_GE(pool->runMemory().arena, 2u * 16 * 512 * 512);
  EXPECT_LT(pool->runMemory().scratch, 1u << 20);
  auto convolution = [&](int64_t results) {
    std::string image = dims({1, 64, 64, 64}), w = dims({results, 64, 3, 3});
    return compileText(
        context, programText({image, w},
                             "%y = sojourn.conv %0, %1, stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = "
                             "1 : " +
                                 image + ", " + w,
                             {{"%y", dims({1, results, 64, 64})}}));
  };
  auto few = convolution(4), many = convolution(64); // the library's, and an own one
  ASSERT_TRUE(few && many);
  EXPECT_GE(few->runMemory().library, 2u * 4 * 64 * 64 * 64);
  if (frameKernels(Element::f32).windows == nullptr) {
    return; // this processor rounds products: all are the library's
  }
  EXPECT_EQ(many->runMemory().library, 0u);
  EXPECT_GE(many->runMemory().scratch, 4u * (64 * 6 * 66 + 4 * 64 * 64)); // a band's frame, and its results
}

/// Adds to y, dx or dw (null: not wanted) what 3x3 kernels of `groups` groups do to one image with a border of 1.
void convolveInDoubles(const float *x, const float *w, const float *gradient, int64_t in, int64_t out, int64_t groups,
                       int64_t height, int64_t width, double *y, double *dx, double *dw) {
  int64_t perIn = in / groups, perOut = out / groups;
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < perIn; ++i) {
      for (int64_t p = 0; p < 9; ++p) {
        int64_t k = (o * perIn + i) * 9 + p, c = o / perOut * perIn + i, dr = p / 3 - 1, ds = p % 3 - 1;
        for (int64_t r = std::max<int64_t>(0, -dr); r < std::min(height, height - dr); ++r) {
          for (int64_t s = std::max<int64_t>(0, -ds); s < std::min(width, width - ds); ++s) {
            int64_t at = (c * height + r + dr) * width + s + ds, to = (o * height + r) * width + s;
            if (y) {
              y[to] += static_cast<double>(x[at]) * w[k];
            } else {
              dx[at] += static_cast<double>(gradient[to]) * w[k];
              dw[k] += static_cast<double>(gradient[to]) * x[at];
            }
          }
        }
      }
    }
  }
}

TEST(Run, FewLargeImagesAreSharedOut) {
  unsigned seed = testSeed();
  SCOPED_TRACE("SOJOURN_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  constexpr int64_t height = 47, width = 45;
  for (auto [images, in, out, groups] : {std::array<int64_t, 4>{1, 64, 60, 1},
                                         {1, 3, 70, 1},
                                         {1, 64, 96, 4},
                                         {1, 40, 40, 40},
                                         {2, 64, 60, 1},
                                         {3, 64, 60, 1},
                                         {2, 64, 96, 4}}) {
    SCOPED_TRACE(std::to_string(images) + " images, groups " + std::to_string(groups));
    Context context;
    std::string x = dims({images, in, height, width}), w = dims({out, in / groups, 3, 3}),
                y = dims({images, out, height, width});
    std::string options =
        ", stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = " + std::to_string(groups) + " : ";
    auto plan = compileText(context, programText({x, w, y},
                                                 "%y = sojourn.conv %0, %1" + options + x + ", " + w +
                                                     "\n%dx = sojourn.conv_grad_input %2, %1" + options + y + ", " + w +
                                                     " -> " + x + "\n%dw = sojourn.conv_grad_weight %2, %0" + options +
                                                     y + ", " + x + " -> " + w,
                                                 {{"%y", y}, {"%dx", x}, {"%dw", w}}));
    ASSERT_TRUE(plan);
    if (in * out / groups > 1000) {
      for (const char *name : {"conv", "conv_grad_input", "conv_grad_weight"}) {
        EXPECT_GT(rowsOf(*plan, name), 1) << plan->describePlan();
      }
    }
    auto inputs = bindWith(*plan, [&](Element) { return normal(random); });
    auto results = llvm::cantFail(plan->run(inputs, {.threads = 1}));
    auto expected = bytesOf(results);
    for (unsigned threads : {2u, 3u, 4u, 1u}) {
      EXPECT_TRUE(bytesOf(llvm::cantFail(plan->run(inputs, {.threads = threads}))) == expected) << threads;
    }
    auto floats = [](const HostTensor &tensor) { return static_cast<const float *>(tensor.buffer->data()); };
    const float *a = floats(inputs[0].tensor), *b = floats(inputs[1].tensor), *c = floats(inputs[2].tensor);
    std::vector<double> wanted[3];
    for (size_t i = 0; i < 3; ++i) {
      wanted[i].assign(static_cast<size_t>(results[i].type.numel()), 0);
    }
    for (int64_t n = 0; n < images; ++n) {
      int64_t at = n * in * height * width, to = n * out * height * width;
      convolveInDoubles(a + at, b, nullptr, in, out, groups, height, width, wanted[0].data() + to, nullptr, nullptr);
      convolveInDoubles(a + at, b, c + to, in, out, groups, height, width, nullptr, wanted[1].data() + at,
                        wanted[2].data());
    }
    for (size_t i = 0; i < 3; ++i) {
      double worst = 0;
      for (size_t k = 0; k < wanted[i].size(); ++k) {
        worst = std::max(worst, std::abs(wanted[i][k] - floats(results[i])[k]));
      }
      EXPECT_LT(worst, 2e-3) << "result " << i;
    }
  }
}

} // namespace
