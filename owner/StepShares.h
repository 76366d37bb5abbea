// SPDX-License-Identifier: Apache-2.0
// What a joint step shows to other members must be theirs to see, by the word of this owner.
#ifndef SOJOURN_OWNER_STEPSHARES_H
#define SOJOURN_OWNER_STEPSHARES_H

#include "owner/OwnerBooks.h"
#include "owner/StepBindings.h"
#include "runtime/facts/ProgramFacts.h"

#include "llvm/Support/Error.h"

namespace sojourn::owner {

/// Of a session of a group. `bound`: the arguments of this owner's part. `isMasked`: of the message. `rowsLeast`:
/// of this owner, in a sum that is shown of a table shared as sums. Takes the owner's mutex. RequestErrors (Refused): a
/// table is private, which joint steps do not take yet, or is not shared with a member as the step shows it.
llvm::Error checkShares(const OwnerBooks &books, const Session &session, const runtime::JointFacts &facts,
                        const StepBindings &bound, bool isMasked, uint64_t rowsLeast);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STEPSHARES_H
