// SPDX-License-Identifier: Apache-2.0
// Steps of one program in one message: built step by step, sent, and entered in the accounts.
#ifndef SOJOURN_FRONTEND_SESSION_MESSAGE_H
#define SOJOURN_FRONTEND_SESSION_MESSAGE_H

#include "frontend/session/Connection.h"
#include "frontend/session/News.h"
#include "frontend/session/Spending.h"
#include "runtime/wire/Step.h"

#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace sojourn::frontend {

/// What became of the steps of a message.
struct Sent {
  StepReply reply;                 ///< of those that committed, `reply.steps` of them
  bool isUnknown = false;          ///< whether more may have
  bool isStopped = false;          ///< by the follower
  std::exception_ptr failure;      ///< of the step after them
  std::exception_ptr interruption; ///< what the follower threw
};

/// In the session's turn. Bytes of programs and uploads are borrowed.
class Message {
public:
  explicit Message(wire::Step first) : step_(std::move(first)), states_(step_.states), slots_(step_.slots) {}

  /// Another step of the program, on the same tables, at the same terms. Its states and slots are left out where they
  /// are those of the step before.
  void add(wire::Repetition next);
  size_t count() const { return step_.count(); }
  const wire::Step &step() const { return step_; }
  void setTerms(wire::Spending terms) { step_.spending = std::move(terms); }
  void setDeadline(uint64_t milliseconds) { step_.deadlineMs = milliseconds; }
  /// Handles that end with its last step.
  std::vector<uint64_t> &lastReleases() {
    return step_.repetitions.empty() ? step_.releases : step_.repetitions.back().releases;
  }
  /// Leaves the steps from the `done`th on, to be sent anew with the program.
  void cut(size_t done, std::string_view program, std::string_view debug);

  /// Sends it, and notes what committed. `follow` may be empty, and may throw: that waits for the reply.
  Sent send(Connection &connection, Spending &spending, News &news, const StepFollower &follow);

private:
  wire::Step step_;
  std::vector<uint64_t> states_, slots_; ///< of the last step
};

/// What the owner says of committed steps: charges, notes, counts.
void noteCommitted(const wire::Step &step, const StepReply &reply, Connection &connection, Spending &spending,
                   News &news);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_MESSAGE_H
