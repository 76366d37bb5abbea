// SPDX-License-Identifier: Apache-2.0
// What a step that was not run takes back, and what of it stays pending.
#include "frontend/flight/Flight.h"

namespace sojourn::frontend {

void Flight::refuse(bool explicitStep, const std::string &refusal) {
  {
    DeviceLock lock(session->mutex());
    dropRefused(explicitStep, refusal);
    recording->writeWords();
  }
  // What is left may hold another op that cannot be compiled: a later flush must not fail for this one.
  bool isRefused = !refusal_.empty();
  while (isRefused && !recording->trace.words.empty()) {
    Flight left = rest();
    left.prepare();
    DeviceLock lock(session->mutex());
    const size_t before = left.end_.words, publishes = recording->publishes.size();
    left.dropRefused(/*explicitStep=*/false, left.refusal_);
    const bool isLess = recording->trace.words.size() != before || recording->publishes.size() != publishes;
    isRefused = !left.refusal_.empty() && isLess;
  }
  DeviceLock lock(session->mutex());
  recording->unmark();
  putBack();
}

/// Takes the outputs off a trace that is not sent, and what was refused in it. Lock held.
void Flight::dropRefused(bool explicitStep, const std::string &refusal) {
  recording->trace.truncate(end_);
  const Reason reason = reasonOf("its computation cannot be compiled: " + refusal);
  uint64_t &dropped = session->counts().steps_dropped;
  if (explicitStep) {
    dropped += recording->rollback(reason);
  }
  if (!refusal_.empty() && refusedOp_) {
    if (*refusedOp_ < recording->trace.origins.size()) {
      recording->dropOp(*refusedOp_, reason);
    }
  } else if (!refusal_.empty() && !explicitStep) {
    // A value may not leave: that takes nothing from those that stay. If they are refused, too, they go.
    if (refusalKind_ == ErrorKind::Refused && !recording->publishes.empty()) {
      recording->failPublishes(reason);
    } else {
      dropped += recording->rollback(reason);
    }
  }
}

/// What costs nothing is not why a budget was exhausted. After another refusal of those with a reason of their own the
/// rest is sent, alone, so that nothing is refused for ever and nothing is lost for what others publish.
bool Flight::keepRest() {
  if (unknown || recording->publishes.empty()) {
    return false;
  }
  bool isUnpaid = false;
  try {
    std::rethrow_exception(failure);
  } catch (const Error &error) {
    isUnpaid = error.kind() == ErrorKind::BudgetExhausted;
    if (!isUnpaid && error.kind() != ErrorKind::Refused) {
      return false;
    }
  } catch (...) {
    return false;
  }
  {
    DeviceLock lock(session->mutex());
    recording->trace.truncate(end_);
    recording->failPublishes(kNotRun);
  }
  Flight left = rest();
  left.prepare();
  bool isFree = left.refusal_.empty() && !left.failure && session->spending().isFree(left.call.step);
  if (isFree && !isUnpaid && recording->wasRefused) {
    left.exchange();
    if (!left.failure) {
      left.land();
      return true;
    }
    unknown = left.unknown;
    isFree = false;
  }
  DeviceLock lock(session->mutex());
  recording->trace.truncate(left.end_);
  if (isFree) {
    recording->wasRefused |= !isUnpaid;
    recording->unmark();
    putBack();
  }
  return isFree;
}

void Flight::drop(const Reason &reason) {
  DeviceLock lock(session->mutex());
  recording->unmark();
  session->counts().steps_dropped += recording->rollback(reason);
  recording->clear();
  putBack();
}

void Flight::takeBackPublish() {
  DeviceLock lock(session->mutex());
  recording->trace.truncate(end_);
  recording->publishes.pop_back();
  putBack();
}

/// Lock held.
void Flight::putBack() {
  recording->isUnderway = false;
  if (ThreadState::current().putBack(*session, recording)) {
    return;
  }
  // The thread recorded anew meanwhile (a transport written in Python can do so).
  recording->unmark();
  recording->rollback(kNotRun);
  recording->clear();
  session->forget(*recording);
}

} // namespace sojourn::frontend
