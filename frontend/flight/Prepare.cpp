// SPDX-License-Identifier: Apache-2.0
// From an open trace to a step that can be sent: finished, compiled, checked.
#include "frontend/flight/Flight.h"

#include <utility>

namespace sojourn::frontend {

void Flight::raiseRefusal() const {
  if (failure) {
    std::rethrow_exception(failure);
  }
  raise(refusalKind_, refusal_);
}

/// Says what lives on, is published and trained.
void Flight::finish() {
  Trace &trace = recording->trace;
  trace.parties = session->parties();
  DeviceLock lock(session->mutex());
  recording->forgetReplaced(kNotRun);
  for (size_t id = 0; id < recording->storages.size(); ++id) {
    Storage *storage = recording->storages[id];
    // A published clone lives for its publish alone.
    auto published = [&](auto &entry) { return entry.first.get() == storage; };
    if (storage && !storage->handle &&
        std::none_of(recording->publishes.begin(), recording->publishes.end(), published)) {
      call.kept.push_back(static_cast<Word>(id));
      call.step.results.push_back(session->handles().reserve());
    }
  }
  end_ = trace.mark();
  trace.push(Record::Outputs);
  trace.push(static_cast<Word>(call.kept.size()));
  trace.words.insert(trace.words.end(), call.kept.begin(), call.kept.end());
  trace.push(static_cast<Word>(recording->publishes.size()));
  for (auto &[storage, state] : recording->publishes) {
    trace.push(storage->placeIn(*recording)->id);
  }
  // Of rows alone: that a value is trained tells a private owner what their sums are.
  std::vector<Word> trained;
  for (size_t id = 0; id < recording->storages.size() && !trace.tables.empty(); ++id) {
    if (recording->storages[id] && recording->storages[id]->isTrained) {
      trained.push_back(static_cast<Word>(id));
    }
  }
  trace.push(static_cast<Word>(trained.size()));
  trace.words.insert(trace.words.end(), trained.begin(), trained.end());
}

Compilation Flight::compile(bool &hit, TraceCache::Forms forms) {
  Compilation compilation;
  if (const std::shared_ptr<Recipe> recipe = recording->recipe) {
    compilation.compiled = recipe->find(recording->recipeIds, recording->trace);
    hit = static_cast<bool>(compilation.compiled);
    if (!hit) {
      std::vector<Word> outputs = recording->trace.words;
      writeWords();
      compilation = session->cache().find(recording->trace, hit, forms);
      if (compilation.compiled && compilation.numbers.empty()) {
        recipe->note({recording->recipeIds, recording->trace.inputs, std::move(outputs), compilation.compiled});
      }
    }
  } else {
    compilation = session->cache().find(recording->trace, hit, forms);
  }
  session->news().add(session->cache().takeExplanations());
  if (compilation.compiled) {
    DeviceLock lock(session->mutex());
    Counters &counts = session->counts();
    ++(hit ? counts.cache_hits : counts.programs_compiled);
  }
  return compilation;
}

/// The trace gets its recipe's words, before its outputs.
void Flight::writeWords() {
  DeviceLock lock(session->mutex());
  const size_t outputs = recording->trace.words.size();
  recording->writeWords();
  end_.words = recording->trace.words.size() - outputs;
  end_.origins = recording->trace.origins.size();
}

void Flight::prepare() {
  const Trace &trace = recording->trace;
  finish();
  call.step.states = recording->stateHandles;
  call.step.seeds = trace.seeds;
  call.step.tables = recording->tables.bindings();
  call.uploads = recording->uploads;
  for (const at::Tensor &tensor : call.uploads) {
    call.step.uploads.push_back(viewOf(tensor));
  }
  for (int input : recording->uploadInputs) {
    call.uploadInputs.push_back(input + 1);
  }
  call.seeds = trace.seeds.size();
  call.published = recording->publishes.size();
  // A group computes on open tables alone.
  if (session->offline() || !session->isGroup() || recording->tables.holdPrivate()) {
    call.step.spending = session->spending().terms();
    for (auto &[storage, state] : recording->publishes) {
      call.step.spending.releases.push_back(state->terms);
    }
  }
  // A program compiled ahead of time runs as it was recorded.
  TraceCache::Forms forms = session->offline() ? TraceCache::Forms::SpecialOnly : TraceCache::Forms::Any;
  for (;;) {
    Compilation compilation;
    bool hit = false;
    try {
      compilation = compile(hit, forms);
    } catch (...) {
      // A phase listener that throws.
      failure = std::current_exception();
      compilation.failure = "its compilation was interrupted";
    }
    if (!compilation.compiled) {
      refusal_ = compilation.failure;
      refusalKind_ = compilation.kind;
      refusedOp_ = compilation.refusedOp;
      return;
    }
    call.compiled = compilation.compiled;
    call.step.hash = call.compiled->hash;
    call.step.places = call.compiled->places;
    call.step.program = call.compiled->program;
    call.step.debug = call.compiled->debug;
    call.step.slots = trace.slots;
    call.step.slots.insert(call.step.slots.end(), compilation.numbers.begin(), compilation.numbers.end());
    refusalKind_ = ErrorKind::Refused;
    try {
      refusal_ = session->offline() || session->isGroup()
                     ? ""
                     : session->spending().refusalOf(call.step, session->connection().client());
    } catch (...) {
      // The owner could not be asked about its tables: nothing was sent, and nothing of it is kept.
      failure = translatedFailure();
      refusal_ = "the owner could not be asked about the step's tables";
      refusalKind_ = ErrorKind::Error;
      return;
    }
    if (refusal_.empty() || compilation.numbers.empty()) {
      return;
    }
    // With an integer for a number of the run less can be proved of rows.
    session->cache().keepSpecial(trace, refusal_);
    forms = TraceCache::Forms::SpecialOnly;
  }
}

TraceCall finishOffline(const std::shared_ptr<Session> &session) {
  Turn turn(session->connection());
  {
    DeviceLock lock(session->mutex());
    session->recording().unmark();
  }
  auto flight = Flight::take(session, /*offline=*/true);
  std::vector<Origin> slotOrigins = originsOfSlots(flight->recording->trace);
  flight->prepare();
  if (!flight->refusal().empty()) {
    flight->drop(reasonOf("its computation cannot be compiled: " + flight->refusal()));
    flight->raiseRefusal();
  }
  flight->call.slotOrigins = std::move(slotOrigins);
  flight->call.step.releases = session->takeReleases(flight->recording.get());
  flight->commit();
  return std::move(flight->call);
}

} // namespace sojourn::frontend
