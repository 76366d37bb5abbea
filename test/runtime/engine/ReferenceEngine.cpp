// SPDX-License-Identifier: Apache-2.0
// The interpreter: values as lists of float64, kernels by name.
#include "test/runtime/engine/ReferenceEngine.h"

#include "runtime/Graph.h"

#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace sojourn::runtime::test {

namespace {

using Numbers = std::vector<double>;
using Dims = llvm::SmallVector<int64_t, 4>;

struct Value {
  TensorType type;
  Numbers numbers;
  const RowSource *table = nullptr;
};

/// The number as an element of this type holds it.
double stored(Element element, double number) {
  switch (element) {
  case Element::f32: return static_cast<float>(number);
  case Element::i1: return number != 0;
  default: return number;
  }
}

template <class T>
Numbers numbersAs(const void *data, int64_t count) {
  const T *from = static_cast<const T *>(data);
  return Numbers(from, from + count);
}

Numbers read(const TensorType &type, const void *data) {
  switch (type.element) {
  case Element::f32: return numbersAs<float>(data, type.numel());
  case Element::f64: return numbersAs<double>(data, type.numel());
  case Element::i1: return numbersAs<uint8_t>(data, type.numel());
  default: return numbersAs<int64_t>(data, type.numel());
  }
}

template <class T>
void writeAs(const Numbers &numbers, void *data) {
  std::ranges::transform(numbers, static_cast<T *>(data), [](double number) { return static_cast<T>(number); });
}

void write(const Value &value, void *data) {
  switch (value.type.element) {
  case Element::f32: return writeAs<float>(value.numbers, data);
  case Element::f64: return writeAs<double>(value.numbers, data);
  case Element::i1: return writeAs<uint8_t>(value.numbers, data);
  default: return writeAs<int64_t>(value.numbers, data);
  }
}

/// Calls `visit` for each index of a shape, in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> dims, llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit) {
  if (llvm::is_contained(dims, 0)) {
    return;
  }
  Dims index(dims.size(), 0);
  while (true) {
    visit(index);
    size_t dim = dims.size();
    while (dim > 0 && ++index[dim - 1] == dims[dim - 1]) {
      index[--dim] = 0;
    }
    if (dim == 0) {
      return;
    }
  }
}

/// Row-major position; dims of size 1 repeat.
size_t positionOf(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> index) {
  int64_t position = 0;
  for (auto [size, at] : llvm::zip_equal(dims, index)) {
    position = position * size + (size == 1 ? 0 : at);
  }
  return static_cast<size_t>(position);
}

class Interpreter;
using Fn = void (*)(Interpreter &, const GraphOp &);

class Interpreter {
public:
  Interpreter(const Graph &graph, llvm::ArrayRef<Binding> arguments) : values(graph.types.size()) {
    for (size_t index = 0; index < graph.types.size(); ++index) {
      values[index].type = graph.types[index];
    }
    for (size_t index = 0; index < arguments.size(); ++index) {
      values[index].table = arguments[index].table;
      if (arguments[index].tensor.buffer) {
        values[index].numbers = read(values[index].type, arguments[index].tensor.buffer->data());
      }
    }
  }
  const Value &in(const GraphOp &op, size_t operand) const { return values[op.operands[operand]]; }
  /// Sets each element of the op's result.
  void each(const GraphOp &op, llvm::function_ref<double(llvm::ArrayRef<int64_t>)> number) {
    Value &result = values[op.results[0]];
    result.numbers.reserve(static_cast<size_t>(result.type.numel()));
    forEachIndex(result.type.dims, [&](llvm::ArrayRef<int64_t> index) {
      result.numbers.push_back(stored(result.type.element, number(index)));
    });
  }
  /// An operand of an elementwise op: numbers are splats.
  double splat(const GraphOp &op, size_t operand, llvm::ArrayRef<int64_t> index) const {
    const Value &value = in(op, operand);
    return value.type.rank() == 0 ? value.numbers[0] : value.numbers[positionOf(value.type.dims, index)];
  }
  std::vector<Value> values;
};

template <double (*function)(double)>
void unary(Interpreter &run, const GraphOp &op) {
  run.each(op, [&](llvm::ArrayRef<int64_t> index) { return function(run.splat(op, 0, index)); });
}

template <double (*function)(double, double)>
void binary(Interpreter &run, const GraphOp &op) {
  run.each(op,
           [&](llvm::ArrayRef<int64_t> index) { return function(run.splat(op, 0, index), run.splat(op, 1, index)); });
}

void convert(Interpreter &run, const GraphOp &op) {
  const Element from = run.in(op, 0).type.element;
  run.each(op, [&](llvm::ArrayRef<int64_t> index) {
    const double number = run.splat(op, 0, index);
    const bool isToInteger = run.values[op.results[0]].type.element == Element::i64 && isFloat(from);
    return !isToInteger ? number : std::isnan(number) ? 0 : std::trunc(number);
  });
}

void constant(Interpreter &run, const GraphOp &op) {
  TensorType type = run.values[op.results[0]].type;
  run.values[op.results[0]].numbers = read(type, op.scalar("value").data());
}

void iota(Interpreter &run, const GraphOp &op) {
  const auto dim = static_cast<size_t>(op.integer("dim"));
  run.each(op, [&](llvm::ArrayRef<int64_t> index) { return static_cast<double>(index[dim]); });
}

void readRows(Interpreter &run, const GraphOp &op) {
  const Value &rows = run.in(op, 1);
  Value &result = run.values[op.results[0]];
  std::vector<int64_t> indices(rows.numbers.begin(), rows.numbers.end());
  std::vector<uint64_t> memory((result.type.bytes() + 7) / 8);
  run.in(op, 0).table->readRows(op.strings("columns"), indices, result.type.element, memory.data());
  result.numbers = read(result.type, memory.data());
}

void compare(Interpreter &run, const GraphOp &op) {
  const std::string &predicate = op.string("predicate");
  run.each(op, [&](llvm::ArrayRef<int64_t> index) -> double {
    const double a = run.splat(op, 0, index), b = run.splat(op, 1, index);
    return predicate == "eq"   ? a == b
           : predicate == "ne" ? a != b
           : predicate == "lt" ? a < b
           : predicate == "le" ? a <= b
           : predicate == "gt" ? a > b
                               : a >= b;
  });
}

void select(Interpreter &run, const GraphOp &op) {
  run.each(op, [&](llvm::ArrayRef<int64_t> index) {
    return run.splat(op, 0, index) != 0 ? run.splat(op, 1, index) : run.splat(op, 2, index);
  });
}

void broadcast(Interpreter &run, const GraphOp &op) {
  const Value &x = run.in(op, 0);
  run.each(op, [&](llvm::ArrayRef<int64_t> index) {
    Dims from;
    for (int64_t dim : op.ints("dims")) {
      from.push_back(index[static_cast<size_t>(dim)]);
    }
    return x.numbers[positionOf(x.type.dims, from)];
  });
}

void reshape(Interpreter &run, const GraphOp &op) { run.values[op.results[0]].numbers = run.in(op, 0).numbers; }

void transpose(Interpreter &run, const GraphOp &op) {
  const Value &x = run.in(op, 0);
  run.each(op, [&](llvm::ArrayRef<int64_t> index) {
    Dims from(index.size());
    for (auto [at, dim] : llvm::zip_equal(index, op.ints("perm"))) {
      from[static_cast<size_t>(dim)] = at;
    }
    return x.numbers[positionOf(x.type.dims, from)];
  });
}

template <double (*function)(double, double)>
void reduce(Interpreter &run, const GraphOp &op) {
  const Value &x = run.in(op, 0);
  Value &result = run.values[op.results[0]];
  const double first = function(0, 1) == 1 && function(-1, 0) == 0 ? -std::numeric_limits<double>::infinity() : 0;
  result.numbers.assign(static_cast<size_t>(result.type.numel()), first);
  forEachIndex(x.type.dims, [&](llvm::ArrayRef<int64_t> index) {
    Dims to;
    for (size_t dim = 0; dim < index.size(); ++dim) {
      if (!llvm::is_contained(op.ints("dims"), static_cast<int64_t>(dim))) {
        to.push_back(index[dim]);
      }
    }
    double &sum = result.numbers[positionOf(result.type.dims, to)];
    sum = function(sum, x.numbers[positionOf(x.type.dims, index)]);
  });
  for (double &number : result.numbers) {
    number = stored(result.type.element, number);
  }
}

void dot(Interpreter &run, const GraphOp &op) {
  const Value &a = run.in(op, 0), &b = run.in(op, 1);
  const auto &batchA = op.ints("lhs_batch"), &batchB = op.ints("rhs_batch");
  const auto &sumA = op.ints("lhs_contract"), &sumB = op.ints("rhs_contract");
  Dims sizes;
  for (int64_t dim : sumA) {
    sizes.push_back(a.type.dims[static_cast<size_t>(dim)]);
  }
  run.each(op, [&](llvm::ArrayRef<int64_t> index) {
    Dims atA(a.type.rank(), 0), atB(b.type.rank(), 0);
    size_t next = 0;
    for (auto [left, right] : llvm::zip_equal(batchA, batchB)) {
      atA[static_cast<size_t>(left)] = atB[static_cast<size_t>(right)] = index[next++];
    }
    auto setFree = [&](Dims &at, const std::vector<int64_t> &batch, const std::vector<int64_t> &sum) {
      for (size_t dim = 0; dim < at.size(); ++dim) {
        if (!llvm::is_contained(batch, static_cast<int64_t>(dim)) &&
            !llvm::is_contained(sum, static_cast<int64_t>(dim))) {
          at[dim] = index[next++];
        }
      }
    };
    setFree(atA, batchA, sumA);
    setFree(atB, batchB, sumB);
    double total = 0;
    forEachIndex(sizes, [&](llvm::ArrayRef<int64_t> inner) {
      for (size_t k = 0; k < inner.size(); ++k) {
        atA[static_cast<size_t>(sumA[k])] = atB[static_cast<size_t>(sumB[k])] = inner[k];
      }
      total += a.numbers[positionOf(a.type.dims, atA)] * b.numbers[positionOf(b.type.dims, atB)];
    });
    return total;
  });
}

double negate(double x) { return -x; }
double add(double x, double y) { return x + y; }
double subtract(double x, double y) { return x - y; }
double multiply(double x, double y) { return x * y; }
double divide(double x, double y) { return x / y; }
double largest(double x, double y) { return std::isnan(x) || x > y ? x : y; }
double smallest(double x, double y) { return std::isnan(x) || x < y ? x : y; }

const llvm::StringMap<Fn> &kernels() {
  static const llvm::StringMap<Fn> table = {
      {"constant", constant},      {"iota", iota},
      {"read_rows", readRows},     {"convert", convert},
      {"neg", unary<negate>},      {"abs", unary<std::fabs>},
      {"exp", unary<std::exp>},    {"log", unary<std::log>},
      {"sqrt", unary<std::sqrt>},  {"tanh", unary<std::tanh>},
      {"add", binary<add>},        {"sub", binary<subtract>},
      {"mul", binary<multiply>},   {"div", binary<divide>},
      {"max", binary<largest>},    {"min", binary<smallest>},
      {"compare", compare},        {"select", select},
      {"broadcast", broadcast},    {"reshape", reshape},
      {"transpose", transpose},    {"dot", dot},
      {"reduce_sum", reduce<add>}, {"reduce_max", reduce<largest>},
  };
  return table;
}

class ReferenceCode : public Code {
public:
  ReferenceCode(const ReferenceEngine &engine, Graph graph) : Code(engine), engine(engine), graph(std::move(graph)) {}
  llvm::ArrayRef<ArgSpec> args() const override { return graph.args; }
  llvm::ArrayRef<ResultSpec> results() const override { return graph.results; }
  RunMemory runMemory() const override { return {.arena = graph.sumOfValueBytes * (sizeof(double) + 1)}; }
  llvm::ArrayRef<LibraryCalls> libraryCalls() const override { return {}; }
  size_t bytes() const override { return sizeof(*this) + graph.ops.size() * sizeof(GraphOp); }

  llvm::Expected<std::vector<HostTensor>> run(llvm::ArrayRef<Binding> arguments,
                                              const RunOptions &options) const override {
    ++engine.runs;
    Interpreter interpreter(graph, arguments);
    for (const GraphOp &op : graph.ops) {
      if (options.stop != nullptr && options.stop->load()) {
        return makeError(ErrorCode::Stopped, "the run was stopped", op.name, op.location);
      }
      kernels().find(op.name)->second(interpreter, op);
    }
    std::vector<HostTensor> results;
    for (ValueId id : graph.resultValues) {
      const Value &value = interpreter.values[id];
      HostTensor &result = results.emplace_back(value.type, BufferPool::global().allocate(value.type.bytes()));
      write(value, result.buffer->data());
    }
    return results;
  }

private:
  const ReferenceEngine &engine;
  Graph graph;
};

} // namespace

std::string ReferenceEngine::lacks(EngineTrait trait) const {
  return trait == lacked ? "it computes in float64; run private steps on the engine 'cpu'" : "";
}

bool ReferenceEngine::hasKernel(llvm::StringRef op) const { return kernels().contains(op); }

llvm::Expected<std::unique_ptr<Code>> ReferenceEngine::make(mlir::ModuleOp coreModule) const {
  auto graph = buildGraph(coreModule);
  if (!graph) {
    return graph.takeError();
  }
  for (const TensorType &type : graph->types) {
    const bool isKnown = type.element == Element::f32 || type.element == Element::f64 || type.element == Element::i64 ||
                         type.element == Element::i1;
    if (!isKnown) {
      return makeError(ErrorCode::Unsupported,
                       "the engine 'reference' does not compute in " + std::string(elementName(type.element)));
    }
  }
  return std::make_unique<ReferenceCode>(*this, std::move(*graph));
}

} // namespace sojourn::runtime::test
