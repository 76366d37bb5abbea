// SPDX-License-Identifier: Apache-2.0
// Steps on their way: to all owners at once, committed or taken back.
#ifndef SOJOURN_FRONTEND_FLIGHT_FLIGHTS_H
#define SOJOURN_FRONTEND_FLIGHT_FLIGHTS_H

#include "frontend/flight/Flight.h"

#include <memory>
#include <vector>

namespace sojourn::frontend {

/// Sends what the calling thread has open at these sessions (in order of their index). Every owner
/// is sent to before any is waited for.
///
/// A trace that does not compile is not sent. An explicit step is then dropped at all sessions. Of an undeclared one,
/// each refused op is dropped with all that depends on it, the rest stays for the next flush, and the other sessions'
/// traces travel. A commit of one owner stands, whatever another one does. Throws the first failure, at the end.
///
/// Where values may not leave, or their price is not paid, a flush loses its publishes; what else is pending, and costs
/// nothing, stays for the next.
///
/// `trip`: its steps that are held at another session are sent first. `holds`: an explicit step at one owner is held
/// back for the trip, and sent with the others once there are enough; its failure is then in the trip.
void sendAll(const std::vector<std::shared_ptr<Session>> &sessions, bool explicitStep,
             const std::shared_ptr<Trip> &trip = nullptr, bool holds = false);

/// Sends the calling thread's trace at one session (nothing to do: no round trip). Throws what went wrong; what does
/// not depend on a refused op stays pending.
void flush(const std::shared_ptr<Session> &session);
/// Ends the calling thread's implicit step: sends what it has open, at all owners at once.
void flushAll();

/// Ends the outermost explicit step: sends to every session that it touched before it waits for any. Throws what the
/// first failing owner says, and with several owners which of them committed.
/// `trip`: counts the step once it has committed. `holds`: one at one owner joins it and travels with its next message.
void endStep(const std::shared_ptr<Trip> &trip = nullptr, bool holds = false);

/// What publishing `copy` now would release, on what the session knows of its tables; nothing is sent but a question
/// for the tables' policies and budgets. Throws Refused where the owner would refuse.
Judgement quote(const std::shared_ptr<Session> &session, const at::Tensor &copy, const wire::ReleaseTerms &terms);

/// Gathers small values that are only kept, outside of steps, while there are many. What goes wrong is no failure of
/// the step before: values stay as they are.
void gather(const std::shared_ptr<Session> &session);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_FLIGHT_FLIGHTS_H
