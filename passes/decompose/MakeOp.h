// SPDX-License-Identifier: Apache-2.0
// How terms build core ops whose result types follow from their operands.
#ifndef SOJOURN_PASSES_DECOMPOSE_MAKEOP_H
#define SOJOURN_PASSES_DECOMPOSE_MAKEOP_H

#include "dialect/Build.h"
#include "passes/decompose/Term.h"

namespace sojourn::decompose {

/// Refuses operands that the op does not take.
template <typename OpType, typename... Args>
OpType makeOp(Emitter *e, Args &&...args) {
  std::string reason;
  auto op = tryCreate<OpType>(e->builder, e->location, reason, std::forward<Args>(args)...);
  if (!op) {
    refuse("cannot be '" + llvm::Twine(OpType::getOperationName()) + "': " + reason);
  }
  return op;
}

} // namespace sojourn::decompose

#endif // SOJOURN_PASSES_DECOMPOSE_MAKEOP_H
