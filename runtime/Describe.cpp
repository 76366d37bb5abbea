// SPDX-License-Identifier: Apache-2.0
// A module of core form in words: what it takes, what it gives, how large it is.
#include "dialect/CoreForm.h"
#include "runtime/Program.h"
#include "runtime/Types.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <map>

namespace sojourn::runtime {

namespace {

size_t bytesOf(mlir::Type type) {
  std::optional<TensorType> tensor = tensorTypeOf(type);
  return tensor ? tensor->bytes() : 0;
}

} // namespace

std::string describeProgram(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  auto step = module.lookupSymbol<mlir::func::FuncOp>(kStepName);
  if (!step) {
    return "no function @step\n";
  }
  auto attribute = [&](llvm::StringRef name) {
    auto value = module->getAttrOfType<mlir::StringAttr>(name);
    return value ? value.getValue() : llvm::StringRef("unknown");
  };
  out << "promotion " << attribute(kPromotionAttr) << ", phase " << attribute(kPhaseAttr) << "\n";

  out << "arguments (" << step.getNumArguments() << ")\n";
  for (unsigned i = 0; i < step.getNumArguments(); ++i) {
    auto kind = step.getArgAttrOfType<mlir::StringAttr>(i, kKindAttr);
    mlir::Type type = step.getArgument(i).getType();
    out << "  " << i << " " << (kind ? kind.getValue() : "unknown") << " " << type;
    if (size_t bytes = bytesOf(type)) {
      out << ", " << bytes << " bytes";
    }
    out << "\n";
  }
  out << "results (" << step.getNumResults() << ")\n";
  for (unsigned i = 0; i < step.getNumResults(); ++i) {
    auto kind = step.getResultAttrOfType<mlir::StringAttr>(i, kResultAttr);
    out << "  " << i << " " << (kind ? kind.getValue() : "unknown") << " " << step.getResultTypes()[i];
    if (auto target = step.getResultAttrOfType<mlir::IntegerAttr>(i, kTargetAttr)) {
      out << " -> argument " << target.getInt();
    }
    out << (step.getResultAttr(i, kTrainedAttr) ? ", trained" : "");
    out << ", " << bytesOf(step.getResultTypes()[i]) << " bytes\n";
  }

  std::map<std::string, size_t> histogram;
  size_t ops = 0, bytes = 0;
  step.walk([&](mlir::Operation *op) {
    if (!mlir::isa<mlir::func::FuncOp, mlir::func::ReturnOp>(op)) {
      ++ops;
      ++histogram[op->getName().stripDialect().str()];
      for (mlir::Type type : op->getResultTypes()) {
        bytes += bytesOf(type);
      }
    }
  });
  out << "ops (" << ops << "), " << bytes << " bytes of values\n";
  std::vector<std::pair<std::string, size_t>> sorted(histogram.begin(), histogram.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) { return a.second > b.second; });
  for (const auto &[name, count] : sorted) {
    out << "  " << count << " " << name << "\n";
  }
  return text;
}

} // namespace sojourn::runtime
