// SPDX-License-Identifier: Apache-2.0
// From an open trace to a step that can be sent: finished, compiled, checked.
#include "frontend/session/Flights.h"

#include <utility>

namespace sojourn::frontend {

void raiseRefusal(const Flight &flight) {
  if (flight.failure) {
    std::rethrow_exception(flight.failure);
  }
  raise(flight.refusalKind, flight.refusal);
}

/// Says what lives on, is published and trained.
void Session::finish(Flight &flight) {
  Recording &recording = *flight.recording;
  Trace &trace = recording.trace;
  TraceCall &call = flight.call;
  SessionLock lock(mutex_);
  recording.forgetReplaced(kNotRun);
  for (size_t id = 0; id < recording.storages.size(); ++id) {
    Storage *storage = recording.storages[id];
    // A published clone lives for its publish alone.
    auto published = [&](auto &entry) { return entry.first.get() == storage; };
    if (storage && !storage->handle &&
        std::none_of(recording.publishes.begin(), recording.publishes.end(), published)) {
      call.kept.push_back(static_cast<Word>(id));
      call.step.results.push_back(nextHandle_++);
    }
  }
  flight.end = trace.mark();
  trace.push(Record::Outputs);
  trace.push(static_cast<Word>(call.kept.size()));
  trace.words.insert(trace.words.end(), call.kept.begin(), call.kept.end());
  trace.push(static_cast<Word>(recording.publishes.size()));
  for (auto &[storage, state] : recording.publishes) {
    trace.push(storage->placeIn(recording)->id);
  }
  // Of rows alone: that a value is trained tells a private owner what their sums are.
  std::vector<Word> trained;
  for (size_t id = 0; id < recording.storages.size() && !trace.tables.empty(); ++id) {
    if (recording.storages[id] && recording.storages[id]->isTrained) {
      trained.push_back(static_cast<Word>(id));
    }
  }
  trace.push(static_cast<Word>(trained.size()));
  trace.words.insert(trace.words.end(), trained.begin(), trained.end());
}

Compilation Session::compile(const Trace &trace, bool &hit, TraceCache::Forms forms) {
  Compilation compilation = cache_.find(trace, hit, forms);
  news_.add(cache_.takeExplanations());
  SessionLock lock(mutex_);
  if (compilation.compiled) {
    ++(hit ? counters_.cache_hits : counters_.programs_compiled);
  }
  return compilation;
}

void Session::prepare(Flight &flight) {
  Recording &recording = *flight.recording;
  Trace &trace = recording.trace;
  TraceCall &call = flight.call;
  finish(flight);
  call.step.states = recording.stateHandles;
  call.step.seeds = trace.seeds;
  call.step.tables = recording.tables.bindings();
  call.uploads = recording.uploads;
  for (const at::Tensor &tensor : call.uploads) {
    call.step.uploads.push_back(viewOf(tensor));
  }
  call.uploadInputs = recording.uploadInputs;
  call.published = recording.publishes.size();
  {
    SessionLock lock(mutex_);
    call.step.spending = spending_.terms();
    for (auto &[storage, state] : recording.publishes) {
      call.step.spending.releases.push_back(state->terms);
    }
  }
  // What is compiled ahead of time is run as it was recorded.
  TraceCache::Forms forms = offline() ? TraceCache::Forms::SpecialOnly : TraceCache::Forms::Any;
  for (;;) {
    Compilation compilation;
    bool hit = false;
    try {
      compilation = compile(trace, hit, forms);
    } catch (...) {
      // A phase listener that throws.
      flight.failure = std::current_exception();
      compilation.failure = "its compilation was interrupted";
    }
    if (!compilation.compiled) {
      flight.refusal = compilation.failure;
      flight.refusalKind = compilation.kind;
      flight.refusedOp = compilation.refusedOp;
      return;
    }
    call.compiled = compilation.compiled;
    call.step.hash = call.compiled->hash;
    call.step.program = call.compiled->program;
    call.step.debug = call.compiled->debug;
    call.step.slots = trace.slots;
    call.step.slots.insert(call.step.slots.end(), compilation.numbers.begin(), compilation.numbers.end());
    flight.refusal = client_ ? spending_.refusalOf(call.step, *client_) : "";
    flight.refusalKind = ErrorKind::Refused;
    if (flight.refusal.empty() || compilation.numbers.empty()) {
      return;
    }
    // With an integer for a number of the run less can be proved of rows.
    cache_.keepSpecial(trace, flight.refusal);
    forms = TraceCache::Forms::SpecialOnly;
  }
}

TraceCall Session::finishOffline() {
  SessionLock turn(turn_);
  Flight flight;
  {
    SessionLock lock(mutex_);
    recording().unmark();
    flight.session = shared_from_this();
    flight.recording = ThreadState::current().take(*this);
    flight.recording->isUnderway = true;
  }
  std::vector<Origin> slotOrigins = originsOfSlots(flight.recording->trace);
  prepare(flight);
  if (!flight.refusal.empty()) {
    drop(flight, reasonOf("its computation cannot be compiled: " + flight.refusal));
    raiseRefusal(flight);
  }
  flight.call.slotOrigins = std::move(slotOrigins);
  flight.call.step.releases = releasable(flight.recording.get());
  SessionLock lock(mutex_);
  commit(*flight.recording, flight.call);
  putBack(flight);
  return std::move(flight.call);
}

} // namespace sojourn::frontend
