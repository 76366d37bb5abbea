// SPDX-License-Identifier: Apache-2.0
#include "frontend/flight/Undeclared.h"

#include "frontend/flight/Flights.h"
#include "frontend/flight/ReadListener.h"
#include "frontend/recording/Origin.h"

#include <torch/csrc/autograd/function.h>

#include <algorithm>

namespace sojourn::frontend {

bool hasEnded(Session &session) {
  DeviceLock lock(session.mutex());
  auto open = ThreadState::current().peek(session);
  return open && !open->empty() && open->hasEnded;
}

bool hasNow(Session &session, const std::vector<at::Tensor> &tensors) {
  DeviceLock lock(session.mutex());
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor &tensor) {
    const Storage &storage = *remoteImpl(tensor)->remoteStorage();
    if (storage.device.get() != &session) {
      return true; // its own session's to say
    }
    bool isWritten =
        std::any_of(storage.places.begin(), storage.places.end(), [](auto &place) { return place.written; });
    return (storage.handle != 0 || storage.pack) && !isWritten;
  });
}

/// Marks that a step of an optimizer ends here. Whether it is one too many: that optimizer had stepped in what is open.
static bool markEnd(Session &session, uint64_t optimizer) {
  DeviceLock lock(session.mutex());
  auto open = ThreadState::current().peek(session);
  if (!open || open->empty()) {
    return false;
  }
  open->hasEnded = true;
  // Rows of a table stay with their updates: one optimizer may step several times on a batch.
  constexpr size_t kStepsOnRows = 32;
  const bool isAgain = !open->stepped.insert(optimizer).second;
  return ++open->steps >= kStepsOnRows || (isAgain && open->trace.tables.empty());
}

/// What an undeclared step may hold.
constexpr size_t kOpsSoon = 4096;  ///< then it is sent where its first line, or that of the last of these, comes again
constexpr size_t kOpsMost = 16384; ///< then anywhere
/// Then it is sent before the next upload.
constexpr size_t kOpsOfBatches = 1024, kUploadBytes = size_t{64} << 20;

static void sendPending() {
  readListener().around([] { flushAll(); });
  readListener().after(/*isExtra=*/false);
}

/// Whether what waits is so much that it should not wait for another batch.
static bool isLarge(Session &session) {
  DeviceLock lock(session.mutex()); // other threads take what this one has uploaded
  auto open = ThreadState::current().peek(session);
  if (!open || !open->trace.tables.empty()) {
    return false;
  }
  size_t bytes = 0;
  for (const at::Tensor &upload : open->uploads) {
    bytes += upload.defined() ? upload.nbytes() : 0;
  }
  return open->trace.origins.size() >= kOpsOfBatches || bytes >= kUploadBytes;
}

/// Sends what is open, if that is to be at any of the sessions.
template <typename Ends>
static void sendIf(Ends ends) {
  ThreadState *state = ThreadState::existing();
  if (!state || state->step) {
    return;
  }
  bool isAny = false;
  for (const auto &device : state->devices()) {
    isAny |= !device->offline() && ends(*Session::of(device));
  }
  if (isAny) {
    sendPending();
  }
}

void markStep(uint64_t optimizer) {
  sendIf([=](Session &session) { return markEnd(session, optimizer); });
}

void markBatch() {
  sendIf([](Session &session) { return hasEnded(session) || isLarge(session); });
}

void boundStep(RemoteDevice &device) {
  ThreadState *state = ThreadState::existing();
  if (!state || state->step || state->isReading || device.offline()) {
    return;
  }
  const auto open = state->peek(device);
  const size_t ops = open ? open->trace.origins.size() : 0;
  if (ops < kOpsSoon || !open->trace.tables.empty() || torch::autograd::get_current_node()) {
    return;
  }
  // What stands before a loop does not come again; what the trace is full of does.
  const Frame here = captureOrigin().frame;
  auto comesAgain = [&](size_t op) {
    const Frame &then = open->trace.origins[op].frame;
    return here.code == then.code && here.instruction == then.instruction;
  };
  if (ops >= kOpsMost || comesAgain(0) || comesAgain(kOpsSoon - 1)) {
    sendPending();
  }
}

} // namespace sojourn::frontend
