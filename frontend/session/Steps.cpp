// SPDX-License-Identifier: Apache-2.0
// What each thread has open, its explicit steps, and the lock that waits politely.
#include "frontend/session/Steps.h"

#include "frontend/session/Flights.h"
#include "frontend/session/Trip.h"

#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/node.h>

#include <atomic>

namespace sojourn::frontend {

namespace {

std::atomic<uint64_t> stepCount{0};
std::atomic<void (*)(std::recursive_mutex &)> lockWaiter{nullptr};

const Reason &kDropped = constantReason("the step that computed it was dropped");

thread_local std::unique_ptr<ThreadState> threadState;

} // namespace

void setLockWaiter(void (*waiter)(std::recursive_mutex &)) { lockWaiter = waiter; }

SessionLock::SessionLock(SessionMutex &mutex) : mutex_(mutex) {
  if (mutex_.session.isElsewhere()) {
    mutex_.session.raiseElsewhere();
  }
  if (mutex_.mutex.try_lock()) {
    return;
  }
  auto waiter = lockWaiter.load();
  waiter ? waiter(mutex_.mutex) : mutex_.mutex.lock();
}

ThreadState::ThreadState() {
  if (torch::autograd::get_current_node()) {
    raise(ErrorKind::Error,
          "backward() runs on a thread of torch's engine, which has no step: it must run on the thread that calls it; "
          "call it within sojourn.step, or switch the engine's threads off in that thread first "
          "(torch.autograd.set_multithreading_enabled(False))");
  }
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}

ThreadState::~ThreadState() {
  for (Slot &slot : slots_) {
    auto session = slot.session.lock();
    if (session && slot.recording) {
      session->abandon(*slot.recording);
    }
  }
}

ThreadState &ThreadState::current() {
  if (!threadState) {
    threadState = std::make_unique<ThreadState>();
  }
  return *threadState;
}

ThreadState *ThreadState::existing() { return threadState.get(); }

Recording &ThreadState::at(Session &session) {
  Slot &slot = slots_[session.index()];
  if (slot.identity != &session || !slot.recording || slot.session.expired()) {
    slot = {session.weak_from_this(), &session, std::make_shared<Recording>()};
    session.adopt(*slot.recording);
  }
  if (step && !step->touched[session.index()]) {
    step->touched[session.index()] = session.shared_from_this();
    slot.recording->mark();
  }
  return *slot.recording;
}

std::shared_ptr<Recording> ThreadState::peek(const Session &session) const {
  const Slot &slot = slots_[session.index()];
  return slot.identity == &session && !slot.session.expired() ? slot.recording : nullptr;
}

std::shared_ptr<Recording> ThreadState::take(const Session &session) {
  return std::exchange(slots_[session.index()].recording, nullptr);
}

bool ThreadState::putBack(const Session &session, std::shared_ptr<Recording> recording) {
  Slot &slot = slots_[session.index()];
  if (slot.identity != &session || slot.recording) {
    return false;
  }
  slot.recording = std::move(recording);
  return true;
}

std::vector<std::shared_ptr<Session>> ThreadState::sessions() const {
  std::vector<std::shared_ptr<Session>> all;
  for (const Slot &slot : slots_) {
    // What was pending when this process was forked off is its parent's to send.
    if (auto session = slot.recording ? slot.session.lock() : nullptr; session && !session->isElsewhere()) {
      all.push_back(std::move(session));
    }
  }
  return all;
}

/// Those at which the thread has recorded something. Of others no turn is taken: a step of another thread may be under
/// way there, for long.
static std::vector<std::shared_ptr<Session>> openSessions(const ThreadState &state, bool clearsOthers) {
  std::vector<std::shared_ptr<Session>> found = state.sessions();
  std::erase_if(found, [&](const auto &session) {
    SessionLock lock(session->mutex());
    auto open = state.peek(*session);
    if (open && open->empty() && clearsOthers) {
      open->clear(); // changes of tensors that no rollback undoes any more
    }
    return !open || open->empty();
  });
  return found;
}

bool Steps::begin() {
  ThreadState &state = ThreadState::current();
  c10::AutogradState &autograd = c10::AutogradState::get_tls_state();
  const bool hadEngineThreads = autograd.get_multithreading_enabled();
  autograd.set_multithreading_enabled(false);
  if (state.step) {
    ++state.step->depth;
    return false;
  }
  state.step = std::make_unique<OpenStep>();
  state.step->number = ++stepCount;
  state.step->hadEngineThreads = hadEngineThreads;
  for (const auto &session : openSessions(state, /*clearsOthers=*/false)) {
    // What is pending joins the step.
    SessionLock lock(session->mutex());
    state.at(*session);
  }
  return true;
}

namespace {

/// The sessions of the step that ends here; nothing if it is an inner one.
std::vector<std::shared_ptr<Session>> leaveStep() {
  std::vector<std::shared_ptr<Session>> touched;
  ThreadState *state = ThreadState::existing();
  if (state && state->step && --state->step->depth == 0) {
    c10::AutogradState::get_tls_state().set_multithreading_enabled(state->step->hadEngineThreads);
    for (auto &session : state->step->touched) {
      if (session) {
        touched.push_back(std::move(session));
      }
    }
    state->step.reset();
  }
  return touched;
}

std::vector<std::shared_ptr<Session>> online(std::vector<std::shared_ptr<Session>> sessions) {
  std::erase_if(sessions, [](const auto &session) { return session->offline(); });
  return sessions;
}

} // namespace

void Steps::end(const std::shared_ptr<Trip> &trip, bool holds) {
  const uint64_t held = trip ? trip->held : 0;
  sendAll(online(leaveStep()), /*explicitStep=*/true, trip, holds);
  if (trip && trip->held == held && !trip->isOver()) {
    ++trip->committed;
  }
}

void Steps::abort() {
  for (const auto &session : leaveStep()) {
    session->rollback(kDropped);
  }
}

bool Steps::active() {
  ThreadState *state = ThreadState::existing();
  return state && state->step;
}

uint64_t Steps::current() { return active() ? ThreadState::existing()->step->number : 0; }

void flushAll() {
  if (ThreadState *state = ThreadState::existing()) {
    sendAll(online(openSessions(*state, /*clearsOthers=*/true)), /*explicitStep=*/false);
  }
}

} // namespace sojourn::frontend
