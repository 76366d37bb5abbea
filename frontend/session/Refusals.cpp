// SPDX-License-Identifier: Apache-2.0
// What a step that was not run takes back, and what of it stays pending.
#include "frontend/session/Flights.h"

namespace sojourn::frontend {

/// After a flush; or, of an explicit step, after that of another owner failed.
void Session::refuse(Flight &flight, bool explicitStep, const std::string &refusal) {
  Recording &recording = *flight.recording;
  {
    SessionLock lock(mutex_);
    dropRefused(flight, explicitStep, refusal);
  }
  // What is left may hold another op that cannot be compiled: a later flush must not fail for this one.
  Flight rest;
  rest.session = flight.session;
  rest.recording = flight.recording;
  while (!flight.refusal.empty() && !recording.trace.words.empty()) {
    rest.call = {};
    rest.refusal.clear();
    rest.refusedOp.reset();
    prepare(rest);
    SessionLock lock(mutex_);
    size_t before = rest.end.words, publishes = recording.publishes.size();
    dropRefused(rest, /*explicitStep=*/false, rest.refusal);
    bool isLess = recording.trace.words.size() != before || recording.publishes.size() != publishes;
    if (rest.refusal.empty() || !isLess) {
      break;
    }
  }
  SessionLock lock(mutex_);
  recording.unmark();
  putBack(rest);
}

/// Takes the outputs off a trace that is not sent, and what was refused in it.
void Session::dropRefused(Flight &flight, bool explicitStep, const std::string &refusal) {
  Recording &recording = *flight.recording;
  recording.trace.truncate(flight.end);
  Reason reason = reasonOf("its computation cannot be compiled: " + refusal);
  if (explicitStep) {
    counters_.steps_dropped += recording.rollback(reason);
  }
  if (!flight.refusal.empty() && flight.refusedOp) {
    if (*flight.refusedOp < recording.trace.origins.size()) {
      recording.dropOp(*flight.refusedOp, reason);
    }
  } else if (!flight.refusal.empty() && !explicitStep) {
    // A value may not leave: that takes nothing from those that stay. If they are refused, too, they go.
    if (flight.refusalKind == ErrorKind::Refused && !recording.publishes.empty()) {
      recording.failPublishes(reason);
    } else {
      counters_.steps_dropped += recording.rollback(reason);
    }
  }
}

/// After a flush that the owner refused: what it published is lost, and the rest stays pending where it costs nothing.
/// What costs nothing is not why a budget was exhausted. After another refusal of those with a reason of their own the
/// rest is sent, alone, so that nothing is refused for ever and nothing is lost for what others publish. Whether the
/// rest was saved.
bool Session::keepRest(Flight &flight) {
  Recording &recording = *flight.recording;
  if (flight.unknown || recording.publishes.empty()) {
    return false;
  }
  bool isUnpaid = false;
  try {
    std::rethrow_exception(flight.failure);
  } catch (const Error &error) {
    isUnpaid = error.kind() == ErrorKind::BudgetExhausted;
    if (!isUnpaid && error.kind() != ErrorKind::Refused) {
      return false;
    }
  } catch (...) {
    return false;
  }
  {
    SessionLock lock(mutex_);
    recording.trace.truncate(flight.end);
    recording.failPublishes(kNotRun);
  }
  Flight rest;
  rest.session = flight.session;
  rest.recording = flight.recording;
  prepare(rest);
  bool isFree = rest.refusal.empty() && !rest.failure && spending_.isFree(rest.call.step);
  if (isFree && !isUnpaid && recording.wasRefused) {
    exchange(rest);
    if (!rest.failure) {
      land(rest);
      return true;
    }
    flight.unknown = rest.unknown;
    isFree = false;
  }
  SessionLock lock(mutex_);
  recording.trace.truncate(rest.end);
  if (isFree) {
    recording.wasRefused |= !isUnpaid;
    recording.unmark();
    putBack(rest);
  }
  return isFree;
}

void Session::drop(Flight &flight, const Reason &reason) {
  SessionLock lock(mutex_);
  Recording &recording = *flight.recording;
  recording.unmark();
  counters_.steps_dropped += recording.rollback(reason);
  recording.clear();
  putBack(flight);
}

void Session::putBack(Flight &flight) {
  flight.recording->isUnderway = false;
  if (ThreadState::current().putBack(*this, flight.recording)) {
    return;
  }
  // The thread recorded anew meanwhile (a transport written in Python can do so).
  flight.recording->unmark();
  flight.recording->rollback(kNotRun);
  flight.recording->clear();
  std::erase(recordings_, flight.recording.get());
}

} // namespace sojourn::frontend
