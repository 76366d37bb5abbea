// SPDX-License-Identifier: Apache-2.0
// Quotes: what publishing a value now would release and cost, without sending a step.
#include "frontend/session/Flights.h"

#include <algorithm>

namespace sojourn::frontend {

Judgement Session::quote(const at::Tensor &copy, const wire::ReleaseTerms &terms) {
  SessionLock turn(turn_);
  requireOpen();
  publish(copy, terms);
  auto flight = take();
  if (!flight) {
    return {};
  }
  prepare(*flight);
  Judgement judgement;
  auto number = static_cast<unsigned>(flight->recording->publishes.size()) - 1;
  if (flight->refusal.empty() && !flight->failure) {
    try {
      judgement = spending_.judge(flight->call.step, *client_);
    } catch (...) {
      flight->failure = std::current_exception(); // what is pending is put back all the same
    }
  }
  {
    SessionLock lock(mutex_);
    flight->recording->trace.truncate(flight->end);
    flight->recording->publishes.pop_back();
    putBack(*flight);
  }
  if (flight->failure) {
    translated([&] { std::rethrow_exception(flight->failure); });
  }
  if (!flight->refusal.empty()) {
    raise(flight->refusalKind, flight->refusal);
  }
  if (!judgement.refusal.empty()) {
    raise(ErrorKind::Refused, judgement.refusal);
  }
  std::erase_if(judgement.releases, [&](const Judgement::Release &release) { return release.published != number; });
  return judgement;
}

} // namespace sojourn::frontend
