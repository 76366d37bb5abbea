// SPDX-License-Identifier: Apache-2.0
// What the steps of all sessions share.
#ifndef SOJOURN_OWNER_STEPCONTEXT_H
#define SOJOURN_OWNER_STEPCONTEXT_H

#include "owner/AccountLines.h"
#include "owner/Accounts.h"
#include "owner/Budget.h"
#include "owner/Environment.h"
#include "owner/Limits.h"
#include "owner/PlanCache.h"
#include "owner/ProgramLog.h"
#include "owner/RunningSteps.h"
#include "owner/Session.h"
#include "owner/StepQueue.h"
#include "owner/Store.h"
#include "owner/WorkerStub.h"

#include <mutex>

namespace sojourn::owner {

/// The services of an owner that a step uses. `mutex` guards store, sessions, plans and log; accounts, budgets, queue
/// and worker lock themselves.
struct StepContext {
  std::mutex &mutex;
  Store &store;
  Sessions &sessions;
  PlanCache &plans;
  WorkerStub &worker;
  ProgramLog &log;
  Accounts &accounts;
  ThreadBudget &threads;
  MemoryBudget &memory;
  StepQueue &queue;
  RunningSteps &running;
  const Environment &environment;
  const Limits &limits;
  AccountLines &unreadable; ///< lines of the log on tables that cannot be read; under the mutex
};

/// The error of a step that binds a table which cannot be loaded. The reason names files: the data owner's process gets
/// it, for any other account it goes to the log. Under the owner's mutex.
llvm::Error unreadableTable(const StepContext &context, const std::string &account, llvm::Error reason);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STEPCONTEXT_H
