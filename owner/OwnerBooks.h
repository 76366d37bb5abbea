// SPDX-License-Identifier: Apache-2.0
// Records of an owner: tables, accounts, sessions, plans, and the log of programs.
#ifndef SOJOURN_OWNER_OWNERBOOKS_H
#define SOJOURN_OWNER_OWNERBOOKS_H

#include "owner/AccountLines.h"
#include "owner/Accounts.h"
#include "owner/PlanCache.h"
#include "owner/ProgramLog.h"
#include "owner/Session.h"
#include "owner/StepMachine.h"
#include "owner/Store.h"

#include <memory>
#include <mutex>
#include <string>

namespace sojourn::owner {

/// `mutex` guards all of it but the accounts, which guard themselves.
struct OwnerBooks {
  explicit OwnerBooks(StepMachine &machine)
      : sessions(machine.environment, machine.limits, machine.worker),
        plans(machine.limits.cachedPlans, machine.limits.cachedPlanBytes) {}

  mutable std::mutex mutex;
  std::unique_ptr<Store> store;
  std::unique_ptr<ProgramLog> log;
  std::unique_ptr<Accounts> accounts; ///< outlives the sessions, whose runs it keeps
  Sessions sessions;
  PlanCache plans;
  AccountLines unreadable{kRefusalLines, kRefusalMs, "tables that cannot be read", "for"};
};

/// The error of a step that binds a table which cannot be loaded. The reason names files: the data owner's process gets
/// it, for any other account it goes to the log. Under the mutex.
llvm::Error unreadableTable(OwnerBooks &books, const Environment &environment, const std::string &account,
                            llvm::Error reason);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_OWNERBOOKS_H
