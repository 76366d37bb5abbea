// SPDX-License-Identifier: Apache-2.0
// Import, phases, encoding, dump; and the cache of traces.
#include "frontend/Compile.h"

#include "dialect/Dialect.h"
#include "frontend/Raise.h"
#include "frontend/Import.h"
#include "passes/Passes.h"
#include "runtime/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>

namespace sojourn::frontend {

namespace {

/// One context for the client's compilations: compiling is rare and serial.
struct Compiler {
  std::mutex mutex;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  Compiler() {
    mlir::DialectRegistry registry;
    registry.insert<SojournDialect, mlir::func::FuncDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
  static Compiler &get() {
    static Compiler compiler;
    return compiler;
  }
};

std::string describeLocation(mlir::Location location) {
  if (auto site = mlir::dyn_cast<mlir::CallSiteLoc>(location)) {
    return describeLocation(site.getCallee()) + ", differentiated by the backward() at " +
           describeLocation(site.getCaller());
  }
  if (auto line = mlir::dyn_cast<mlir::FileLineColLoc>(location)) {
    return line.getFilename().str() + ":" + std::to_string(line.getLine());
  }
  return "unknown line";
}

std::string print(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  mlir::OpPrintingFlags flags;
  flags.enableDebugInfo();
  module.print(stream, flags);
  return text;
}

PhaseListener &phaseListener() {
  static PhaseListener listener;
  return listener;
}

/// SOJOURN_DUMP=dir: one folder per compiled program. Programs and shapes, never a value.
class Dump {
public:
  Dump() {
    const char *root = std::getenv("SOJOURN_DUMP");
    if (!root || !*root) {
      return;
    }
    static std::atomic<int> counter{0};
    char name[32];
    std::snprintf(name, sizeof name, "program-%03d", counter++);
    folder_ = std::filesystem::path(root) / name;
    std::error_code failure;
    std::filesystem::create_directories(folder_, failure);
    if (failure) {
      raise(ErrorKind::Error, "SOJOURN_DUMP: cannot make " + folder_.string() + ": " + failure.message());
    }
  }
  bool active() const { return !folder_.empty(); }
  void phase(const std::string &name, const std::string &text) {
    if (active()) {
      write(std::string("0") + std::to_string(index_++) + "-" + name + ".mlir", text);
    }
  }
  void write(const std::string &file, std::string_view bytes) {
    if (active()) {
      std::ofstream(folder_ / file, std::ios::binary) << bytes;
    }
  }

private:
  std::filesystem::path folder_;
  int index_ = 0;
};

} // namespace

std::string decodeToText(const std::string &program, const std::string &debug) {
  Compiler &compiler = Compiler::get();
  std::string failure;
  {
    std::lock_guard lock(compiler.mutex);
    if (auto module = runtime::decodeProgram(compiler.context, program, debug)) {
      return print(**module);
    } else {
      failure = llvm::toString(module.takeError());
    }
  }
  raise(ErrorKind::Error, "the program does not decode: " + failure);
}

void setPhaseListener(PhaseListener listener) { phaseListener() = std::move(listener); }

std::shared_ptr<const CompiledTrace> compileTrace(const Trace &trace) {
  const PhaseListener &listener = phaseListener();
  auto start = std::chrono::steady_clock::now();
  Compiler &compiler = Compiler::get();
  std::string failure;
  auto compiled = std::make_shared<CompiledTrace>();
  {
    std::lock_guard lock(compiler.mutex);
    mlir::ScopedDiagnosticHandler handler(&compiler.context, [&](mlir::Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && failure.empty()) {
        failure = diagnostic.str() + " (" + describeLocation(diagnostic.getLocation()) + ")";
      }
      return mlir::success();
    });
    mlir::OwningOpRef<mlir::ModuleOp> module = importTrace(compiler.context, trace);
    Dump dump;
    auto afterPhase = [&](llvm::StringRef phase, mlir::ModuleOp current) {
      if (!dump.active() && !listener) {
        return;
      }
      std::string text = print(current);
      dump.phase(phase.str(), text);
      if (listener) {
        listener(phase.str(), text);
      }
    };
    mlir::LogicalResult lowered = runPhases(*module, "captured", "core", afterPhase);
    if (mlir::failed(lowered)) {
      dump.write("refusal.txt", failure);
    } else {
      if (auto encoded = runtime::encodeProgram(*module)) {
        compiled->program = std::move(encoded->program);
        compiled->debug = std::move(encoded->debug);
        compiled->hash = encoded->hash;
        dump.write("program.bin", compiled->program);
        dump.write("debug.bin", compiled->debug);
        if (dump.active()) {
          dump.write("program.txt", runtime::describeProgram(*module));
        }
      } else {
        failure = llvm::toString(encoded.takeError());
      }
    }
  }
  if (compiled->program.empty()) {
    raise(ErrorKind::Unsupported, "this step cannot be compiled: " + (failure.empty() ? "no reason given" : failure));
  }
  compiled->compileSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return compiled;
}

std::shared_ptr<const CompiledTrace> TraceCache::find(const Trace &trace, bool &hit) {
  std::list<Entry> &bucket = entries_[hashTrace(trace)];
  for (Entry &entry : bucket) {
    if (entry.words == trace.words && entry.inputs == trace.inputs && entry.tables == trace.tables) {
      hit = true;
      return entry.compiled;
    }
  }
  hit = false;
  bucket.push_back({trace.inputs, trace.words, trace.tables, compileTrace(trace)});
  ++count_;
  return bucket.back().compiled;
}

} // namespace sojourn::frontend
