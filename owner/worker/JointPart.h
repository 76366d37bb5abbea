// SPDX-License-Identifier: Apache-2.0
// The part of one role of a joint program. Internal to owner/worker.
#ifndef SOJOURN_OWNER_WORKER_JOINTPART_H
#define SOJOURN_OWNER_WORKER_JOINTPART_H

#include "owner/worker/Port.h"
#include "passes/parties/Part.h"
#include "runtime/facts/ProgramFacts.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace sojourn::owner {

struct JointPart {
  parties::RolePart part;
  std::unique_ptr<parties::Placement> placement; ///< of the joint program, which it refers to
  runtime::JointFacts facts;
};

/// Of a verified program in core form. RequestErrors: it has no roles or another number of them, Malformed; owners
/// cannot compute it together, Unsupported with op and line.
llvm::Expected<JointPart> jointPartOf(mlir::ModuleOp joint, const RoleOfGroup &role);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_WORKER_JOINTPART_H
