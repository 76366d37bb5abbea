// SPDX-License-Identifier: Apache-2.0
// The part of one role of a joint step, prepared on an engine: its stages one after another, and frames of terms
// between them.
#ifndef SOJOURN_RUNTIME_PARTIES_JOINTCODE_H
#define SOJOURN_RUNTIME_PARTIES_JOINTCODE_H
#include "runtime/Engine.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace sojourn::runtime {

/// The bytes of a term in a frame: terms lie one after another, each from the next multiple of kAlignment on.
size_t framedBytes(size_t termBytes);

/// Code of a module that `parties::partOf` made. `start` runs up to the first exchange and waits there, with one frame:
/// the role's terms, for each other role. `resume` takes a frame per role in the order of roles (that of the own role
/// may be null), each of exactly the bytes that its terms have, and holds it until the terms are added. Rows of tables
/// are read in any stage: a binding's RowSource lives until the run ends. A run that waits holds values, and neither a
/// thread nor an arena. `run` fails unless there is no exchange. `check`, if given, may refuse a stage: its module of
/// core form and its code.
using StageCheck = llvm::function_ref<llvm::Error(mlir::ModuleOp stage, const Code &code)>;
llvm::Expected<std::unique_ptr<Code>> prepareJoint(const Engine &engine, mlir::ModuleOp part, StageCheck check = {});

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_PARTIES_JOINTCODE_H
