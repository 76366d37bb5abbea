// SPDX-License-Identifier: Apache-2.0
// See Warm.h.
#include "owner/process/Warm.h"

#include "dialect/CoreForm.h"
#include "owner/worker/Worker.h"
#include "runtime/Engine.h"
#include "runtime/Library.h"
#include "runtime/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <ctime>
#include <sodium.h>

namespace sojourn::owner {

static constexpr const char *kProgram = R"(
module attributes {sojourn.promotion = "torch", sojourn.phase = "core"} {
  func.func @step() {
    return
  }
}
)";

void warmZygote() {
  tzset();
  runtime::findInstructions();
  if (sodium_init() < 0) {
    return; // each draw of coins says so
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadDialects(context);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kProgram, &context, "warm");
  if (!module) {
    return;
  }
  auto program = runtime::encodeProgram(*module);
  if (!program) {
    return llvm::consumeError(program.takeError());
  }
  llvm::consumeError(cpuWorker().describe(program->program, program->debug).takeError());
}

} // namespace sojourn::owner
