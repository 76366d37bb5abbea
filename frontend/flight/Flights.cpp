// SPDX-License-Identifier: Apache-2.0
// One step, or what is pending, to the owners that it touches.
#include "frontend/flight/Flights.h"

#include "frontend/Interrupt.h"
#include "frontend/recording/TraceWalk.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace sojourn::frontend {

namespace {

/// Threads to send to all but the first owner. Returns what interrupted the wait for them.
template <class Send>
std::exception_ptr eachAtOnce(const std::vector<Flight *> &flights, Send send) {
  if (flights.size() < 2) {
    std::for_each(flights.begin(), flights.end(), [&](Flight *flight) { send(*flight); });
    return nullptr;
  }
  std::atomic<bool> stops{false};
  std::mutex mutex;
  std::condition_variable changed;
  size_t underway = flights.size() - 1;
  std::vector<std::thread> threads;
  for (size_t i = 1; i < flights.size(); ++i) {
    threads.emplace_back([&, flight = flights[i]] {
      WaitTogether group(stops, /*asksItself=*/false);
      send(*flight);
      std::lock_guard lock(mutex);
      --underway;
      changed.notify_one();
    });
  }
  std::exception_ptr interruption;
  {
    WaitTogether group(stops, /*asksItself=*/true);
    takeInterruptNote();
    send(*flights.front());
    if (takeInterruptNote()) {
      interruption = flights.front()->failure;
    }
    Waiting waiting;
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kAskEvery, [&] { return underway == 0; }) && !interruption) {
      lock.unlock();
      try {
        if (!waiting.goesOn(std::chrono::milliseconds(0))) {
          waiting.end();
        }
      } catch (...) {
        interruption = std::current_exception();
      }
      lock.lock();
    }
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  return interruption;
}

/// Draws of rows in a trace.
struct DrawCount final : TraceVisitor {
  explicit DrawCount(const std::vector<Word> &words) { TraceWalk(words, *this).run(); }
  void beginOp(size_t, const OpEntry &entry) { count += entry.name == "sojourn.sample_rows" ? 1 : 0; }
  size_t count = 0;
};

/// For a trace that no declaration makes one step: where weights are updated by hand, nothing says where a step ends,
/// so that an update from one batch meets the rows of the next. The analysis sees sums that meet rows, as in a model
/// that normalizes over its batch.
void explainUndeclared(Flight &flight) {
  if (flight.refusalKind() != ErrorKind::Refused ||
      flight.refusal().find("meet a value that was summed") == std::string::npos) {
    return;
  }
  const size_t draws = DrawCount(flight.recording->trace.words).count;
  if (draws < 2) {
    return;
  }
  const size_t line = flight.refusal().rfind(" [");
  flight.explainRefusal(
      "weights are updated by hand, so nothing tells where a step ends: " + std::to_string(draws) +
      " batches of a private table are in one step, in which the update from one batch meets the rows of "
      "the next; put each update into one step (@sojourn.step, or with sojourn.step():), or let an "
      "optimizer of torch.optim make it" +
      (line == std::string::npos ? "" : flight.refusal().substr(line)));
}

std::string textOf(const std::exception_ptr &failure, ErrorKind &kind) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error &error) {
    kind = error.kind();
    return error.text();
  } catch (const std::exception &error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

std::string namesOf(const std::vector<Flight *> &flights, bool failed) {
  std::string names;
  for (const Flight *flight : flights) {
    if (static_cast<bool>(flight->failure) == failed) {
      names += (names.empty() ? "" : ", ") + flight->session->device().str() + " (" + flight->session->address() + ")";
    }
  }
  return names.empty() ? "none" : names;
}

/// With several owners the error says which of them committed.
[[noreturn]] void raiseFailure(const std::vector<Flight *> &flights) {
  const Flight &first = **std::find_if(flights.begin(), flights.end(), [](Flight *f) { return f->failure != nullptr; });
  if (flights.size() == 1) {
    translated([&] { std::rethrow_exception(first.failure); });
  }
  ErrorKind kind = ErrorKind::Error;
  std::string text = textOf(first.failure, kind);
  raise(kind, text + " [the step went to " + std::to_string(flights.size()) + " owners; committed at: " +
                  namesOf(flights, /*failed=*/false) + "; failed at: " + namesOf(flights, /*failed=*/true) + "]");
}

bool hasOpen(const Session &session) {
  auto open = ThreadState::current().peek(session);
  return open && !open->empty();
}

/// Steps of a trip are sent in the order of their calls: those that wait at another owner first. Whether the trip goes
/// on; the step is dropped if not.
bool sendEarlier(const std::vector<std::shared_ptr<Session>> &sessions, const std::shared_ptr<Trip> &trip) {
  const auto at = trip ? trip->session.lock() : nullptr;
  const auto isElsewhere = [&](const auto &session) {
    DeviceLock lock(session->mutex());
    return session != at && hasOpen(*session);
  };
  if (!at || std::none_of(sessions.begin(), sessions.end(), isElsewhere)) {
    return true;
  }
  at->sendHeld(*trip);
  if (trip->isOver()) {
    for (const auto &session : sessions) {
      session->rollback(kNotRun);
    }
  }
  return !trip->isOver();
}

/// Takes and prepares what the calling thread has open; in its turns.
std::vector<Flight> prepareAll(const std::vector<std::shared_ptr<Session>> &sessions, bool explicitStep,
                               const std::shared_ptr<Trip> &trip) {
  std::vector<Flight> all;
  all.reserve(sessions.size());
  for (const auto &session : sessions) {
    if (session->held() && session->held()->trip != trip) {
      session->sendHeld(); // another loop's steps come first; it learns what became of them
    }
    if (auto flight = Flight::take(session)) {
      all.push_back(std::move(*flight));
    }
  }
  for (Flight &flight : all) {
    flight.prepare();
    if (!explicitStep) {
      explainUndeclared(flight);
    }
  }
  return all;
}

/// The step joins others of the trip, until that is full, or the step does not fit it. What goes wrong is the trip's to
/// tell.
void join(Flight &flight, const std::shared_ptr<Trip> &trip) {
  Session &session = *flight.session;
  if (session.held() && !session.held()->takes(flight.call)) {
    session.sendHeld();
  }
  if (trip->isOver()) {
    return flight.drop(kNotRun);
  }
  flight.hold(trip);
  if (session.held()->isFull()) {
    session.sendHeld();
  }
}

/// Exchanges all at once, then lands or drops each. Throws the first failure.
void exchangeAll(const std::vector<Flight *> &going, bool explicitStep) {
  for (Flight *flight : going) {
    flight->session->sendHeld();
  }
  std::exception_ptr interruption = eachAtOnce(going, [](Flight &flight) { flight.exchange(); });
  bool failed = false;
  for (Flight *flight : going) {
    if (!flight->failure) {
      flight->land();
    } else if (explicitStep || !flight->keepRest()) {
      flight->drop(flight->unknown ? kUnknownOutcome : kNotRun);
    }
    failed = failed || flight->failure;
  }
  if (interruption && failed) {
    std::rethrow_exception(interruption);
  }
  if (interruption) {
    interruptLater(std::move(interruption));
  }
  if (failed) {
    raiseFailure(going);
  }
}

/// The waits for owners that are busy end with the loop's time.
void setDeadline(const std::vector<Flight *> &going, const Trip *trip) {
  for (Flight *flight : going) {
    if (trip && trip->deadline && flight->session->isGroup()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(*trip->deadline - std::chrono::steady_clock::now());
      flight->call.step.deadlineMs = static_cast<uint64_t>(std::max<int64_t>(left.count(), 1));
    }
  }
}

void sendOnce(const std::vector<std::shared_ptr<Session>> &sessions, bool explicitStep,
              const std::shared_ptr<Trip> &trip, bool holds) {
  if (!sendEarlier(sessions, trip)) {
    return;
  }
  // Turns are taken in order of the sessions' index: two threads cannot wait for each other.
  std::vector<std::unique_ptr<Turn>> turns;
  for (const auto &session : sessions) {
    turns.push_back(std::make_unique<Turn>(session->connection()));
  }
  std::vector<Flight> all = prepareAll(sessions, explicitStep, trip);
  const auto refused =
      std::find_if(all.begin(), all.end(), [](const Flight &flight) { return !flight.refusal().empty(); });
  const std::string refusal = refused == all.end() ? "" : refused->refusal();
  std::vector<Flight *> going;
  for (Flight &flight : all) {
    if (refused != all.end() && (explicitStep || !flight.refusal().empty())) {
      flight.refuse(explicitStep, explicitStep ? refusal : flight.refusal());
    } else {
      going.push_back(&flight);
    }
  }
  if (refused != all.end() && explicitStep) {
    refused->raiseRefusal();
  }
  if (trip && explicitStep && holds && going.size() == 1) {
    return join(*going.front(), trip);
  }
  setDeadline(going, trip.get());
  try {
    exchangeAll(going, explicitStep);
  } catch (...) {
    if (trip) {
      trip->isLate = std::any_of(going.begin(), going.end(), [](const Flight *flight) { return flight->isLate(); });
    }
    throw;
  }
  if (refused != all.end()) {
    refused->raiseRefusal();
  }
}

/// Those with an owner.
std::vector<std::shared_ptr<Session>> online(const std::vector<std::shared_ptr<RemoteDevice>> &devices) {
  std::vector<std::shared_ptr<Session>> sessions;
  for (const auto &device : devices) {
    if (!device->offline()) {
      sessions.push_back(Session::of(device));
    }
  }
  return sessions;
}

} // namespace

void sendAll(const std::vector<std::shared_ptr<Session>> &sessions, bool explicitStep,
             const std::shared_ptr<Trip> &trip, bool holds) {
  sendOnce(sessions, explicitStep, trip, holds);
  for (const auto &session : sessions) {
    gather(session);
  }
}

void flush(const std::shared_ptr<Session> &session) {
  sendOnce({session}, /*explicitStep=*/false, nullptr, /*holds=*/false);
}

void flushAll() {
  if (ThreadState *state = ThreadState::existing()) {
    sendAll(online(state->openDevices(/*clearsOthers=*/true)), /*explicitStep=*/false);
  }
}

void endStep(const std::shared_ptr<Trip> &trip, bool holds) {
  const uint64_t held = trip ? trip->held : 0;
  sendAll(online(Steps::leave()), /*explicitStep=*/true, trip, holds);
  if (trip && trip->held == held && !trip->isOver()) {
    ++trip->committed;
  }
}

} // namespace sojourn::frontend
