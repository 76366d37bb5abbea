// SPDX-License-Identifier: Apache-2.0
// Whether the account of a session may ask for what a step asks for.
#ifndef SOJOURN_OWNER_ACCESS_H
#define SOJOURN_OWNER_ACCESS_H

#include "owner/StepBindings.h"
#include "owner/OwnerBooks.h"
#include "owner/StepMachine.h"

namespace sojourn::owner {

/// Private tables behind what a step binds, for which the time of its runs may tell of rows.
struct PrivateReach {
  bool isPrivate = false;          ///< also by values of unknown origin
  std::vector<std::string> tables; ///< by their present names, each once
};

/// The refusal of a table to which an account has no access; `what`: used of it, in words.
llvm::Error noAccess(const std::string &account, const std::string &dataset, const std::string &what = "");

/// Before anything is done for a step: access to each table that it binds and to each private one behind the states
/// that it binds, something left of the grant on each private table that it binds, and no more overruns than may be on
/// each of both. Of tables without access nothing is told, not even whether there are any. The data owner's own process
/// reaches nothing, and a joint step is looked at by StepRun, which knows the tables that are this owner's.
llvm::Expected<PrivateReach> checkAccess(OwnerBooks &books, const StepMachine &machine, const wire::Step &request,
                                         const StepPart &part, const Session &session);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_ACCESS_H
