// SPDX-License-Identifier: Apache-2.0
// What each thread has open, and its explicit steps.
#include "frontend/recording/Steps.h"

#include "frontend/Error.h"
#include "frontend/Raise.h"
#include "frontend/recording/RemoteDevice.h"

#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/node.h>

#include <atomic>

namespace sojourn::frontend {

namespace {

std::atomic<uint64_t> stepCount{0};

const Reason &kDropped = constantReason("the step that computed it was dropped");

thread_local std::unique_ptr<ThreadState> threadState;

} // namespace

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
    auto device = slot.device.lock();
    if (device && slot.recording) {
      device->abandon(*slot.recording);
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

Recording &ThreadState::at(RemoteDevice &device) {
  Slot &slot = slots_[device.index()];
  if (slot.identity != &device || !slot.recording || slot.device.expired()) {
    slot = {device.weak_from_this(), &device, std::make_shared<Recording>(device)};
    device.adopt(*slot.recording);
  }
  slot.recording->writeWords(); // what is recorded next comes after them
  if (step && !step->touched[device.index()]) {
    step->touched[device.index()] = device.shared_from_this();
    slot.recording->mark();
  }
  return *slot.recording;
}

std::shared_ptr<Recording> ThreadState::peek(const RemoteDevice &device) const {
  const Slot &slot = slots_[device.index()];
  return slot.identity == &device && !slot.device.expired() ? slot.recording : nullptr;
}

std::shared_ptr<Recording> ThreadState::take(const RemoteDevice &device) {
  return peek(device) ? std::exchange(slots_[device.index()].recording, nullptr) : nullptr;
}

bool ThreadState::putBack(const RemoteDevice &device, std::shared_ptr<Recording> recording) {
  Slot &slot = slots_[device.index()];
  if (slot.identity != &device || slot.recording) {
    return false;
  }
  slot.recording = std::move(recording);
  return true;
}

std::vector<std::shared_ptr<RemoteDevice>> ThreadState::devices() const {
  std::vector<std::shared_ptr<RemoteDevice>> all;
  for (const Slot &slot : slots_) {
    // What was pending when this process was forked off is its parent's to send.
    if (auto device = slot.recording ? slot.device.lock() : nullptr; device && !device->isElsewhere()) {
      all.push_back(std::move(device));
    }
  }
  return all;
}

std::vector<std::shared_ptr<RemoteDevice>> ThreadState::openDevices(bool clearsOthers) const {
  std::vector<std::shared_ptr<RemoteDevice>> found = devices();
  std::erase_if(found, [&](const auto &device) {
    DeviceLock lock(device->mutex());
    auto open = peek(*device);
    if (open && open->empty() && clearsOthers) {
      open->clear();
    }
    return !open || open->empty();
  });
  return found;
}

Recording &RemoteDevice::recording() { return ThreadState::current().at(*this); }

void RemoteDevice::rollback(const Reason &reason) {
  if (isElsewhere()) {
    return;
  }
  DeviceLock lock(mutex_);
  if (auto open = ThreadState::current().peek(*this)) {
    counts_.steps_dropped += open->rollback(reason);
    open->unmark();
  }
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
  for (const auto &device : state.openDevices(/*clearsOthers=*/false)) {
    // What is pending joins the step.
    DeviceLock lock(device->mutex());
    state.at(*device);
  }
  return true;
}

std::vector<std::shared_ptr<RemoteDevice>> Steps::leave() {
  std::vector<std::shared_ptr<RemoteDevice>> touched;
  ThreadState *state = ThreadState::existing();
  if (state && state->step && --state->step->depth == 0) {
    c10::AutogradState::get_tls_state().set_multithreading_enabled(state->step->hadEngineThreads);
    for (auto &device : state->step->touched) {
      if (device) {
        touched.push_back(std::move(device));
      }
    }
    state->step.reset();
  }
  return touched;
}

void Steps::abort() {
  for (const auto &device : leave()) {
    device->rollback(kDropped);
  }
}

bool Steps::active() {
  ThreadState *state = ThreadState::existing();
  return state && state->step;
}

uint64_t Steps::current() { return active() ? ThreadState::existing()->step->number : 0; }

} // namespace sojourn::frontend
