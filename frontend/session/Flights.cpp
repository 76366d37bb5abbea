// SPDX-License-Identifier: Apache-2.0
// From an open trace to the owner's answer: prepare (Prepare.cpp), exchange, commit.
#include "frontend/session/Flights.h"

#include "frontend/recording/TraceWalk.h"
#include "frontend/Interrupt.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace sojourn::frontend {

namespace {

constexpr const char *kReplyLost =
    "the owner committed the step, but the reply with this value was lost; publish it again";

/// Threads to send to all but the first owner. Returns what interrupted the wait for them.
template <class Send>
std::exception_ptr eachAtOnce(std::vector<Flight *> &flights, Send send) {
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
  if (flight.refusalKind != ErrorKind::Refused ||
      flight.refusal.find("meet a value that was summed") == std::string::npos) {
    return;
  }
  const size_t draws = DrawCount(flight.recording->trace.words).count;
  if (draws < 2) {
    return;
  }
  const size_t line = flight.refusal.rfind(" [");
  flight.refusal = "weights are updated by hand, so nothing tells where a step ends: " + std::to_string(draws) +
                   " batches of a private table are in one step, in which the update from one batch meets the rows of "
                   "the next; put each update into one step (@sojourn.step, or with sojourn.step():), or let an "
                   "optimizer of torch.optim make it" +
                   (line == std::string::npos ? "" : flight.refusal.substr(line));
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

} // namespace

/// The steps of one sending; what they do at a session is the session's.
class Flights {
public:
  static void send(const std::vector<std::shared_ptr<Session>> &sessions, bool explicitStep,
                   const std::shared_ptr<Trip> &trip, bool holds) {
    // Steps of a trip are sent in the order of their calls: those that wait at another owner first.
    auto isElsewhere = [&](const auto &session) { return session != trip->session.lock() && session->hasOpen(); };
    if (auto at = trip ? trip->session.lock() : nullptr;
        at && std::any_of(sessions.begin(), sessions.end(), isElsewhere)) {
      at->sendHeld(*trip);
      if (trip->isOver()) {
        for (const auto &session : sessions) {
          session->rollback(kNotRun);
        }
        return;
      }
    }
    // Turns are taken in order of the sessions' index: two threads cannot wait for each other.
    std::vector<std::unique_ptr<SessionLock>> turns;
    for (const auto &session : sessions) {
      turns.push_back(std::make_unique<SessionLock>(session->turn_));
    }
    std::vector<Flight> all;
    for (const auto &session : sessions) {
      if (session->held_ && session->held_->trip != trip) {
        session->sendHeld(); // another loop's steps come first; it learns what became of them
      }
      if (auto flight = session->take()) {
        all.push_back(std::move(*flight));
      }
    }
    std::vector<Flight *> going;
    Flight *refused = nullptr;
    for (Flight &flight : all) {
      flight.session->prepare(flight);
      if (!explicitStep) {
        explainUndeclared(flight);
      }
      if (flight.refusal.empty()) {
        going.push_back(&flight);
      } else if (!refused) {
        refused = &flight;
      }
    }
    if (refused && explicitStep) {
      for (Flight &flight : all) {
        flight.session->refuse(flight, /*explicitStep=*/true, refused->refusal);
      }
      raiseRefusal(*refused);
    }
    for (Flight &flight : all) {
      if (!flight.refusal.empty()) {
        flight.session->refuse(flight, /*explicitStep=*/false, flight.refusal);
      }
    }
    if (trip && explicitStep && holds && going.size() == 1) {
      return hold(*going.front(), trip);
    }
    for (Flight *flight : going) {
      flight->session->sendHeld();
    }
    std::exception_ptr interruption = eachAtOnce(going, [](Flight &flight) { flight.session->exchange(flight); });
    bool failed = false;
    for (Flight *flight : going) {
      if (!flight->failure) {
        flight->session->land(*flight);
      } else if (explicitStep || !flight->session->keepRest(*flight)) {
        flight->session->drop(*flight, flight->unknown ? kUnknownOutcome : kNotRun);
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
    if (refused) {
      raiseRefusal(*refused);
    }
  }

private:
  /// Until the trip is full, or the step does not fit it. What goes wrong is the trip's to tell.
  static void hold(Flight &flight, const std::shared_ptr<Trip> &trip) {
    Session &session = *flight.session;
    if (session.held_ && !session.held_->takes(flight.call)) {
      session.sendHeld();
    }
    if (trip->isOver()) {
      session.drop(flight, kNotRun);
      return;
    }
    session.hold(flight, trip);
    if (session.held_->isFull()) {
      session.sendHeld();
    }
  }
};

void sendAll(const std::vector<std::shared_ptr<Session>> &sessions, bool explicitStep,
             const std::shared_ptr<Trip> &trip, bool holds) {
  Flights::send(sessions, explicitStep, trip, holds);
  for (const auto &session : sessions) {
    session->gather();
  }
}

void Session::flush() { Flights::send({shared_from_this()}, /*explicitStep=*/false, nullptr, /*holds=*/false); }

bool Session::hasOpen() {
  SessionLock lock(mutex_);
  auto open = ThreadState::current().peek(*this);
  return open && !open->empty();
}

bool Session::hasEnded() {
  SessionLock lock(mutex_);
  auto open = ThreadState::current().peek(*this);
  return open && !open->empty() && open->hasEnded;
}

bool Session::hasNow(const std::vector<at::Tensor> &tensors) {
  SessionLock lock(mutex_);
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor &tensor) {
    const Storage &storage = *remoteImpl(tensor)->remoteStorage();
    if (storage.session.get() != this) {
      return true; // its own session's to say
    }
    bool isWritten =
        std::any_of(storage.places.begin(), storage.places.end(), [](auto &place) { return place.written; });
    return (storage.handle != 0 || storage.pack) && !isWritten;
  });
}

bool Session::markEnd(uint64_t optimizer) {
  SessionLock lock(mutex_);
  auto open = ThreadState::current().peek(*this);
  if (!open || open->empty()) {
    return false;
  }
  open->hasEnded = true;
  // Rows of a table stay with their updates: one optimizer may step several times on a batch.
  constexpr size_t kStepsOnRows = 32;
  const bool isAgain = !open->stepped.insert(optimizer).second;
  return ++open->steps >= kStepsOnRows || (isAgain && open->trace.tables.empty());
}

std::optional<Flight> Session::take() {
  SessionLock lock(mutex_);
  ThreadState &thread = ThreadState::current();
  auto open = thread.peek(*this);
  if (!open) {
    return std::nullopt;
  }
  if (closed_ || open->empty()) {
    open->clear();
    return std::nullopt;
  }
  if (!client_) {
    raise(ErrorKind::Error, "an offline device only records: use sojourn.compile, or connect to an owner");
  }
  Flight flight;
  flight.session = shared_from_this();
  flight.recording = thread.take(*this);
  flight.recording->isUnderway = true;
  return flight;
}

void Session::exchange(Flight &flight) {
  try {
    flight.reply = exchange(flight.call.step, flight.recording.get(), flight.unknown);
  } catch (...) {
    flight.failure = std::current_exception();
  }
}

std::vector<uint64_t> Session::releasable(const Recording *own) {
  SessionLock lock(mutex_);
  std::vector<uint64_t> waiting = std::move(releases_);
  releases_.clear();
  // A handle that another open trace takes as a state is needed until that trace has been sent.
  for (const Recording *recording : recordings_) {
    if (recording == own || recording->stateHandles.empty() || waiting.empty()) {
      continue;
    }
    const std::vector<uint64_t> &needed = recording->stateHandles;
    auto kept = std::stable_partition(waiting.begin(), waiting.end(), [&](uint64_t handle) {
      return std::find(needed.begin(), needed.end(), handle) == needed.end();
    });
    releases_.insert(releases_.end(), kept, waiting.end());
    waiting.erase(kept, waiting.end());
  }
  return waiting;
}

/// One request, two if the owner lacks the program. Releases that wait ride along.
StepReply Session::exchange(wire::Step &step, const Recording *own, bool &unknown) {
  // Taken now: tensors may die while the owner works.
  std::vector<uint64_t> waiting = releasable(own);
  step.releases.insert(step.releases.end(), waiting.begin(), waiting.end());
  try {
    return sendStep(step, unknown);
  } catch (...) {
    returnReleases(waiting, unknown);
    throw;
  }
}

void Session::returnReleases(const std::vector<uint64_t> &releases, bool unknown) {
  if (!unknown) {
    SessionLock lock(mutex_);
    releases_.insert(releases_.end(), releases.begin(), releases.end());
  }
}

StepReply Session::sendStep(wire::Step &step, bool &unknown, const StepFollower *follow) {
  std::string_view program = step.program, debug = step.debug;
  bool known = knownHashes_.find(step.hash) != nullptr, sending = false;
  knownHashes_.insert(step.hash, {});
  try {
    client_->sendAhead(step);
    sending = true;
    if (known) {
      step.program = step.debug = {};
    }
    StepReply reply = client_->step(step, follow);
    if (reply.kind == StepReply::Kind::NeedProgram && known) {
      // The owner evicted its plan; the bytes go again.
      step.program = program;
      step.debug = debug;
      reply = client_->step(step, follow);
      SessionLock lock(mutex_);
      ++counters_.programs_resent;
    }
    if (reply.kind == StepReply::Kind::NeedProgram) {
      throw Error(ErrorKind::OwnerError, "the owner asked for a program that the request contained");
    }
    std::vector<uint64_t> orphans = client_->takeOrphans();
    SessionLock lock(mutex_);
    releases_.insert(releases_.end(), orphans.begin(), orphans.end());
    return reply;
  } catch (...) {
    bool ours = false;
    try {
      throw;
    } catch (const Error &) {
      ours = true;
    } catch (...) {
    }
    unknown = sending && (ours ? client_->outcomeUnknown() : true);
    knownHashes_.erase(step.hash);
    client_->dropSentAhead(step);
    throw;
  }
}

std::string Session::fillPublished(const Publishes &publishes, const StepReply &reply, size_t first) {
  if (reply.kind == StepReply::Kind::Committed) {
    for (auto &[storage, state] : publishes) {
      state->fail(kReplyLost);
    }
    return {};
  }
  std::string problem;
  if (reply.published.size() != publishes.size() * reply.steps) {
    problem = "the owner's reply holds " + std::to_string(reply.published.size()) + " published values, expected " +
              std::to_string(publishes.size() * reply.steps);
  }
  for (size_t i = 0; i < publishes.size() && problem.empty(); ++i) {
    const Storage &storage = *publishes[i].first;
    const wire::TensorView &value = reply.published[first + i];
    at::ScalarType dtype = scalarTypeOf(static_cast<Element>(value.element));
    at::Tensor result = hostTensor(dtype, value.dims, value.data);
    if (!result.defined() || result.sizes() != c10::IntArrayRef(storage.sizes) || dtype != storage.dtype) {
      problem = "a published value arrived as " + std::string(c10::toString(dtype)) + " of " +
                std::to_string(value.data.size()) + " bytes, which differs from the recorded dtype and shape";
    } else {
      if (first + i < reply.releases.size()) {
        const StepReply::Release &release = reply.releases[first + i];
        publishes[i].second->error = release.error;
        publishes[i].second->receipt = release.receipt;
        publishes[i].second->receiptText = release.text;
      }
      publishes[i].second->fill(std::move(result));
    }
  }
  for (auto &[storage, state] : publishes) {
    if (!state->settled) {
      state->fail(problem);
    }
  }
  return problem;
}

void Session::land(Flight &flight) {
  Recording &recording = *flight.recording;
  if (std::string problem = fillPublished(recording.publishes, flight.reply, 0); !problem.empty()) {
    flight.failure = std::make_exception_ptr(
        Error(ErrorKind::OwnerError, problem + "; the step is committed, but its published values are lost"));
  }
  spending_.note(flight.call.step, *client_);
  SessionLock lock(mutex_);
  news_.add(flight.reply.notes);
  for (Word id : flight.call.kept) {
    if (Storage *storage = recording.storages[static_cast<size_t>(id)]) {
      storage->pack.reset(); // its own value has committed
    }
  }
  commit(recording, flight.call);
  ++counters_.steps;
  putBack(flight);
}

/// Masks stay known: the positions of one say how large what it selects is (`maskValue`).
static void forgetUpload(Storage &storage, const Recording &recording) {
  constexpr size_t kMaskBytes = size_t{1} << 20;
  const at::Tensor upload = std::exchange(storage.upload, {});
  const Storage::Place *place = storage.placeIn(recording);
  if (upload.defined() && upload.scalar_type() == at::kBool && upload.nbytes() <= kMaskBytes && storage.input < 0 &&
      !(place && place->written)) {
    storage.seen.push_back({storage.sizes, storage.strides, 0, upload, /*isOwn=*/true});
  }
}

void Session::commit(Recording &recording, const TraceCall &call) {
  TablesRead reads = recording.trace.tables.empty() ? TablesRead::None : TablesRead::Open;
  reads = std::max(recording.tables.holdPrivate() ? TablesRead::Private : reads, recording.reads);
  for (size_t id = 0; id < recording.storages.size() && reads != TablesRead::None; ++id) {
    Storage *storage = recording.storages[id];
    if (storage && reads > storage->reads && storage->handle && storage->placeIn(recording)->written) {
      storage->reads = reads;
    }
  }
  ++commits_;
  for (Storage *storage : recording.storages) {
    if (storage && storage->readAgain && storage->placeIn(recording) && storage->placeIn(recording)->written) {
      storage->readAgain = nullptr; // no column any more
    }
  }
  for (size_t i = 0; i < call.kept.size(); ++i) {
    if (Storage *storage = recording.storages[call.kept[i]]) {
      storage->handle = call.step.results[i];
      for (const Storage::Place &place : storage->places) {
        if (place.recording != &recording) {
          place.recording->wasSent(place.id, storage->handle);
        }
      }
      forgetUpload(*storage, recording);
      storage->reads = reads;
      storage->usedAt = commits_;
      noteSmall(*storage);
      ++counters_.live_handles;
    } else {
      // It died while the reply was on its way.
      releases_.push_back(call.step.results[i]);
    }
  }
  recording.clear();
}

} // namespace sojourn::frontend
