// SPDX-License-Identifier: Apache-2.0
// The named phases: which passes lead to each, how to stop after one and resume from its text in a new process.
#include "dialect/Base.h"
#include "dialect/CoreForm.h"
#include "passes/Passes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace sojourn;

ArrayRef<StringLiteral> sojourn::phaseNames() {
  static constexpr StringLiteral names[] = {"captured", "functional", "promoted", "decomposed", "core"};
  return names;
}

LogicalResult sojourn::expectOneBlock(func::FuncOp function) {
  if (function.isExternal() || !function.getBody().hasOneBlock()) {
    return function.emitError() << "has " << function.getBody().getBlocks().size() << " blocks, expected one";
  }
  return success();
}

void sojourn::setPhase(ModuleOp module, StringRef phase) {
  module->setAttr(kPhaseAttr, StringAttr::get(module.getContext(), phase));
}

/// The passes that end in the phase at that position of phaseNames().
static void appendPhase(OpPassManager &manager, size_t phase) {
  switch (phase) {
  case 1:
    manager.addPass(createFunctionalize());
    manager.addPass(createExpandForeach());
    return;
  case 2: manager.addPass(createPromote()); return;
  case 3: manager.addPass(createDecompose()); return;
  case 4:
    manager.addPass(createOptimize());
    manager.addPass(createDeferScales());
    manager.addPass(createVerifyCore());
    return;
  default: return;
  }
}

/// Positions of both phases, or nothing when the names are unknown or not in order.
static std::optional<std::pair<size_t, size_t>> findPhases(StringRef from, StringRef to) {
  const StringLiteral *first = llvm::find(phaseNames(), from);
  const StringLiteral *last = llvm::find(phaseNames(), to);
  if (first == phaseNames().end() || last == phaseNames().end() || first > last) {
    return std::nullopt;
  }
  return std::make_pair(static_cast<size_t>(first - phaseNames().begin()),
                        static_cast<size_t>(last - phaseNames().begin()));
}

LogicalResult sojourn::buildPhases(OpPassManager &manager, StringRef from, StringRef to) {
  auto range = findPhases(from, to);
  if (!range) {
    return failure();
  }
  for (size_t phase = range->first + 1; phase <= range->second; ++phase) {
    appendPhase(manager, phase);
  }
  return success();
}

/// A verification costs as much as a pass. The passes rely on what they build themselves up to the decomposition; what
/// folds rely on, and what is sent, is verified. sojourn-opt, and with it the tests of passes, verifies after each.
#ifdef NDEBUG
static constexpr bool kVerifiesEachPass = false;
#else
static constexpr bool kVerifiesEachPass = true;
#endif
static bool verifiesAfter(size_t phase) {
  return !kVerifiesEachPass && (phaseNames()[phase] == "decomposed" || phaseNames()[phase] == "core");
}

LogicalResult sojourn::runPhases(ModuleOp module, StringRef from, StringRef to,
                                 function_ref<void(StringRef, ModuleOp)> afterPhase) {
  auto range = findPhases(from, to);
  if (!range) {
    return module.emitError() << "no path from phase \"" << from << "\" to phase \"" << to << "\", expected two of "
                              << llvm::join(phaseNames(), ", ") << " in this order";
  }
  if (afterPhase) {
    afterPhase(from, module);
  }
  for (size_t phase = range->first + 1; phase <= range->second; ++phase) {
    PassManager manager(module.getContext(), ModuleOp::getOperationName());
    manager.enableVerifier(kVerifiesEachPass);
    appendPhase(manager, phase);
    if (failed(manager.run(module)) || (verifiesAfter(phase) && failed(verify(module)))) {
      return failure();
    }
    setPhase(module, phaseNames()[phase]);
    if (afterPhase) {
      afterPhase(phaseNames()[phase], module);
    }
  }
  return success();
}

namespace {
struct PhaseOptions : PassPipelineOptions<PhaseOptions> {
  Option<std::string> from{*this, "from", llvm::cl::desc("phase of the module"), llvm::cl::init("captured")};
  Option<std::string> to{*this, "to", llvm::cl::desc("phase to stop after"), llvm::cl::init("core")};
};
} // namespace

void sojourn::registerPasses() {
  registerSojournPasses();
  // Not a PassPipelineRegistration: its builder cannot fail, and wrong names are the caller's, not a crash.
  registerPassPipeline(
      "sojourn-to-core", "From captured form to core form; options from= and to= name the first and the last phase",
      [](OpPassManager &manager, StringRef text, function_ref<LogicalResult(const Twine &)> report) -> LogicalResult {
        PhaseOptions options;
        if (failed(options.parseFromString(text))) {
          return failure();
        }
        if (failed(buildPhases(manager, options.from, options.to))) {
          return report("no path from phase " + Twine(options.from) + " to phase " + options.to + ", expected two of " +
                        llvm::join(phaseNames(), ", ") + " in this order");
        }
        return success();
      },
      [](function_ref<void(const mlir::detail::PassOptions &)> visit) { visit(PhaseOptions()); });
}
