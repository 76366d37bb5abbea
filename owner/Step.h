// SPDX-License-Identifier: Apache-2.0
// A step's message: its program, then each of its steps once.
#ifndef SOJOURN_OWNER_STEP_H
#define SOJOURN_OWNER_STEP_H

#include "owner/Accounts.h"
#include "owner/Budget.h"
#include "owner/Limits.h"
#include "owner/ProgramLog.h"
#include "owner/RequestError.h"
#include "owner/Session.h"
#include "owner/Store.h"

#include <mutex>
#include <string>
#include <string_view>

namespace sojourn::owner {

/// What a step works with. `mutex` guards store, sessions, plans and log; accounts, budgets and pool
/// lock themselves.
struct StepContext {
  std::mutex &mutex;
  Store &store;
  Sessions &sessions;
  PlanCache &plans;
  ProgramLog &log;
  Accounts &accounts;
  ThreadBudget &threads;
  MemoryBudget &memory;
  runtime::ArenaPool &arenas;
  const Environment &environment;
  const Limits &limits;
  runtime::Profile *profile = nullptr; ///< gets the times of instructions
};

struct StepReply {
  sojourn::wire::Message bytes; ///< Done, Committed or NeedProgram
  uint32_t steps = 0;           ///< that ran and committed now: none when it is answered from memory
};

/// Waits for the session's turn; holds the mutex for moments only, and neither while it plans nor
/// while it runs. `message` is the whole of the request's bytes, which tell a message that was sent twice
/// from another. On any error nothing has changed: steps that commit before one that fails are a reply.
llvm::Expected<StepReply> runStep(const StepContext &context, const wire::Step &request, std::string_view message);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STEP_H
