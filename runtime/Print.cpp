// SPDX-License-Identifier: Apache-2.0
// A module of core form as text for people, op by op: a printer that is given the whole module cannot
// be stopped, and repeats every table's columns at every op that reads them.
#include "dialect/CoreForm.h"
#include "runtime/CutText.h"
#include "runtime/Program.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"

namespace sojourn::runtime {

namespace {

void printPlace(CutStream &out, mlir::Location location, const std::string &note = "") {
  const std::string place = describeLocation(location);
  if (!place.empty() || !note.empty()) {
    out << "  // " << place << (place.empty() || note.empty() ? "" : "; ") << note;
  }
  out << "\n";
}

} // namespace

std::string printProgram(mlir::ModuleOp module, size_t limit,
                         llvm::function_ref<std::string(mlir::Operation *)> noteOf) {
  CutStream out(limit);
  auto step = module.lookupSymbol<mlir::func::FuncOp>(kStepName);
  if (!step || !llvm::hasSingleElement(step.getBody())) {
    return prefix("no straight-line function @step\n", limit).str();
  }
  mlir::AsmState names(step, mlir::OpPrintingFlags().useLocalScope());
  // With `names`: what is printed without makes a state of its own each time.
  auto print = [&](const char *before, auto printed) {
    out << before;
    printed.print(out, names);
  };
  print("module attributes ", module->getDiscardableAttrDictionary());
  out << " {\n  func.func @" << kStepName << "(";
  for (mlir::BlockArgument argument : step.getArguments()) {
    out << (argument.getArgNumber() == 0 ? "" : ", ");
    argument.printAsOperand(out, names);
    print(": ", argument.getType());
    if (mlir::DictionaryAttr attributes = step.getArgAttrDict(argument.getArgNumber())) {
      print(" ", attributes);
    }
    if (out.full()) {
      return out.take();
    }
  }
  out << ")";
  for (auto [index, type] : llvm::enumerate(step.getResultTypes())) {
    print(index == 0 ? " -> (" : ", ", type);
    if (mlir::DictionaryAttr attributes = step.getResultAttrDict(static_cast<unsigned>(index))) {
      print(" ", attributes);
    }
    if (out.full()) {
      return out.take();
    }
  }
  out << (step.getNumResults() == 0 ? " {" : ") {");
  printPlace(out, step.getLoc());
  for (mlir::Operation &op : step.getBody().front()) {
    out << "    ";
    op.print(out, names);
    printPlace(out, op.getLoc(), noteOf ? noteOf(&op) : "");
    if (out.full()) {
      return out.take();
    }
  }
  out << "  }\n}\n";
  return out.take();
}

} // namespace sojourn::runtime
