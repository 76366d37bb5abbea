// SPDX-License-Identifier: Apache-2.0
// The part of one role of a joint step, prepared on an engine: its stages one after another, and frames of terms
// between them.
#ifndef SOJOURN_RUNTIME_PARTIES_JOINTCODE_H
#define SOJOURN_RUNTIME_PARTIES_JOINTCODE_H
#include "runtime/Engine.h"
#include "runtime/Exchange.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace sojourn::runtime {

/// Of a module that `parties::partOf` made, in order.
std::vector<Exchange> exchangesOf(mlir::ModuleOp part);

/// Code of such a module. `start` runs up to the first exchange and waits there, with one frame:
/// the role's terms (Exchange.h). `resume` takes one frame: the sums, of exactly their bytes, which it holds as long as
/// a later stage takes one. Rows of tables are read in any stage: a binding's RowSource lives until the run ends. A run
/// that waits holds values, and neither a thread nor an arena. `run` fails unless there is no exchange. `check`, if
/// given, may refuse a stage: its module of core form and its code.
using StageCheck = llvm::function_ref<llvm::Error(mlir::ModuleOp stage, const Code &code)>;
llvm::Expected<std::unique_ptr<Code>> prepareJoint(const Engine &engine, mlir::ModuleOp part, StageCheck check = {});

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_PARTIES_JOINTCODE_H
