// SPDX-License-Identifier: Apache-2.0
// Several steps of one program in one message. Steps of a trip are held back at their session, as if they had run,
// until there are enough of them, or until anything else goes to that owner; what the owner did not run is taken back
// then.
#ifndef SOJOURN_FRONTEND_SESSION_TRIP_H
#define SOJOURN_FRONTEND_SESSION_TRIP_H

#include "frontend/recording/Recording.h"
#include "frontend/session/Message.h"
#include "frontend/session/TraceCall.h"
#include "frontend/wire/Client.h"

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace sojourn::frontend {

class Session;

/// Of uploads in a message of several steps; a step with more goes alone, its uploads ahead of it.
inline constexpr size_t kTripUploadBytes = size_t{32} << 20;

/// How steps of one loop travel. Used by the thread that makes the steps; where another thread sends them, it fills in
/// what became of them under the session's turn.
struct Trip {
  size_t most = 1; ///< steps in a message
  std::optional<std::chrono::steady_clock::time_point> deadline;
  /// Called with `committed` while a message is under way, every tenth of a second, by the thread that waits. False, or
  /// an exception: no further step begins.
  std::function<bool(uint64_t committed)> follow;

  uint64_t held = 0;              ///< steps that were taken to travel together
  uint64_t committed = 0;         ///< steps of all its messages, and those that were sent alone
  std::exception_ptr failure;     ///< why it goes no further
  bool isStopped = false;         ///< by `follow` or the deadline
  bool isLate = false;            ///< the deadline ended a step that travels alone
  std::weak_ptr<Session> session; ///< at which steps are held

  /// Sends what is held. Throws what went wrong.
  void send();
  /// Throws `failure`, if there is one, and forgets it: an exception of Python's can be thrown once.
  void raiseFailure();
  bool isOver() const { return failure || isStopped; }
};

/// A tensor on its way out, and where its value goes.
using Publishes = std::vector<std::pair<c10::intrusive_ptr<Storage>, std::shared_ptr<PublishedState>>>;
/// From the reply's values from `first` on. Returns what is wrong with them, or an empty text.
std::string fillPublished(const Publishes &publishes, const StepReply &reply, size_t first);

/// Why a tensor has no value.
inline const Reason &kNotRun = constantReason("the owner did not run the step that computed it");
inline const Reason &kUnknownOutcome =
    constantReason("the owner did not answer the step that computed it, so it is unknown whether the step ran");

/// Steps that wait for their message; the session's turn guards them.
class HeldSteps {
public:
  explicit HeldSteps(std::shared_ptr<Trip> trip) : trip(std::move(trip)) {}

  /// Whether a step can join: it is of the same program, on the same tables, at the same terms, and small enough.
  bool takes(const TraceCall &call) const;
  /// `recording`: still holds what the step computed; its publishes move here.
  void add(TraceCall &call, Recording &recording);
  bool isFull() const { return steps_.size() >= trip->most; }
  /// Sends them, in as many messages as the owner makes of them; the trip says what became of them, and those that did
  /// not run are taken back.
  void send(Connection &connection, Spending &spending, News &news);

  /// What one step leaves at the owner, or is to.
  struct Held {
    std::vector<uint64_t> results, releases;
    std::vector<c10::weak_intrusive_ptr<Storage>> kept; ///< those that the results are for
    Publishes publishes;
  };

  const std::shared_ptr<Trip> trip;

private:
  /// Returns how many of them have committed; the trip says why no others will.
  size_t sendOnce(Connection &connection, Spending &spending, News &news);
  /// What the steps from `first` on were to leave is lost.
  void takeBack(RemoteDevice &device, size_t first, const Reason &reason, bool unknown);

  std::optional<Message> message_;
  std::vector<Held> steps_;
  std::shared_ptr<const CompiledTrace> compiled_; ///< holds the message's program
  std::vector<at::Tensor> uploads_;               ///< and the bytes of its uploads
  size_t uploadBytes_ = 0, publishedBytes_ = 0;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_TRIP_H
