// SPDX-License-Identifier: Apache-2.0
// Import, phases, encoding, dump.
#include "frontend/compile/Compile.h"

#include "dialect/CoreForm.h"
#include "frontend/Raise.h"
#include "frontend/compile/Import.h"
#include "passes/Passes.h"
#include "passes/parties/Placement.h"
#include "runtime/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>

namespace sojourn::frontend {

namespace {

/// One context for the client's compilations: compiling is rare and serial.
struct Compiler {
  std::mutex mutex;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  Compiler() {
    mlir::DialectRegistry registry;
    registerDialects(registry);
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

std::mutex listenerMutex;
std::shared_ptr<const PhaseListener> phaseListener;

std::shared_ptr<const PhaseListener> currentListener() {
  std::lock_guard lock(listenerMutex);
  return phaseListener;
}

/// SOJOURN_DUMP=dir: one folder per compiled program. Programs and shapes, never a value.
class Dump {
public:
  Dump() {
    const char *root = std::getenv("SOJOURN_DUMP");
    if (!root || !*root) {
      return;
    }
    char name[32];
    std::snprintf(name, sizeof name, "program-%03d", number(root));
    folder_ = std::filesystem::path(root) / name;
    std::error_code failure;
    std::filesystem::create_directories(folder_, failure);
    if (failure) {
      problem = "SOJOURN_DUMP: cannot create " + folder_.string() + ": " + failure.message();
      folder_.clear();
    }
  }
  std::string problem; ///< why there is no folder although one was asked for
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
  /// Each folder counts from 0.
  static int number(const std::string &root) {
    static std::mutex mutex;
    static std::map<std::string, int> counters;
    std::lock_guard lock(mutex);
    return counters[root]++;
  }

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
  raise(ErrorKind::Error, "cannot decode the program: " + failure);
}

void setPhaseListener(PhaseListener listener) {
  auto next = listener ? std::make_shared<const PhaseListener>(std::move(listener)) : nullptr;
  {
    std::lock_guard lock(listenerMutex);
    next.swap(phaseListener);
  }
  // The one before dies here, with the interpreter if it needs it.
}

namespace {

using AfterPhase = std::function<void(llvm::StringRef, mlir::ModuleOp)>;
using OnError = std::function<void(mlir::Diagnostic &)>;

wire::Place placeOf(const parties::Where &where) {
  wire::Place place;
  if (where.isAt()) {
    place.kind = wire::Place::Kind::At;
    place.role = where.role;
  } else if (where.isParts()) {
    place.kind = wire::Place::Kind::Parts;
    place.stride = where.stride;
    for (const parties::Segment &segment : *where.segments) {
      place.segments.push_back({segment.role, segment.rows});
    }
  }
  return place;
}

/// Of a module in core form, where members of a group can compute it together.
mlir::FailureOr<std::shared_ptr<const wire::ResultPlaces>> placesOf(mlir::ModuleOp core) {
  auto step = core.lookupSymbol<mlir::func::FuncOp>(kStepName);
  auto placement = parties::Placement::of(step);
  if (mlir::failed(placement)) {
    return mlir::failure();
  }
  auto places = std::make_shared<wire::ResultPlaces>();
  mlir::Operation *exit = step.getBody().front().getTerminator();
  for (mlir::OpOperand &result : exit->getOpOperands()) {
    const auto kind = step.getResultAttrOfType<mlir::StringAttr>(result.getOperandNumber(), kResultAttr).getValue();
    const wire::Place place = placeOf((*placement)->whereOfResult(result.getOperandNumber()));
    if (parseStepResult(kind) == StepResult::Keep) {
      places->kept.push_back(place);
    } else if (parseStepResult(kind) == StepResult::Publish) {
      auto shape = mlir::cast<mlir::RankedTensorType>(result.get().getType()).getShape();
      places->published.push_back({place, shape.vec()});
    }
  }
  return std::shared_ptr<const wire::ResultPlaces>(std::move(places));
}

/// Runs all phases on a trace; the compiler's lock is held. No module if a pass refuses. `places`: of a group's
/// results.
mlir::OwningOpRef<mlir::ModuleOp> lower(Compiler &compiler, const Trace &trace, const std::vector<OpLines> *lines,
                                        const AfterPhase &afterPhase, const OnError &onError,
                                        std::shared_ptr<const wire::ResultPlaces> &places) {
  mlir::ScopedDiagnosticHandler handler(&compiler.context, [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) {
      onError(diagnostic);
    }
    return mlir::success();
  });
  mlir::OwningOpRef<mlir::ModuleOp> module = importTrace(compiler.context, trace, lines);
  if (mlir::failed(runPhases(*module, "captured", "core", afterPhase))) {
    return {};
  }
  if (trace.parties > 0) {
    auto found = placesOf(*module);
    if (mlir::failed(found)) {
      return {};
    }
    places = std::move(*found);
  }
  return module;
}

/// The record that a pass refuses: once more, with ops located by their records.
std::optional<size_t> findRefused(Compiler &compiler, const Trace &trace) {
  std::optional<size_t> record;
  bool first = true;
  std::shared_ptr<const wire::ResultPlaces> places;
  lower(
      compiler, trace, /*lines=*/nullptr, [](llvm::StringRef, mlir::ModuleOp) {},
      [&](mlir::Diagnostic &diagnostic) {
        if (std::exchange(first, false)) {
          record = recordAt(diagnostic.getLocation());
        }
      },
      places);
  return record;
}

} // namespace

std::shared_ptr<const wire::ResultPlaces> placesOfProgram(const std::string &program, unsigned parties) {
  Compiler &compiler = Compiler::get();
  std::string failure;
  {
    std::lock_guard lock(compiler.mutex);
    mlir::ScopedDiagnosticHandler handler(&compiler.context, [&](mlir::Diagnostic &diagnostic) {
      failure = failure.empty() ? diagnostic.str() : failure;
      return mlir::success();
    });
    auto module = runtime::decodeProgram(compiler.context, program, "");
    if (!module) {
      failure = llvm::toString(module.takeError());
    } else if (auto roles = (**module)->getAttrOfType<mlir::IntegerAttr>(kPartiesAttr);
               !roles || roles.getInt() != static_cast<int64_t>(parties)) {
      failure = "it is the step of " + (roles ? std::to_string(roles.getInt()) + " owners" : std::string("one owner")) +
                ", expected one of " + std::to_string(parties);
    } else if (auto places = placesOf(**module); mlir::succeeded(places)) {
      return *places;
    }
  }
  raise(ErrorKind::Error, "cannot run the program in a group: " + failure);
}

Compilation compileTrace(const Trace &trace) {
  auto listener = currentListener();
  auto start = std::chrono::steady_clock::now();
  Compilation result;
  auto compiled = std::make_shared<CompiledTrace>();
  // Lines before the lock and listeners after it: both need the interpreter, and whoever has that
  // may be waiting to compile.
  std::vector<OpLines> lines = resolveLines(trace);
  std::vector<std::pair<std::string, std::string>> texts;
  Dump dump;
  if (!dump.problem.empty()) {
    return {nullptr, dump.problem, ErrorKind::Error, std::nullopt, {}};
  }
  {
    Compiler &compiler = Compiler::get();
    std::lock_guard lock(compiler.mutex);
    auto afterPhase = [&](llvm::StringRef phase, mlir::ModuleOp current) {
      if (!dump.active() && !listener) {
        return;
      }
      std::string text = print(current);
      dump.phase(phase.str(), text);
      texts.emplace_back(phase.str(), std::move(text));
    };
    auto onError = [&](mlir::Diagnostic &diagnostic) {
      if (result.failure.empty()) {
        result.failure = diagnostic.str() + " (" + describeLocation(diagnostic.getLocation()) + ")";
      }
    };
    mlir::OwningOpRef<mlir::ModuleOp> module = lower(compiler, trace, &lines, afterPhase, onError, compiled->places);
    if (!module) {
      dump.write("refusal.txt", result.failure);
      result.refusedOp = findRefused(compiler, trace);
    } else if (auto encoded = runtime::encodeProgram(*module)) {
      compiled->program = std::move(encoded->program);
      compiled->debug = std::move(encoded->debug);
      compiled->hash = encoded->hash;
      dump.write("program.bin", compiled->program);
      dump.write("debug.bin", compiled->debug);
      if (dump.active()) {
        dump.write("program.txt", runtime::describeProgram(*module));
      }
    } else {
      result.failure = llvm::toString(encoded.takeError());
    }
  }
  if (listener) {
    for (const auto &[phase, text] : texts) {
      (*listener)(phase, text);
    }
  }
  if (compiled->program.empty()) {
    result.failure =
        "this step cannot be compiled: " + (result.failure.empty() ? std::string("no reason given") : result.failure);
    return result;
  }
  compiled->compileSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.compiled = std::move(compiled);
  return result;
}

} // namespace sojourn::frontend
