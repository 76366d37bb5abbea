// SPDX-License-Identifier: Apache-2.0
// A trace leaves its thread, and lands.
#include "frontend/flight/Flight.h"

#include <utility>

namespace sojourn::frontend {

std::optional<Flight> Flight::take(const std::shared_ptr<Session> &session, bool offline) {
  DeviceLock lock(session->mutex());
  ThreadState &thread = ThreadState::current();
  auto open = thread.peek(*session);
  if (!open) {
    return std::nullopt;
  }
  if (!offline && (session->isClosed() || open->empty())) {
    open->clear();
    return std::nullopt;
  }
  if (!offline && session->offline()) {
    raise(ErrorKind::Error, "an offline device only records: use sojourn.compile, or connect to an owner");
  }
  if (offline) {
    open->dropUnusedUploads(); // an artifact holds what its steps use
  }
  Flight flight(session, thread.take(*session));
  flight.recording->isUnderway = true;
  return flight;
}

void Flight::exchange() {
  try {
    reply_ = session->connection().sendWithReleases(call.step, recording.get(), unknown);
    if (isLate()) {
      throw Error(ErrorKind::Error, "the deadline passed while an owner of the group was busy; the step ran at none");
    }
  } catch (...) {
    failure = std::current_exception();
  }
}

void Flight::land() {
  if (std::string problem = fillPublished(recording->publishes, reply_, 0); !problem.empty()) {
    failure = std::make_exception_ptr(
        Error(ErrorKind::OwnerError, problem + "; the step is committed, but its published values are lost"));
  }
  noteCommitted(call.step, reply_, session->connection(), session->spending(), session->news());
  {
    DeviceLock lock(session->mutex());
    for (Word id : call.kept) {
      if (Storage *storage = recording->storages[static_cast<size_t>(id)]) {
        storage->pack.reset(); // its own value has committed
      }
    }
  }
  commit();
}

void Flight::commit() {
  DeviceLock lock(session->mutex());
  session->commit(*recording, call.kept, call.step.results, call.step.places.get());
  putBack();
}

void Flight::hold(const std::shared_ptr<Trip> &trip) {
  const std::vector<uint64_t> waiting = session->takeReleases(recording.get());
  call.step.releases.insert(call.step.releases.end(), waiting.begin(), waiting.end());
  std::unique_ptr<HeldSteps> &held = session->held();
  if (!held) {
    held = std::make_unique<HeldSteps>(trip);
    trip->session = session;
  }
  ++trip->held;
  std::vector<uint64_t> results = call.step.results;
  const std::shared_ptr<const wire::ResultPlaces> places = call.step.places;
  DeviceLock lock(session->mutex());
  held->add(call, *recording);
  session->commit(*recording, call.kept, results, places.get());
  putBack();
}

} // namespace sojourn::frontend
