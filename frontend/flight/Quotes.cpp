// SPDX-License-Identifier: Apache-2.0
// Quotes: what publishing a value now would release and cost, without sending a step.
#include "frontend/flight/Flights.h"

#include <algorithm>

namespace sojourn::frontend {

Judgement quote(const std::shared_ptr<Session> &session, const at::Tensor &copy, const wire::ReleaseTerms &terms) {
  Turn turn(session->connection());
  session->requireOpen();
  session->publish(copy, terms);
  auto flight = Flight::take(session);
  if (!flight) {
    return {};
  }
  flight->prepare();
  Judgement judgement;
  auto number = static_cast<unsigned>(flight->recording->publishes.size()) - 1;
  if (flight->refusal().empty() && !flight->failure) {
    try {
      judgement = session->isGroup() ? Judgement()
                                     : session->spending().judge(flight->call.step, session->connection().client());
    } catch (...) {
      flight->failure = std::current_exception(); // what is pending is put back all the same
    }
  }
  flight->takeBackPublish();
  if (flight->failure) {
    translated([&] { std::rethrow_exception(flight->failure); });
  }
  if (!flight->refusal().empty()) {
    flight->raiseRefusal();
  }
  if (!judgement.refusal.empty()) {
    raise(ErrorKind::Refused, judgement.refusal);
  }
  std::erase_if(judgement.releases, [&](const Judgement::Release &release) { return release.published != number; });
  return judgement;
}

} // namespace sojourn::frontend
