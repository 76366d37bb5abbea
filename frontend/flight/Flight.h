// SPDX-License-Identifier: Apache-2.0
// One open trace on its way to its owner; frontend/flight/README.md draws its states.
#ifndef SOJOURN_FRONTEND_FLIGHT_FLIGHT_H
#define SOJOURN_FRONTEND_FLIGHT_FLIGHT_H

#include "frontend/session/Session.h"

#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace sojourn::frontend {

/// Made and used by one thread, which has the turn at the session.
class Flight {
public:
  /// Takes the calling thread's open trace; nothing if it is empty. `offline`: of a session without an owner, for which
  /// it throws Error otherwise.
  static std::optional<Flight> take(const std::shared_ptr<Session> &session, bool offline = false);

  /// Finishes, compiles and checks the trace: `call` is complete, or `refusal` says why it is not sent.
  void prepare();
  /// Sends it: `reply` is filled, or `failure` says what went wrong.
  void exchange();
  /// After an exchange that did not fail: results are values at the owner, published values have arrived.
  void land();
  /// Of a trace that was not sent, but whose results exist (offline), likewise.
  void commit();
  /// Instead of an exchange: the step waits for others of `trip`, as good as landed.
  void hold(const std::shared_ptr<Trip> &trip);
  /// Nothing of the trace survives.
  void drop(const Reason &reason);

  /// Of a trace that is not sent: drops what was refused, and all of an explicit step; the rest is open again.
  void refuse(bool explicitStep, const std::string &refusal);
  /// After a failed exchange of an undeclared step: its publishes are lost if the owner refused them, and the rest is
  /// open again, or sent alone. Whether the rest was saved.
  bool keepRest();
  /// Nothing was asked for: the trace is open again, without its last publish.
  void takeBackPublish();

  /// After an exchange: whether the deadline ended it while an owner was busy.
  bool isLate() const { return reply_.isStopped; }
  /// Why it is not sent, or empty.
  const std::string &refusal() const { return refusal_; }
  ErrorKind refusalKind() const { return refusalKind_; }
  void explainRefusal(std::string text) { refusal_ = std::move(text); }
  [[noreturn]] void raiseRefusal() const;

  const std::shared_ptr<Session> session;
  const std::shared_ptr<Recording> recording; ///< taken out of its thread
  TraceCall call;
  std::exception_ptr failure; ///< of the exchange
  bool unknown = false;       ///< whether the failure leaves open that the owner ran it

private:
  Flight(std::shared_ptr<Session> session, std::shared_ptr<Recording> recording)
      : session(std::move(session)), recording(std::move(recording)) {}
  /// Another attempt with what is left of the trace.
  Flight rest() const { return {session, recording}; }
  void finish();
  void writeWords();
  Compilation compile(bool &hit, TraceCache::Forms forms);
  void dropRefused(bool explicitStep, const std::string &refusal);
  void putBack();

  Trace::Mark end_; ///< of its trace before the Outputs record
  std::string refusal_;
  ErrorKind refusalKind_ = ErrorKind::Unsupported;
  std::optional<size_t> refusedOp_; ///< the op record to blame, if it is known
  StepReply reply_;
};

/// Offline: finishes the calling thread's trace without an owner. Throws what refuses it.
TraceCall finishOffline(const std::shared_ptr<Session> &session);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_FLIGHT_FLIGHT_H
