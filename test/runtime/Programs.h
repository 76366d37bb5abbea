// SPDX-License-Identifier: Apache-2.0
// Small programs for tests of the executor: text, arguments with random contents, results as bytes.
#ifndef SOJOURN_TEST_RUNTIME_PROGRAMS_H
#define SOJOURN_TEST_RUNTIME_PROGRAMS_H
#include "dialect/Signature.h"
#include "runtime/Execute.h"
#include "test/runtime/Support.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace sojourn::test {

/// A fresh seed, or SOJOURN_TEST_SEED; printed with every failure in its scope.
inline unsigned testSeed() {
  const char *given = std::getenv("SOJOURN_TEST_SEED");
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
}

/// Numbers from testSeed(), which is printed.
inline std::mt19937_64 freshRandom() {
  unsigned seed = testSeed();
  std::printf("SOJOURN_TEST_SEED=%u\n", seed);
  return std::mt19937_64(seed);
}

/// A module of arguments (types), a body over %0, %1, ..., and results (name, type).
inline std::string programText(const std::vector<std::string> &args, const std::string &body,
                               const std::vector<std::pair<std::string, std::string>> &results) {
  auto join = [](const std::vector<std::string> &parts) {
    std::string text;
    for (const std::string &part : parts) {
      text += (text.empty() ? "" : ", ") + part;
    }
    return text;
  };
  std::vector<std::string> arguments, names, types, outs;
  for (size_t i = 0; i < args.size(); ++i) {
    bool table = args[i].find("table") != std::string::npos;
    arguments.push_back("%" + std::to_string(i) + ": " + args[i] + " {sojourn.kind = \"" +
                        (table ? "table" : "upload") + "\"}");
  }
  for (const auto &[name, type] : results) {
    names.push_back(name);
    types.push_back(type);
    outs.push_back(type + " {sojourn.result = \"publish\"}");
  }
  return "module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\nfunc.func @step(" +
         join(arguments) + ") -> (" + join(outs) + ") {\n" + body + "\nreturn " + join(names) + " : " + join(types) +
         "\n}\n}";
}

inline std::unique_ptr<runtime::Executable> compileText(Context &context, const std::string &text) {
  auto module = context.parse(text);
  EXPECT_TRUE(module) << text;
  if (!module) {
    return nullptr;
  }
  auto executable = runtime::Executable::create(*module);
  if (!executable) {
    ADD_FAILURE() << llvm::toString(executable.takeError()) << "\n" << text;
    return nullptr;
  }
  return std::move(*executable);
}

/// Numbers that `draw()` gives for every element of every tensor argument.
template <typename Draw>
std::vector<runtime::Binding> bindWith(const runtime::Executable &executable, Draw draw) {
  using runtime::Element;
  std::vector<runtime::Binding> bindings;
  for (const runtime::ArgSpec &spec : executable.args()) {
    runtime::Binding binding;
    if (spec.kind != StepArg::Table) {
      binding.tensor = {spec.type, runtime::BufferPool::global().allocate(spec.type.bytes())};
      void *data = binding.tensor.buffer->data();
      for (int64_t i = 0; i < spec.type.numel(); ++i) {
        double value = draw(spec.type.element);
        switch (spec.type.element) {
        case Element::f32: static_cast<float *>(data)[i] = static_cast<float>(value); break;
        case Element::f64: static_cast<double *>(data)[i] = value; break;
        case Element::i64: static_cast<int64_t *>(data)[i] = static_cast<int64_t>(value); break;
        case Element::i32: static_cast<int32_t *>(data)[i] = static_cast<int32_t>(value); break;
        default: ADD_FAILURE() << "element not used here";
        }
      }
    }
    bindings.push_back(std::move(binding));
  }
  return bindings;
}

inline std::string bytesOf(const runtime::HostTensor &tensor) {
  return {static_cast<const char *>(tensor.buffer->data()), tensor.type.bytes()};
}

inline std::vector<std::string> bytesOf(const std::vector<runtime::HostTensor> &tensors) {
  std::vector<std::string> all;
  for (const runtime::HostTensor &tensor : tensors) {
    all.push_back(bytesOf(tensor));
  }
  return all;
}

/// The contents as doubles, which hold all that tests use exactly.
inline std::vector<double> numbersOf(const runtime::HostTensor &tensor) {
  using runtime::Element;
  std::vector<double> numbers(static_cast<size_t>(tensor.type.numel()));
  const void *data = tensor.buffer->data();
  for (size_t i = 0; i < numbers.size(); ++i) {
    switch (tensor.type.element) {
    case Element::f32: numbers[i] = static_cast<const float *>(data)[i]; break;
    case Element::f64: numbers[i] = static_cast<const double *>(data)[i]; break;
    case Element::i64: numbers[i] = static_cast<double>(static_cast<const int64_t *>(data)[i]); break;
    case Element::i32: numbers[i] = static_cast<const int32_t *>(data)[i]; break;
    default: ADD_FAILURE() << "element not used here";
    }
  }
  return numbers;
}

/// The largest number of rows among the instructions of a name.
inline int64_t rowsOf(const runtime::Executable &plan, const std::string &name) {
  std::string text = plan.describePlan();
  int64_t rows = 0;
  for (size_t from = 0; (from = text.find(" " + name + " in ", from)) != std::string::npos;) {
    from += name.size() + 5;
    rows = std::max<int64_t>(rows, std::atoll(text.c_str() + from));
  }
  return rows;
}

/// A step with all kinds of instructions: products, a softmax, a sort, scans, reductions, updates.
inline const char *kStepBody = R"(
  %w = sojourn.dot %0, %1, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]
    : tensor<96x128xf32>, tensor<128x160xf32> -> tensor<96x160xf32>
  %m = sojourn.reduce_max %w, dims = [1] : tensor<96x160xf32>
  %mb = sojourn.broadcast %m, dims = [0] : tensor<96xf32> -> tensor<96x160xf32>
  %d = sojourn.sub %w, %mb : tensor<96x160xf32>, tensor<96x160xf32>
  %e = sojourn.exp %d : tensor<96x160xf32>
  %s = sojourn.reduce_sum %e, dims = [1] : tensor<96x160xf32>
  %sb = sojourn.broadcast %s, dims = [0] : tensor<96xf32> -> tensor<96x160xf32>
  %p = sojourn.div %e, %sb : tensor<96x160xf32>, tensor<96x160xf32>
  %v, %i = sojourn.sort %p, dim = 1, descending = true : tensor<96x160xf32>
  %c = sojourn.cumsum %v, dim = 1 : tensor<96x160xf32>
  %t = sojourn.tanh %c : tensor<96x160xf32>
  %all = sojourn.reduce_sum %t, dims = [0, 1] : tensor<96x160xf32>)";

inline std::string stepText() {
  return programText({"tensor<96x128xf32>", "tensor<128x160xf32>"}, kStepBody,
                     {{"%t", "tensor<96x160xf32>"}, {"%i", "tensor<96x160xi64>"}, {"%all", "tensor<f32>"}});
}

} // namespace sojourn::test

#endif // SOJOURN_TEST_RUNTIME_PROGRAMS_H
