// SPDX-License-Identifier: Apache-2.0
// One step: check everything, run, then commit all or nothing.
#ifndef SOJOURN_OWNER_STEP_H
#define SOJOURN_OWNER_STEP_H

#include "owner/Limits.h"
#include "owner/ProgramLog.h"
#include "owner/RequestError.h"
#include "owner/Session.h"
#include "owner/Store.h"

#include <string>

namespace sojourn::owner {

/// What a step works with; all of it is locked by the caller.
struct StepContext {
  Store &store;
  Sessions &sessions;
  PlanCache &plans;
  ProgramLog &log;
  const Environment &environment;
  const Limits &limits;
  runtime::Profile *profile = nullptr; ///< gets the times of instructions
};

struct StepReply {
  std::string bytes; ///< Done or NeedProgram
  bool ran = false;
};

/// On any error nothing has changed.
llvm::Expected<StepReply> runStep(StepContext context, const wire::Step &request);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STEP_H
