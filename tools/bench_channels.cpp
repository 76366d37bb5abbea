// SPDX-License-Identifier: Apache-2.0
// Times one-op programs on classes of values: the other half of tools/bench_channels.py, which writes the programs and
// compares the classes. Usage: bench-channels SAMPLES SEED.
// Input: per case a line with its name and how each argument is filled, a module in core form, and a line `end`.
// Output: per case a line of JSON, then for each sample the number of its class (a byte each), then its nanoseconds
// (four bytes each).
#include "dialect/CoreForm.h"
#include "runtime/Execute.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <random>

using namespace sojourn;
using runtime::Element;

namespace {

/// Names that the report shows; the first one is compared with each other one.
constexpr std::array kClasses = {"random", "fixed",    "zeros",  "ones",     "denormals",
                                 "nan",    "infinity", "sorted", "reversed", "huge"};
constexpr size_t kRandom = 0, kFixed = 1;

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

/// `LEAST:MOST`: uniform where the class is random, and of the class else. `=LEAST:MOST`: one draw for all classes.
/// `@ROWS`: a table.
struct Fill {
  bool isVaried = true;
  double least = 0, most = 0;
  explicit Fill(llvm::StringRef text) {
    isVaried = !text.starts_with("=") && !text.starts_with("@");
    auto [first, second] = (isVaried ? text : text.drop_front()).split(':');
    least = std::strtod(first.str().c_str(), nullptr);
    most = second.empty() ? least : std::strtod(second.str().c_str(), nullptr);
  }
};

double uniform(const Fill &fill, std::mt19937_64 &random) {
  return fill.least + static_cast<double>(random() >> 11) * 0x1p-53 * (fill.most - fill.least);
}

/// Range of a type of integers.
std::pair<double, double> rangeOf(Element element) {
  const double bits = 8.0 * static_cast<double>(runtime::byteWidth(element));
  return element == Element::u8 ? std::pair(0.0, 255.0) : std::pair(-std::exp2(bits - 1), std::exp2(bits - 1) - 1);
}

/// The number of which a class consists.
double single(llvm::StringRef name, Element element) {
  if (name == "zeros" || name == "ones") {
    return name == "zeros" ? 0 : 1;
  }
  if (!runtime::isFloat(element) && !runtime::isComplex(element)) {
    auto [least, most] = rangeOf(element);
    return name == "denormals" ? least : name == "nan" ? std::max(-1.0, least) : name == "huge" ? most / 2 : most;
  }
  const bool isWide = element == Element::f64 || element == Element::c128, isHalf = element == Element::f16;
  return name == "nan"        ? std::numeric_limits<double>::quiet_NaN()
         : name == "infinity" ? std::numeric_limits<double>::infinity()
         : name == "huge"     ? (isWide   ? 1e308
                                 : isHalf ? 6e4
                                          : 3e38)
                              : (isWide   ? 5e-320
                                 : isHalf ? 1e-6
                                          : 1e-40);
}

template <typename T>
void store(const std::vector<double> &values, std::byte *out) {
  for (size_t at = 0; at < values.size(); ++at) {
    T value;
    if constexpr (std::is_same_v<T, int64_t>) {
      value = values[at] >= 0x1p63 ? std::numeric_limits<T>::max() : static_cast<T>(values[at]);
    } else {
      value = static_cast<T>(values[at]);
    }
    std::memcpy(out + at * sizeof(T), &value, sizeof(T));
  }
}

void store(Element element, const std::vector<double> &values, std::byte *out) {
  switch (element) {
  case Element::f32:
  case Element::c64: return store<float>(values, out);
  case Element::f64:
  case Element::c128: return store<double>(values, out);
  case Element::i64: return store<int64_t>(values, out);
  case Element::i32: return store<int32_t>(values, out);
  case Element::i1: {
    for (size_t at = 0; at < values.size(); ++at) {
      out[at] = static_cast<std::byte>(values[at] > 0.5);
    }
    return;
  }
  default: // halves and small integers: converted
    runtime::convertElements(Element::f64, values.data(), element, out, static_cast<int64_t>(values.size()));
  }
}

/// One argument, and a value of each class for it. The run always meets the same address, and what leads to it is the
/// same work for each class: all classes are read, and masks choose one.
class Argument {
public:
  Argument(const runtime::TensorType &type, Fill fill, std::mt19937_64 &random)
      : type(type), fill(fill), values(static_cast<size_t>(type.numel()) * (runtime::isComplex(type.element) ? 2 : 1)),
        bytes((type.bytes() + 7) / 8 * 8), sources(bytes / 8 * kClasses.size()),
        buffer(runtime::BufferPool::global().allocate(bytes)) {
    draw(random);
    const std::vector<double> fixed = values;
    for (size_t number = 0; number < kClasses.size(); ++number) {
      values = fixed;
      if (fill.isVaried && number != kRandom && number != kFixed) {
        become(kClasses[number]);
      }
      put(number);
    }
  }
  runtime::HostTensor tensor() const { return {type, buffer}; }
  /// Fresh values of the random class: drawn for each sample, of whatever class it is.
  void renew(std::mt19937_64 &random) {
    if (fill.isVaried) {
      draw(random);
      put(kRandom);
    }
  }
  void choose(const std::array<uint64_t, kClasses.size()> &masks) {
    const uint64_t *from = sources.data();
    for (size_t word = 0; word < bytes / 8; ++word, from += kClasses.size()) {
      uint64_t chosen = 0;
      for (size_t number = 0; number < kClasses.size(); ++number) {
        chosen |= from[number] & masks[number];
      }
      std::memcpy(static_cast<std::byte *>(buffer->data()) + word * 8, &chosen, 8);
    }
  }

private:
  void become(llvm::StringRef name) {
    if (name != "sorted" && name != "reversed") {
      std::fill(values.begin(), values.end(), single(name, type.element));
      return;
    }
    std::sort(values.begin(), values.end());
    if (name == "reversed") {
      std::reverse(values.begin(), values.end());
    }
  }
  void draw(std::mt19937_64 &random) {
    for (double &value : values) {
      value = uniform(fill, random);
    }
  }
  /// Classes lie beside each other word by word.
  void put(size_t number) {
    stored.resize(bytes);
    store(type.element, values, stored.data());
    for (size_t word = 0; word < bytes / 8; ++word) {
      std::memcpy(&sources[word * kClasses.size() + number], stored.data() + word * 8, 8);
    }
  }
  runtime::TensorType type;
  Fill fill;
  std::vector<double> values;
  size_t bytes;
  std::vector<uint64_t> sources;
  std::shared_ptr<runtime::Buffer> buffer;
  std::vector<std::byte> stored;
};

/// What is timed; it returns why it failed.
using Kernel = std::function<std::string()>;

struct Samples {
  std::vector<uint8_t> classes;
  std::vector<uint32_t> nanoseconds;
  std::string error;
};

Samples measure(std::vector<Argument> &arguments, const Kernel &kernel, const std::function<void()> &settle,
                size_t count, std::mt19937_64 &random) {
  using Clock = std::chrono::steady_clock;
  // The first ones meet cold memory.
  const size_t first = std::max<size_t>(1'000, count / 50);
  Samples samples;
  std::vector<uint8_t> order(first + count);
  for (size_t at = 0; at < order.size(); ++at) {
    order[at] = static_cast<uint8_t>(at % kClasses.size());
  }
  std::shuffle(order.begin(), order.end(), random);
  samples.nanoseconds.reserve(order.size());
  for (uint8_t number : order) {
    std::array<uint64_t, kClasses.size()> masks;
    for (size_t other = 0; other < masks.size(); ++other) {
      masks[other] = -static_cast<uint64_t>(other == number);
    }
    for (Argument &argument : arguments) {
      argument.renew(random);
      argument.choose(masks);
    }
    const auto begin = Clock::now();
    samples.error = kernel();
    const auto taken = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
    settle();
    if (!samples.error.empty()) {
      return samples;
    }
    samples.nanoseconds.push_back(static_cast<uint32_t>(std::min<int64_t>(taken, UINT32_MAX)));
  }
  samples.nanoseconds.erase(samples.nanoseconds.begin(), samples.nanoseconds.begin() + static_cast<long>(first));
  samples.classes.assign(order.begin() + static_cast<long>(first), order.end());
  return samples;
}

void tell(llvm::StringRef name, const Samples &samples) {
  std::string error;
  for (char letter : samples.error) {
    error += letter == '"' || letter == '\\' || static_cast<unsigned char>(letter) < ' ' ? '\'' : letter;
  }
  std::printf("{\"name\": \"%s\", \"samples\": %zu, \"error\": \"%s\", \"classes\": [", name.str().c_str(),
              error.empty() ? samples.classes.size() : 0, error.c_str());
  for (size_t number = 0; number < kClasses.size(); ++number) {
    std::printf("%s\"%s\"", number == 0 ? "" : ", ", kClasses[number]);
  }
  std::puts("]}");
  if (error.empty()) {
    std::fwrite(samples.classes.data(), 1, samples.classes.size(), stdout);
    std::fwrite(samples.nanoseconds.data(), 4, samples.nanoseconds.size(), stdout);
  }
  std::fflush(stdout);
}

/// A sum that ends at the first NaN: the fault that the measurement has to find; or one that does not.
Samples measureControl(bool endsEarly, size_t count, std::mt19937_64 &random) {
  std::vector<Argument> arguments;
  arguments.emplace_back(runtime::TensorType{Element::f32, {256}}, Fill("-2:2"), random);
  const runtime::HostTensor tensor = arguments[0].tensor();
  const auto *values = static_cast<const float *>(tensor.buffer->data());
  volatile float kept = 0;
  auto sum = [&] {
    uint32_t all = 0;
    for (size_t at = 0; at < 256; ++at) {
      if (endsEarly && std::isnan(values[at])) {
        break;
      }
      all += std::bit_cast<uint32_t>(values[at]); // of the bits: floats themselves may take their own time
    }
    kept = static_cast<float>(all);
    return std::string();
  };
  return measure(
      arguments, sum, [] {}, count, random);
}

Samples measureCase(mlir::MLIRContext &context, llvm::ArrayRef<llvm::StringRef> fills, llvm::StringRef text,
                    size_t count, std::mt19937_64 &random) {
  Samples failed;
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module) {
    failed.error = "no module";
    return failed;
  }
  auto executable = runtime::Executable::create(*module);
  if (!executable) {
    failed.error = llvm::toString(executable.takeError());
    return failed;
  }
  std::vector<runtime::Binding> bindings;
  std::vector<std::unique_ptr<Zeros>> tables;
  std::vector<Argument> arguments;
  if (fills.size() != (*executable)->args().size()) {
    failed.error = "not a fill for each argument";
    return failed;
  }
  for (auto [spec, text] : llvm::zip((*executable)->args(), fills)) {
    const Fill fill(text);
    runtime::Binding binding;
    if (spec.kind == StepArg::Table) {
      binding.table = tables.emplace_back(std::make_unique<Zeros>(static_cast<int64_t>(fill.least))).get();
    } else {
      arguments.emplace_back(spec.type, fill, random);
      binding.tensor = arguments.back().tensor();
    }
    bindings.push_back(std::move(binding));
  }
  runtime::BufferPool buffers;
  runtime::ArenaPool arenas;
  runtime::RunOptions options;
  options.threads = 1;
  options.buffers = &buffers;
  options.arenas = &arenas;
  options.isPrivate = true; // as the steps of a private table
  std::vector<runtime::HostTensor> results;
  auto run = [&]() -> std::string {
    auto made = (*executable)->run(bindings, options);
    if (!made) {
      return llvm::toString(made.takeError());
    }
    results = std::move(*made);
    return "";
  };
  return measure(
      arguments, run, [&] { results.clear(); }, count, random);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fputs("usage: bench-channels SAMPLES SEED; see tools/bench --channels\n", stderr);
    return 2;
  }
  const size_t count = std::strtoull(argv[1], nullptr, 10);
  std::mt19937_64 random(std::strtoull(argv[2], nullptr, 10));
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadDialects(context);
  for (std::string line; std::getline(std::cin, line);) {
    llvm::SmallVector<llvm::StringRef> words;
    llvm::SplitString(line, words);
    std::string text;
    for (std::string part; std::getline(std::cin, part) && part != "end";) {
      text += part + '\n';
    }
    if (words.empty()) {
      continue;
    }
    const llvm::StringRef name = words.front();
    const bool isControl = name.starts_with("control/");
    tell(name, isControl ? measureControl(name == "control/early-exit", count, random)
                         : measureCase(context, llvm::ArrayRef(words).drop_front(), text, count, random));
  }
  return 0;
}
