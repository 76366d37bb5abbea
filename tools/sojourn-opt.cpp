// SPDX-License-Identifier: Apache-2.0
// sojourn-opt: runs passes over modules in text or bytecode. Links no torch.
#include "dialect/CoreForm.h"
#include "passes/Passes.h"
#include "tools/Version.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/PrettyStackTrace.h"

int main(int argc, char **argv) {
  llvm::setBugReportMsg("sojourn-opt crashed. Please report this on the project's issue tracker and attach the input "
                        "and this trace.\n");
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &out) { out << sojourn::versionText() << '\n'; });
  mlir::DialectRegistry registry;
  sojourn::registerDialects(registry);
  mlir::registerTransformsPasses();
  sojourn::registerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Sojourn's module optimizer\n", registry));
}
