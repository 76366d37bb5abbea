// SPDX-License-Identifier: Apache-2.0
// The replies of a group's members to one message, as one.
#ifndef SOJOURN_FRONTEND_SESSION_JOINTREPLY_H
#define SOJOURN_FRONTEND_SESSION_JOINTREPLY_H

#include "frontend/wire/Client.h"
#include "runtime/wire/Step.h"

#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::frontend {

/// What became of a message at one member.
struct MemberOutcome {
  std::optional<StepReply> reply; ///< Done or Committed
  std::exception_ptr failure;     ///< why there is none
  bool isUnknown = false;         ///< whether it leaves open that the member ran the step
  bool isEnded = false;           ///< whether it was asked to end the step, after the failure of another member
  bool isLeft = false;            ///< whether the wait for it was interrupted, and the owner left to itself
};

/// Whether a failure says that a member lacked something for the step.
bool isBusy(const std::exception_ptr &failure);
/// Whether that is why all have let the step go.
bool areBusy(const std::vector<MemberOutcome> &outcomes);

/// Whether the wait for the answers was interrupted, and nothing else leaves open what members ran.
bool areInterrupted(const std::vector<MemberOutcome> &outcomes);

/// Throws the failure that others followed from, with the name of its member; if none has one, nothing.
void raiseFailure(const std::vector<MemberOutcome> &outcomes, const std::vector<std::string> &names);

/// Values that lie in parts are joined, others are taken from the first member that has them. `names`: of the members.
/// Throws the failure of the first member that ended the step by itself, with its name; where members differ in what
/// they have committed, Error (ConnectionLost), and `unknown` is set.
StepReply jointReply(const wire::Step &step, std::vector<MemberOutcome> outcomes, const std::vector<std::string> &names,
                     bool &unknown);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_JOINTREPLY_H
