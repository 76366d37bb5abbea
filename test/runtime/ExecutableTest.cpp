// SPDX-License-Identifier: Apache-2.0
// The plan: memory well below the sum of all values, nothing allocated per instruction when warm,
// dependences for labels, equal results run after run.
#include "runtime/Buffer.h"
#include "runtime/Execute.h"
#include "runtime/Program.h"
#include "test/runtime/Support.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

namespace {
std::atomic<size_t> allocations{0};
std::atomic<bool> counting{false};
} // namespace

// Sanitizers bring these operators themselves, and a program may have them once.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SOJOURN_SANITIZED
#endif
#endif

#ifndef SOJOURN_SANITIZED
// Counts what our code (and the C++ parts of the library's kernels) takes from the heap.
__attribute__((noinline)) void *operator new(std::size_t size) {
  if (counting) {
    ++allocations;
  }
  if (void *memory = std::malloc(size ? size : 1)) {
    return memory;
  }
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void *memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
#endif

using namespace sojourn;
using namespace sojourn::runtime;
using namespace sojourn::test;

namespace {

std::unique_ptr<Executable> compile(Context &context, const std::string &text) {
  auto module = context.parse(text);
  EXPECT_TRUE(module);
  auto executable = Executable::create(*module);
  EXPECT_TRUE(static_cast<bool>(executable)) << (executable ? "" : llvm::toString(executable.takeError()));
  return std::move(*executable);
}

/// Random values of every argument: floats in [0.1, 1), integers in {0, 1}.
std::vector<Binding> bindRandom(const Executable &executable, std::mt19937 &random) {
  std::vector<Binding> bindings;
  for (const ArgSpec &spec : executable.args()) {
    Binding binding;
    binding.tensor = {spec.type, BufferPool::global().allocate(spec.type.bytes())};
    for (int64_t i = 0; i < spec.type.numel(); ++i) {
      double value = 0.1 + 0.9 * (random() / 4294967296.0);
      void *data = binding.tensor.buffer->data();
      switch (spec.type.element) {
      case Element::f32: static_cast<float *>(data)[i] = static_cast<float>(value); break;
      case Element::f64: static_cast<double *>(data)[i] = value; break;
      case Element::i64: static_cast<int64_t *>(data)[i] = random() % 2; break;
      default: ADD_FAILURE() << "element not used here";
      }
    }
    bindings.push_back(std::move(binding));
  }
  return bindings;
}

size_t warmAllocations(Executable &executable, const std::vector<Binding> &bindings) {
  for (int i = 0; i < 3; ++i) {
    llvm::cantFail(executable.run(bindings));
  }
  allocations = 0;
  counting = true;
  auto results = executable.run(bindings);
  counting = false;
  llvm::cantFail(std::move(results));
  return allocations;
}

/// `count` rounds of elementwise work and transposes: instructions of our own alone.
std::string ownOps(int count) {
  std::string body;
  std::string value = "%x";
  for (int i = 0; i < count; ++i) {
    std::string n = std::to_string(i);
    body += "%a" + n + " = sojourn.add " + value + ", %y : tensor<16x16xf32>, tensor<16x16xf32>\n";
    body += "%m" + n + " = sojourn.mul %a" + n + ", %x : tensor<16x16xf32>, tensor<16x16xf32>\n";
    body += "%t" + n + " = sojourn.transpose %m" + n + ", perm = [1, 0] : tensor<16x16xf32>\n";
    value = "%t" + n;
  }
  return "module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\n"
         "func.func @step(%x: tensor<16x16xf32> {sojourn.kind = \"upload\"}, %y: tensor<16x16xf32> {sojourn.kind = "
         "\"upload\"}) -> (tensor<16x16xf32> {sojourn.result = \"publish\"}) {\n" +
         body + "return " + value + " : tensor<16x16xf32>\n}\n}";
}

TEST(Executable, ArenaIsWellBelowTheSumOfValues) {
  Context context;
  auto executable = compile(context, readFile(SOJOURN_GOLDEN "/v1.mlir"));
  EXPECT_GT(executable->runMemory().arena, 0u);
  EXPECT_LT(executable->runMemory().arena * 2, executable->sumOfValueBytes())
      << executable->runMemory().arena << " of " << executable->sumOfValueBytes();
}

TEST(Executable, NothingIsAllocatedPerWarmInstruction) {
#ifdef SOJOURN_SANITIZED
  GTEST_SKIP() << "the sanitizer's own operators do not count";
#endif
  Context context;
  std::mt19937 random(std::random_device{}());
  auto few = compile(context, ownOps(4)), many = compile(context, ownOps(40));
  auto inputs = bindRandom(*few, random);
  EXPECT_GT(many->instructionCount(), few->instructionCount());
  EXPECT_EQ(warmAllocations(*few, inputs), warmAllocations(*many, inputs));
}

TEST(Executable, WarmRunsTakeNoMemoryFromTheSystem) {
  Context context;
  std::mt19937 random(std::random_device{}());
  auto executable = compile(context, readFile(SOJOURN_GOLDEN "/v1.mlir"));
  auto inputs = bindRandom(*executable, random);
  for (int i = 0; i < 3; ++i) {
    llvm::cantFail(executable->run(inputs));
  }
  size_t before = BufferPool::global().systemAllocations();
  for (int i = 0; i < 10; ++i) {
    llvm::cantFail(executable->run(inputs));
  }
  EXPECT_EQ(BufferPool::global().systemAllocations(), before);
}

TEST(Executable, InputsAreNeverWrittenAndRunsRepeat) {
  Context context;
  std::mt19937 random(std::random_device{}());
  auto executable = compile(context, readFile(SOJOURN_GOLDEN "/v1.mlir"));
  auto inputs = bindRandom(*executable, random);
  std::vector<std::string> before;
  auto bytes = [](const HostTensor &tensor) {
    return std::string(static_cast<const char *>(tensor.buffer->data()), tensor.type.bytes());
  };
  for (const Binding &binding : inputs) {
    before.push_back(bytes(binding.tensor));
  }
  auto first = llvm::cantFail(executable->run(inputs));
  auto second = llvm::cantFail(executable->run(inputs));
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(bytes(inputs[i].tensor), before[i]) << "argument " << i;
  }
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(bytes(first[i]), bytes(second[i])) << "result " << i;
  }
}

} // namespace
