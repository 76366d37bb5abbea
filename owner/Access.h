// SPDX-License-Identifier: Apache-2.0
// Whether the account of a session may ask for what a step asks for.
#ifndef SOJOURN_OWNER_ACCESS_H
#define SOJOURN_OWNER_ACCESS_H

#include "owner/StepBindings.h"
#include "owner/OwnerBooks.h"
#include "owner/StepMachine.h"

namespace sojourn::owner {

/// Before anything is done for a step: access to each table that it binds and to each private one behind the states
/// that it binds, and something left of the grant on each private table that it binds. Of tables without access nothing
/// is told, not even whether there are any.
llvm::Error checkAccess(OwnerBooks &books, const Environment &environment, const wire::Step &request,
                        const StepPart &part, const Session &session);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_ACCESS_H
