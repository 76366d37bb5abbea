// SPDX-License-Identifier: Apache-2.0
// A step's message: its program, then each of its steps once.
#ifndef SOJOURN_OWNER_STEP_H
#define SOJOURN_OWNER_STEP_H

#include "owner/OwnerBooks.h"
#include "owner/StepMachine.h"
#include "runtime/wire/Message.h"
#include "runtime/wire/Messages_generated.h"

#include "llvm/Support/Error.h"

#include <string_view>

namespace sojourn::owner {

struct StepReply {
  sojourn::wire::Message bytes; ///< Done, Committed or NeedProgram
  uint32_t steps = 0;           ///< that ran and committed now: none when it is answered from memory
  std::optional<RequestError> failure = std::nullopt; ///< of the step after these
};

/// Waits for the session's turn; holds the mutex for moments only, and neither while it plans nor
/// while it runs. `message` is the whole of the request's bytes, which tell a message that was sent twice
/// from another. On any error nothing has changed: steps that commit before one that fails are a reply.
llvm::Expected<StepReply> runStep(OwnerBooks &books, StepMachine &machine, const wire::Step &request,
                                  std::string_view message);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STEP_H
