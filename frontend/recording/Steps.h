// SPDX-License-Identifier: Apache-2.0
// Threads and their steps. Each thread records for itself: at every device it has a separate open trace, and its
// explicit step owns the devices that it touched. How a step is sent is in frontend/flight/Flights.h.
#ifndef SOJOURN_FRONTEND_RECORDING_STEPS_H
#define SOJOURN_FRONTEND_RECORDING_STEPS_H

#include "frontend/recording/RemoteDevice.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace sojourn::frontend {

/// One explicit step of one thread. What it recorded at the devices that it touched travels
/// together or is dropped together.
struct OpenStep {
  uint64_t number = 0;           ///< counted over all threads, from 1
  int depth = 1;                 ///< nested steps join
  bool hadEngineThreads = false; ///< before it
  std::array<std::shared_ptr<RemoteDevice>, kDeviceCountMax> touched;
};

/// What one thread has open. Made by its first recording or step; when the thread ends, what it
/// has not sent is lost and says so.
class ThreadState {
public:
  ThreadState();
  ~ThreadState();
  ThreadState(const ThreadState &) = delete;
  ThreadState &operator=(const ThreadState &) = delete;

  /// Of the calling thread. Throws Error on a thread of torch's autograd engine: backward runs on
  /// the thread that calls it, for a thread that records has the engine's threads switched off.
  static ThreadState &current();
  /// Of the calling thread, if it has one.
  static ThreadState *existing();

  /// The open trace at `device`; entering it in the open step marks where the step began.
  /// The device's lock is held by the caller.
  Recording &at(RemoteDevice &device);
  /// Nothing if the thread has recorded nothing there since the last take.
  std::shared_ptr<Recording> peek(const RemoteDevice &device) const;
  /// Takes the open trace out on its way to the owner.
  std::shared_ptr<Recording> take(const RemoteDevice &device);
  /// Returns one that was not sent. False if another was begun meanwhile.
  bool putBack(const RemoteDevice &device, std::shared_ptr<Recording> recording);
  /// Devices at which something is open, in order of their index.
  std::vector<std::shared_ptr<RemoteDevice>> devices() const;
  /// Those at which it has recorded something. Of others no turn need be taken: a step of another thread may be under
  /// way there, for long. `clearsOthers`: changes of tensors there are no longer undone by a rollback.
  std::vector<std::shared_ptr<RemoteDevice>> openDevices(bool clearsOthers) const;

  std::unique_ptr<OpenStep> step;
  /// Whether it records a copy for a read: what is recorded has no line of the script.
  bool isReading = false;

private:
  struct Slot {
    std::weak_ptr<RemoteDevice> device;
    const RemoteDevice *identity = nullptr;
    std::shared_ptr<Recording> recording;
  };
  std::array<Slot, kDeviceCountMax> slots_;
};

/// The calling thread's explicit step. Nested steps join the outer one.
class Steps {
public:
  /// Whether it is the outermost one. Until its end backward runs on the calling thread.
  static bool begin();
  /// Ends the innermost step without sending it; the devices that the step has touched, none if it is an inner one.
  static std::vector<std::shared_ptr<RemoteDevice>> leave();
  /// Drops the outermost step.
  static void abort();
  static bool active();
  /// Number of the open step, counted from 1; 0 if none is open.
  static uint64_t current();
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_STEPS_H
