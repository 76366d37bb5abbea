// SPDX-License-Identifier: Apache-2.0
// What all engines share (see Engine.h).
#include "runtime/Engine.h"
#include "dialect/CoreForm.h"
#include "runtime/Program.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sojourn::runtime {

RowSource::~RowSource() = default;
Suspended::~Suspended() = default;
Code::~Code() = default;
Engine::~Engine() = default;

llvm::Expected<RunOutcome> Code::start(llvm::ArrayRef<Binding> arguments, const RunOptions &options) const {
  auto values = run(arguments, options);
  return values ? llvm::Expected<RunOutcome>(RunOutcome{std::move(*values), nullptr}) : values.takeError();
}

llvm::StringRef textOf(EngineTrait trait) {
  static constexpr std::array<llvm::StringRef, kEngineTraits.size()> texts = {
#define SOJOURN_ENGINE_TRAIT(name, text) text,
#include "runtime/EngineTraits.def"
  };
  return texts[static_cast<size_t>(trait)];
}

llvm::Expected<std::unique_ptr<Code>> Engine::prepare(mlir::ModuleOp coreModule) const {
  auto step = coreModule.lookupSymbol<mlir::func::FuncOp>(kStepName);
  if (!step || !llvm::hasSingleElement(step.getBody())) {
    return makeError(ErrorCode::Unsupported, "the module has no straight-line function @step");
  }
  for (mlir::Operation &op : step.getBody().front()) {
    const llvm::StringRef known = op.getName().stripDialect();
    if (op.getName().getDialectNamespace() == "sojourn" && !hasKernel(known)) {
      return makeError(ErrorCode::Unsupported,
                       "the engine '" + name().str() + "' of this owner has no kernel for '" + known.str() + "'",
                       known.str(), describeLocation(op.getLoc()));
    }
  }
  return make(coreModule);
}

} // namespace sojourn::runtime
