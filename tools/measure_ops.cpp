// SPDX-License-Identifier: Apache-2.0
// Times one-op programs on one thread beside their prices: the other half of tools/prices.py, which writes the
// programs. Input: per case a line with its name and how each argument is filled, a module in core form, and a line
// `end`. Output: a line of JSON per case.
#include "dialect/CoreForm.h"
#include "dialect/Signature.h"
#include "passes/Price.h"
#include "runtime/Execute.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>

using namespace sojourn;
using runtime::Element;

namespace {

/// Shortest time that is believed, and longest that is spent on one case.
constexpr double kLeast = 2e-3, kMost = 0.1;

/// A table that is as long as its fill says; all of it is zeros.
class Zeros final : public runtime::RowSource {
public:
  explicit Zeros(int64_t count) : count(count) {}
  int64_t rows() const override { return count; }
  void readRows(llvm::ArrayRef<std::string> columns, llvm::ArrayRef<int64_t> indices, Element element,
                void *out) const override {
    std::memset(out, 0, columns.size() * indices.size() * runtime::byteWidth(element));
  }

private:
  int64_t count;
};

/// `LEAST:MOST` is uniform between two numbers, `LEAST` alone is that number.
struct Fill {
  double least = 0, most = 0;
  explicit Fill(llvm::StringRef text) {
    auto [first, second] = text.split(':');
    least = std::strtod(first.str().c_str(), nullptr);
    most = second.empty() ? least : std::strtod(second.str().c_str(), nullptr);
  }
};

template <typename T>
void fill(void *data, int64_t count, const Fill &fill, std::mt19937_64 &random) {
  for (int64_t i = 0; i < count; ++i) {
    const double share = static_cast<double>(random() >> 11) * 0x1p-53;
    static_cast<T *>(data)[i] =
        static_cast<T>(fill.least == fill.most ? fill.least : fill.least + share * (fill.most - fill.least));
  }
}

void fill(const runtime::HostTensor &tensor, const Fill &by, std::mt19937_64 &random) {
  const int64_t count = tensor.type.numel();
  void *data = tensor.buffer->data();
  std::memset(data, 0, tensor.type.bytes());
  switch (tensor.type.element) {
  case Element::f32: return fill<float>(data, count, by, random);
  case Element::f64: return fill<double>(data, count, by, random);
  case Element::c64: return fill<float>(data, 2 * count, by, random);
  case Element::c128: return fill<double>(data, 2 * count, by, random);
  case Element::i64: return fill<int64_t>(data, count, by, random);
  case Element::i32: return fill<int32_t>(data, count, by, random);
  default: // halves and small integers: converted
    std::vector<float> wide(static_cast<size_t>(count));
    fill<float>(wide.data(), count, by, random);
    runtime::convertElements(Element::f32, wide.data(), tensor.type.element, data, count);
  }
}

/// A field of /proc/self/status, in bytes.
int64_t memory(llvm::StringRef field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (llvm::StringRef(line).starts_with(field)) {
      return std::stoll(line.substr(field.size() + 1)) * 1024;
    }
  }
  return 0;
}

/// Forgets the largest size that the process ever had.
void forgetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

struct Measured {
  double seconds = 0;
  int64_t grown = 0;
  std::string error;
};

Measured measure(const runtime::Executable &executable, llvm::ArrayRef<runtime::Binding> bindings) {
  using Clock = std::chrono::steady_clock;
  Measured measured;
  runtime::BufferPool buffers;
  runtime::ArenaPool arenas;
  runtime::RunOptions options;
  options.threads = 1;
  options.buffers = &buffers;
  options.arenas = &arenas;
  forgetPeak();
  const int64_t before = memory("VmRSS");
  double spent = 0;
  measured.seconds = INFINITY;
  // The first run meets cold memory; the fastest of the others counts, or the first where it is long.
  for (int run = 0; run < 2 || (spent < kMost && measured.seconds * run < kLeast * 10); ++run) {
    const auto start = Clock::now();
    auto results = executable.run(bindings, options);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (!results) {
      measured.error = llvm::toString(results.takeError());
      return measured;
    }
    if (run == 0) {
      measured.grown = memory("VmHWM") - before;
    }
    spent += seconds;
    measured.seconds = std::min(measured.seconds, seconds);
    if (spent > kMost * 5) {
      break;
    }
  }
  return measured;
}

void runCase(mlir::MLIRContext &context, llvm::ArrayRef<llvm::StringRef> words, llvm::StringRef text) {
  llvm::StringRef name = words.front();
  auto fail = [&](const std::string &why) {
    std::printf("{\"name\": \"%s\", \"error\": \"", name.str().c_str());
    for (char letter : why) {
      std::putchar(letter == '"' || letter == '\\' || static_cast<unsigned char>(letter) < ' ' ? '\'' : letter);
    }
    std::printf("\"}\n");
  };
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module) {
    return fail("no module");
  }
  const Price price = priceOf(*module);
  auto executable = runtime::Executable::create(*module);
  if (!executable) {
    return fail(llvm::toString(executable.takeError()));
  }
  std::mt19937_64 random(1);
  std::vector<runtime::Binding> bindings;
  std::vector<std::unique_ptr<Zeros>> tables;
  for (auto [index, spec] : llvm::enumerate((*executable)->args())) {
    if (index + 1 >= words.size()) {
      return fail("no fill for argument " + std::to_string(index));
    }
    const Fill by(words[index + 1]);
    runtime::Binding binding;
    if (spec.kind == StepArg::Table) {
      binding.table = tables.emplace_back(std::make_unique<Zeros>(static_cast<int64_t>(by.least))).get();
    } else {
      binding.tensor = {spec.type, runtime::BufferPool::global().allocate(spec.type.bytes())};
      fill(binding.tensor, by, random);
    }
    bindings.push_back(std::move(binding));
  }
  double library = 0;
  for (mlir::Operation &op : module->lookupSymbol<mlir::func::FuncOp>(kStepName).getBody().front()) {
    library += librarySeconds(&op);
  }
  const Measured measured = measure(**executable, bindings);
  if (!measured.error.empty()) {
    return fail(measured.error);
  }
  std::printf(
      "{\"name\": \"%s\", \"operations\": %llu, \"arena\": %llu, \"planned\": %zu, \"seconds\": %.9g, \"grown\": "
      "%lld, \"library\": %.9g}\n",
      name.str().c_str(), static_cast<unsigned long long>(price.operations),
      static_cast<unsigned long long>(price.arenaBytes), (*executable)->runMemory().bytes(1), measured.seconds,
      static_cast<long long>(measured.grown), library);
}

} // namespace

int main() {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadDialects(context);
  for (std::string line; std::getline(std::cin, line);) {
    llvm::SmallVector<llvm::StringRef> words;
    llvm::SplitString(line, words);
    std::string text;
    for (std::string part; std::getline(std::cin, part) && part != "end";) {
      text += part + '\n';
    }
    if (!words.empty()) {
      runCase(context, words, text);
    }
    std::fflush(stdout);
  }
  return 0;
}
