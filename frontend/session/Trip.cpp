// SPDX-License-Identifier: Apache-2.0
// Holding steps back, and what becomes of them.
#include "frontend/session/Trip.h"

#include "frontend/session/Flights.h"
#include "frontend/session/Session.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace sojourn::frontend {

namespace {

/// Of what a message of several steps publishes: a reply that is not much larger is remembered by the owner, should it
/// be lost.
constexpr size_t kPublishedBytesMost = size_t{1} << 19;

const Reason &kStopped = constantReason("the steps were stopped before the step that computes it ran");

size_t bytesOf(const std::vector<wire::TensorView> &uploads) {
  size_t bytes = 0;
  for (const wire::TensorView &upload : uploads) {
    bytes += upload.data.size();
  }
  return bytes;
}

size_t bytesOf(const Session::Publishes &publishes) {
  size_t bytes = 0;
  for (const auto &[storage, state] : publishes) {
    bytes += 256 + static_cast<size_t>(c10::multiply_integers(storage->sizes)) * c10::elementSize(storage->dtype);
  }
  return bytes;
}

bool sameTables(const std::vector<wire::TableBinding> &a, const std::vector<wire::TableBinding> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](auto &x, auto &y) { return x.name == y.name && x.version == y.version; });
}

bool sameTerms(const wire::Spending &a, const wire::Spending &b) {
  auto numbers = [](const wire::Spending &s) {
    return std::tuple(s.run, s.steps, s.noiseMultiplier, s.clip, s.perLayer, s.lossIsSum, s.metricShare);
  };
  // A price of its own is no part of a message of several steps.
  auto isSame = [](const wire::ReleaseTerms &x, const wire::ReleaseTerms &y) {
    auto isFree = [](const wire::ReleaseTerms &terms) { return terms.epsilon == 0 && terms.delta == 0; };
    return x.bound == y.bound && x.continues == y.continues && isFree(x) && isFree(y);
  };
  return numbers(a) == numbers(b) &&
         std::equal(a.releases.begin(), a.releases.end(), b.releases.begin(), b.releases.end(), isSame);
}

/// What is being handled, our own errors as the process's raiser makes them.
std::exception_ptr translatedFailure() {
  std::exception_ptr failure = std::current_exception();
  try {
    translated([&] { std::rethrow_exception(failure); });
  } catch (...) {
    failure = std::current_exception();
  }
  return failure;
}

} // namespace

bool Following::operator()(uint64_t steps) {
  try {
    wantsStop = wantsStop || (ask && !ask(steps));
  } catch (...) {
    interruption = std::current_exception();
    wantsStop = true;
  }
  return !wantsStop;
}

std::string failedStep(size_t committed, size_t count) {
  return count == 1 ? ""
                    : "step " + std::to_string(committed + 1) + " of the " + std::to_string(count) +
                          " sent together failed, the steps before it are committed: ";
}

void Trip::send() {
  if (auto at = session.lock()) {
    at->sendHeld(*this);
  }
  raiseFailure();
}

void Trip::raiseFailure() {
  if (failure) {
    isStopped = true;
    std::rethrow_exception(std::exchange(failure, nullptr));
  }
}

bool HeldSteps::takes(const TraceCall &call) const {
  // Steps of one program publish alike.
  const size_t published = steps.empty() ? 0 : publishedBytes_ / steps.size();
  return publishedBytes_ + published <= kPublishedBytesMost && message.hash == call.step.hash &&
         sameTables(message.tables, call.step.tables) && sameTerms(message.spending, call.step.spending) &&
         uploadBytes_ + bytesOf(call.step.uploads) <= kTripUploadBytes && !isFull();
}

void HeldSteps::add(TraceCall &call, Recording &recording) {
  wire::Step &step = call.step;
  Held &held = steps.emplace_back();
  held.results = step.results;
  held.releases = step.releases;
  for (Word id : call.kept) {
    if (Storage *storage = recording.storages[static_cast<size_t>(id)]) {
      held.kept.push_back(storage->weak());
    }
  }
  held.publishes = std::move(recording.publishes);
  publishedBytes_ += bytesOf(held.publishes);
  uploadBytes_ += bytesOf(step.uploads);
  uploads_.insert(uploads_.end(), call.uploads.begin(), call.uploads.end());
  if (steps.size() == 1) {
    compiled_ = call.compiled;
    states_ = step.states;
    slots_ = step.slots;
    message = std::move(step);
    return;
  }
  wire::Repetition &next = message.repetitions.emplace_back();
  if (step.states != states_) {
    next.states = states_ = std::move(step.states);
  }
  if (step.slots != slots_) {
    next.slots = slots_ = std::move(step.slots);
  }
  next.uploads = std::move(step.uploads);
  next.seeds = std::move(step.seeds);
  next.results = std::move(step.results);
  next.releases = std::move(step.releases);
}

void HeldSteps::cut(size_t done) {
  std::vector<wire::Repetition> rest;
  for (size_t at = 0; at < message.repetitions.size(); ++at) {
    wire::Repetition &next = message.repetitions[at];
    if (at < done) {
      message.begin(std::move(next));
    } else {
      rest.push_back(std::move(next));
    }
  }
  message.repetitions = std::move(rest);
  message.program = compiled_->program;
  message.debug = compiled_->debug;
  steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(done));
}

/// The flight's step is as good as committed to whoever made it.
void Session::hold(Flight &flight, const std::shared_ptr<Trip> &trip) {
  Recording &recording = *flight.recording;
  std::vector<uint64_t> waiting = releasable(&recording);
  flight.call.step.releases.insert(flight.call.step.releases.end(), waiting.begin(), waiting.end());
  if (!held_) {
    held_ = std::make_unique<HeldSteps>(trip);
    trip->session = weak_from_this();
  }
  ++trip->held;
  SessionLock lock(mutex_);
  std::vector<uint64_t> results = flight.call.step.results;
  held_->add(flight.call, recording);
  flight.call.step.results = std::move(results);
  commit(recording, flight.call);
  putBack(flight);
}

void Session::sendHeld(const Trip &trip) {
  if (isElsewhere()) {
    return; // they are the parent's to send
  }
  SessionLock turn(turn_);
  if (held_ && held_->trip.get() == &trip) {
    sendHeld();
  }
}

void Session::sendHeld() {
  if (!held_) {
    return;
  }
  const std::unique_ptr<HeldSteps> held = std::move(held_);
  Trip &trip = *held->trip;
  wire::Step &message = held->message;
  {
    // What died since the last step, but what that makes: it is there only then.
    SessionLock lock(mutex_);
    std::vector<uint64_t> &last = message.repetitions.empty() ? message.releases : message.repetitions.back().releases;
    const std::vector<uint64_t> &made = held->steps.back().results;
    for (uint64_t handle : releasable(nullptr)) {
      const bool isMade = std::find(made.begin(), made.end(), handle) != made.end();
      (isMade ? releases_ : last).push_back(handle);
    }
    held->steps.back().releases = last;
  }
  // An owner that ran fewer took its time; the rest is sent anew.
  while (!held->steps.empty() && !trip.isOver()) {
    size_t done = sendOnce(*held);
    if (done < held->steps.size() && (trip.isOver() || done == 0)) {
      break;
    }
    held->cut(done);
  }
  trip.isStopped = trip.isStopped || !held->steps.empty();
}

/// Returns how many of them have committed; the trip says why no others will.
size_t Session::sendOnce(HeldSteps &held) {
  Trip &trip = *held.trip;
  wire::Step &message = held.message;
  const uint64_t before = trip.committed;
  StepReply reply;
  reply.steps = 0;
  bool unknown = false;
  Following following{[&](uint64_t steps) { return !trip.follow || trip.follow(before + steps); }};
  const StepFollower follow = std::ref(following);
  try {
    if (trip.deadline) {
      auto left = *trip.deadline - std::chrono::steady_clock::now();
      trip.isStopped = left.count() <= 0;
      message.deadlineMs = static_cast<uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
    }
    if (!trip.isStopped) {
      reply = sendStep(message, unknown, &follow);
      unknown = reply.isOpen;
      trip.isStopped = following.wantsStop;
    }
    if (reply.failure) {
      throw Error(reply.failure->kind, failedStep(reply.steps, message.count()) + reply.failure->text);
    }
  } catch (...) {
    trip.failure = translatedFailure();
  }
  for (size_t at = 0; at < reply.steps; ++at) {
    std::string problem = fillPublished(held.steps[at].publishes, reply, at * held.steps[at].publishes.size());
    if (!problem.empty() && !trip.failure) {
      try {
        raise(ErrorKind::OwnerError, problem + "; the step is committed, but its published values are lost");
      } catch (...) {
        trip.failure = std::current_exception();
      }
    }
    spending_.note(message, *client_);
  }
  trip.failure = following.interruption ? following.interruption : trip.failure;
  trip.committed += reply.steps;
  SessionLock lock(mutex_);
  counters_.steps += reply.steps;
  news_.add(reply.notes);
  if (trip.isOver()) {
    takeBack(held, reply.steps, unknown ? kUnknownOutcome : trip.failure ? kNotRun : kStopped, unknown);
  }
  return reply.steps;
}

/// Steps from `first` on did not run.
void Session::takeBack(HeldSteps &held, size_t first, const Reason &reason, bool unknown) {
  std::set<uint64_t> never;
  for (size_t at = first; at < held.steps.size(); ++at) {
    HeldSteps::Held &step = held.steps[at];
    ++counters_.steps_dropped;
    never.insert(step.results.begin(), step.results.end());
    for (auto &weak : step.kept) {
      if (auto storage = weak.lock()) {
        storage->handle = 0;
        storage->lost = storage->pack ? nullptr : reason;
        --counters_.live_handles;
      }
    }
    for (auto &[storage, state] : step.publishes) {
      state->fail(*reason);
    }
    returnReleases(step.releases, unknown);
  }
  std::erase_if(releases_, [&](uint64_t handle) { return never.contains(handle); });
}

} // namespace sojourn::frontend
