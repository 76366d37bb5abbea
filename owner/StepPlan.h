// SPDX-License-Identifier: Apache-2.0
// The plan of a step's message: held by the owner, or made from the program that came with it.
#ifndef SOJOURN_OWNER_STEPPLAN_H
#define SOJOURN_OWNER_STEPPLAN_H

#include "owner/OwnerBooks.h"
#include "owner/StepMachine.h"
#include "owner/peers/JointMessage.h"
#include "runtime/wire/Messages_generated.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <optional>

namespace sojourn::owner {

struct StepPlan {
  runtime::ProgramHash hash;
  std::shared_ptr<const Plan> plan; ///< null: the owner does not hold it, and the request has no program
};

/// In the session's turn; takes the mutex, and a place in the queue where a plan is made. Errors: a hash that is not
/// the program's, a program that is too large or invalid, a stop.
llvm::Expected<StepPlan> findStepPlan(OwnerBooks &books, StepMachine &machine, Session &session,
                                      const wire::Step &request, RunningStep &running);

/// Whether the message's steps and their reply are within the owner's limits.
llvm::Error checkStepSize(const wire::Step &request, const runtime::ProgramFacts &facts, const Limits &limits);

/// Makes a message of a session of a group a joint one. RequestErrors: digestOf's.
llvm::Error openJoint(std::optional<JointMessage> &joint, const Session &session, const wire::Step &request,
                      size_t messageBytes, RunningStep &running, const Limits &limits);

/// A refusal by SessionTurn::take, of a session of a group without room among the requests: this owner is busy, and the
/// other members hear so. Unless frames of an earlier message may be on their way: then they hear from their client.
void refuseJoint(OwnerBooks &books, const wire::Step &request, RequestError &refusal);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STEPPLAN_H
