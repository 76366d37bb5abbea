// SPDX-License-Identifier: Apache-2.0
// Goal: runs on private rows flush denormal numbers, on each thread and in each library, and no other run does. Oracle:
// the same arithmetic on numbers of which those that are denormal were replaced by 0.
#include "runtime/Buffer.h"
#include "runtime/Denormals.h"
#include "runtime/Execute.h"
#include "runtime/Team.h"
#include "test/runtime/Support.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace sojourn;
using namespace sojourn::runtime;
using namespace sojourn::test;

namespace {

template <class T>
T flushed(T x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(T(0), x) : x;
}

/// Run once with and once without `isPrivate`.
template <class T>
std::vector<T> run(const std::string &text, const std::vector<std::vector<T>> &arguments, bool isPrivate,
                   unsigned threads) {
  Context context;
  auto module = context.parse(text);
  EXPECT_TRUE(module);
  auto executable = Executable::create(*module);
  EXPECT_TRUE(bool(executable));
  std::vector<Binding> bindings;
  for (size_t index = 0; index < arguments.size(); ++index) {
    bindings.push_back(
        {{(*executable)->args()[index].type, copyOf(arguments[index].data(), arguments[index].size() * sizeof(T))},
         nullptr});
  }
  RunOptions options;
  options.threads = threads;
  options.isPrivate = isPrivate;
  auto results = (*executable)->run(bindings, options);
  EXPECT_TRUE(bool(results));
  std::vector<T> found((*results)[0].type.bytes() / sizeof(T));
  std::memcpy(found.data(), (*results)[0].buffer->data(), found.size() * sizeof(T));
  return found;
}

/// Signs random, magnitudes from the least denormal number to `2^8` times the greatest.
template <class T>
std::vector<T> tiny(size_t count, std::mt19937 &random) {
  std::vector<T> numbers(count);
  for (T &x : numbers) {
    const T scale = std::ldexp(std::numeric_limits<T>::min(),
                               std::uniform_int_distribution(-std::numeric_limits<T>::digits, 8)(random));
    x = scale * std::uniform_real_distribution<T>(1, 2)(random) * (random() % 2 ? 1 : -1);
  }
  return numbers;
}

template <class T>
struct Denormals : testing::Test {
  const unsigned seed = std::random_device()();
  std::mt19937 random{seed};
  testing::ScopedTrace trace{__FILE__, __LINE__, "seed " + std::to_string(seed)};
  const std::string element = sizeof(T) == 4 ? "f32" : "f64";
};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(Denormals, Floats);

} // namespace

/// Both operands and results: 0.5 x is flushed where x is the least normal number.
TYPED_TEST(Denormals, AreFlushedElementByElement) {
  using T = TypeParam;
  const size_t count = 100'000;
  const std::string type = "tensor<" + std::to_string(count) + "x" + this->element + ">";
  const std::string text = "func.func @step(%x: " + type + " {sojourn.kind = \"state\"}, %y: " + type +
                           " {sojourn.kind = \"state\"}) -> (" + type + " {sojourn.result = \"publish\"}) {\n" +
                           "  %z = sojourn.mul %x, %y : " + type + ", " + type + "\n  return %z : " + type + "\n}";
  const std::vector<T> x = tiny<T>(count, this->random);
  std::vector<T> y(count);
  for (T &each : y) {
    each = std::uniform_real_distribution<T>(T(0.25), 4)(this->random);
  }
  for (unsigned threads : {1u, 3u}) {
    const auto isFlushed = run<T>(text, {x, y}, true, threads), isNot = run<T>(text, {x, y}, false, threads);
    size_t differ = 0;
    for (size_t at = 0; at < count; ++at) {
      ASSERT_EQ(isNot[at], x[at] * y[at]);
      // A product that rounds up to the least normal number may be flushed before or after it is rounded.
      const T exact = flushed(x[at]) * y[at];
      if (std::abs(exact) != std::numeric_limits<T>::min()) {
        ASSERT_EQ(isFlushed[at], flushed(exact)) << x[at] << " * " << y[at];
      }
      differ += isFlushed[at] != isNot[at];
    }
    EXPECT_GT(differ, count / 4);
  }
  EXPECT_FALSE(flushesDenormals()) << "this thread is as before";
}

/// In the library's products, too.
TYPED_TEST(Denormals, AreFlushedInProducts) {
  using T = TypeParam;
  const size_t n = 96;
  const std::string type = "tensor<" + std::to_string(n) + "x" + std::to_string(n) + "x" + this->element + ">";
  const std::string text =
      "func.func @step(%x: " + type + " {sojourn.kind = \"state\"}, %y: " + type + " {sojourn.kind = \"state\"}) -> (" +
      type + " {sojourn.result = \"publish\"}) {\n" +
      "  %z = sojourn.dot %x, %y, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : " + type +
      ", " + type + " -> " + type + "\n  return %z : " + type + "\n}";
  // y is diagonal: every element is one product and zeros.
  std::vector<T> x = tiny<T>(n * n, this->random), y(n * n, 0);
  for (size_t at = 0; at < n; ++at) {
    y[at * n + at] = 1;
  }
  for (unsigned threads : {1u, 2u}) {
    const auto isFlushed = run<T>(text, {x, y}, true, threads);
    const auto isNot = run<T>(text, {x, y}, false, threads);
    for (size_t at = 0; at < n * n; ++at) {
      ASSERT_EQ(isNot[at], x[at]);
      ASSERT_EQ(isFlushed[at], flushed(x[at]));
    }
  }
}

/// Helpers take the mode of the thread that asks them, task by task.
TEST(DenormalScopes, HelpersTakeTheMode) {
  for (bool flushes : {true, false, true}) {
    const DenormalScope scope(flushes);
    std::atomic<size_t> same{0};
    runTasks(64, 3, [&](size_t) { same += flushesDenormals() == flushes; });
    EXPECT_EQ(same, 64u);
    {
      const DenormalScope inner(!flushes);
      EXPECT_EQ(flushesDenormals(), !flushes);
    }
    EXPECT_EQ(flushesDenormals(), flushes);
  }
}
