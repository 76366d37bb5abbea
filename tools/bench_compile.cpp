// SPDX-License-Identifier: Apache-2.0
// Times what happens to a captured step between its recording and its first result: each pass, the encoding, and the
// owner's part. Reads a dump's captured form; prints milliseconds as JSON. Used by tools/bench_compile.py.
#include "dialect/CoreForm.h"
#include "dialect/Signature.h"
#include "owner/Limits.h"
#include "owner/worker/ProgramCode.h"
#include "owner/worker/Worker.h"
#include "passes/Dependence.h"
#include "passes/Passes.h"
#include "passes/Price.h"
#include "runtime/Buffer.h"
#include "runtime/Execute.h"
#include "runtime/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>

using namespace sojourn;

namespace {

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Phases in the order in which they were timed first.
class Times {
public:
  void add(llvm::StringRef name, double milliseconds) {
    for (auto &[known, total] : times) {
      if (known == name) {
        total += milliseconds;
        return;
      }
    }
    times.emplace_back(name.str(), milliseconds);
  }
  template <class Work>
  auto time(llvm::StringRef name, Work work) {
    auto start = Clock::now();
    auto result = work();
    add(name, millisecondsSince(start));
    return result;
  }
  /// Keeps the smaller time of each phase.
  void keepFastest(const Times &other) {
    for (auto &[name, total] : times) {
      for (const auto &[known, milliseconds] : other.times) {
        total = known == name ? std::min(total, milliseconds) : total;
      }
    }
  }
  void print() const {
    const char *separator = "{";
    for (const auto &[name, total] : times) {
      std::printf("%s\"%s\": %.4f", separator, name.c_str(), total);
      separator = ", ";
    }
    std::printf("}\n");
  }

private:
  std::vector<std::pair<std::string, double>> times;
};

/// The time of each pass under its name. The pass manager's verifier is off: it is timed apart.
class PassTimes : public mlir::PassInstrumentation {
public:
  explicit PassTimes(Times &times) : times(times) {}
  void runBeforePass(mlir::Pass *, mlir::Operation *) override { start = Clock::now(); }
  void runAfterPass(mlir::Pass *pass, mlir::Operation *) override {
    times.add(pass->getArgument(), millisecondsSince(start));
  }

private:
  Times &times;
  Clock::time_point start;
};

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "bench-compile: %s\n", what.c_str());
  std::exit(1);
}

template <class T>
T check(llvm::Expected<T> found, const char *what) {
  if (!found) {
    fail(std::string(what) + ": " + llvm::toString(found.takeError()));
  }
  return std::move(*found);
}

/// Captured form to a program, as the client does it.
runtime::EncodedProgram compile(const char *file, Times &times) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadDialects(context);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(file, &context);
  if (!module) {
    fail("no captured form in " + std::string(file));
  }
  auto phases = phaseNames();
  for (size_t phase = 1; phase < phases.size(); ++phase) {
    mlir::PassManager manager(&context, mlir::ModuleOp::getOperationName());
    manager.enableVerifier(false);
    manager.addInstrumentation(std::make_unique<PassTimes>(times));
    if (mlir::failed(buildPhases(manager, phases[phase - 1], phases[phase])) || mlir::failed(manager.run(*module))) {
      fail("the step does not compile");
    }
    setPhase(*module, phases[phase]);
  }
  // What a verification between passes costs; how often it runs is the client's business.
  bool valid = times.time("verify", [&] { return mlir::succeeded(mlir::verify(*module)); });
  return valid ? check(times.time("encode", [&] { return runtime::encodeProgram(*module); }), "encoding")
               : (fail("the compiled step does not verify"), runtime::EncodedProgram());
}

/// Tensors of zeros for every argument; none for a program that reads tables.
std::vector<runtime::Binding> zeros(const runtime::Code &code) {
  std::vector<runtime::Binding> bindings;
  for (const runtime::ArgSpec &spec : code.args()) {
    if (spec.kind == StepArg::Table) {
      return {};
    }
    auto buffer = runtime::BufferPool::global().allocate(spec.type.bytes());
    std::memset(buffer->data(), 0, buffer->size());
    bindings.push_back({{spec.type, std::move(buffer)}, nullptr});
  }
  return bindings;
}

/// The parts of owner::Worker::describe one by one, then as a whole, then the first run.
void plan(const runtime::EncodedProgram &encoded, Times &times) {
  {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    auto module =
        check(times.time("decode", [&] { return runtime::decodeProgram(context, encoded.program, encoded.debug); }),
              "decode");
    times.time("price", [&] { return findExcess(*module, {}).has_value(); });
    std::string reason;
    times.time("dependence", [&] { return dependenceOf(*module, reason).has_value(); });
    times.time("text", [&] { return runtime::printProgram(*module, owner::kProgramTextBytes).size(); });
    check(times.time("lower", [&] { return runtime::Executable::create(*module); }), "planning");
  }
  auto whole =
      check(times.time("plan", [&] { return owner::cpuWorker().describe(encoded.program, encoded.debug); }), "plan");
  std::vector<runtime::Binding> bindings = zeros(*whole.code->step);
  if (bindings.size() == whole.code->step->args().size()) {
    runtime::RunOptions options;
    options.threads = 1;
    check(times.time("first run", [&] { return whole.code->step->run(bindings, options); }), "the first run");
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    fail("expected one argument, the captured form of a step");
  }
  // The first round pays for what a process makes once.
  std::optional<Times> fastest;
  for (int round = 0; round < 3; ++round) {
    Times times;
    runtime::EncodedProgram encoded = compile(argv[1], times);
    plan(encoded, times);
    times.add("program bytes", static_cast<double>(encoded.program.size()));
    times.keepFastest(fastest.value_or(times));
    fastest = std::move(times);
  }
  fastest->print();
  return 0;
}
