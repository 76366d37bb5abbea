// SPDX-License-Identifier: Apache-2.0
// Traces on their way: compiled, sent to all owners at once, committed or taken back.
#ifndef SOJOURN_FRONTEND_SESSION_FLIGHTS_H
#define SOJOURN_FRONTEND_SESSION_FLIGHTS_H

#include "frontend/session/Session.h"

#include <memory>
#include <vector>

namespace sojourn::frontend {

/// Sends what the calling thread has open at these sessions (in order of their index). Every owner
/// is sent to before any is waited for.
///
/// A trace that does not compile is not sent. In an explicit step nothing is then: all of the step
/// is dropped. Else every op that is refused goes with all that depends on it, the rest stays for
/// the next flush, and the other sessions' traces travel. What an owner committed stays committed
/// whatever another one does. Throws the first failure, at the end.
///
/// Where values may not leave, or their price is not paid, a flush loses its publishes; what else is pending, and costs
/// nothing, stays for the next.
///
/// `trip`: what is held for it elsewhere goes first. `holds`: an explicit step at one owner is held back for it
/// instead, and sent with the others once there are enough; what goes wrong then is in the trip.
void sendAll(const std::vector<std::shared_ptr<Session>> &sessions, bool explicitStep,
             const std::shared_ptr<Trip> &trip = nullptr, bool holds = false);

/// What made the flight's trace one that is not sent.
[[noreturn]] void raiseRefusal(const Flight &flight);

/// Why a tensor has no value.
inline const Reason &kNotRun = constantReason("the owner did not run the step that computed it");
inline const Reason &kUnknownOutcome =
    constantReason("the owner did not answer the step that computed it, so it is unknown whether the step ran");

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_FLIGHTS_H
