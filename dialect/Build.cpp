// SPDX-License-Identifier: Apache-2.0
// Creation with checked inference (see Build.h).
#include "dialect/Build.h"

using namespace mlir;
using namespace sojourn;

Operation *sojourn::detail::createInferred(OpBuilder &builder, OperationState &state, InferFn infer,
                                           std::string &reason) {
  for (auto [index, operand] : llvm::enumerate(state.operands)) {
    if (!operand) {
      reason = "lacks operand #" + std::to_string(index);
      return nullptr;
    }
  }
  MLIRContext *context = builder.getContext();
  SmallVector<Type> types;
  {
    // Inference says what is wrong as a diagnostic; here it becomes part of the caller's one error.
    ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
      reason += (reason.empty() ? "" : "; ") + diagnostic.str();
      return success();
    });
    if (failed(infer(context, state.location, state.operands, state.attributes.getDictionary(context),
                     state.getRawProperties(), state.regions, types))) {
      types.clear();
    }
  }
  if (types.empty()) {
    if (reason.empty()) {
      reason = "does not take these operands";
    }
    return nullptr;
  }
  reason.clear();
  state.types.assign(types.begin(), types.end());
  return builder.create(state);
}
