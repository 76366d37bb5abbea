// SPDX-License-Identifier: Apache-2.0
// What a torch device "owner:N" stands for, as the recorder sees it: a place to which open traces belong. Sessions
// (frontend/session/Session.h) are such places.
//
// Lock order: a connection's turn, then a device's lock, then the leaf locks of handles, spending and news; no lock is
// recursive. Nobody waits for one of them while holding the interpreter.
#ifndef SOJOURN_FRONTEND_RECORDING_REMOTEDEVICE_H
#define SOJOURN_FRONTEND_RECORDING_REMOTEDEVICE_H

#include "frontend/recording/Handles.h"
#include "frontend/recording/Recording.h"
#include "runtime/OwnProcess.h"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sojourn::frontend {

/// Highest number of owners and groups that a process can talk to: the autograd engine sizes its queues once. A group
/// of 16 has as many owners.
inline constexpr int kDeviceCountMax = 32;

class RemoteDevice;

struct Counters {
  uint64_t ops_recorded = 0, programs_compiled = 0, programs_resent = 0, cache_hits = 0, steps = 0, steps_dropped = 0;
  uint64_t busy_retries = 0;
  uint64_t live_handles = 0, reads = 0, uploads = 0, round_trips = 0, upload_parts = 0, looks = 0, bytes_up = 0,
           bytes_down = 0;
};
/// All of them.
inline constexpr uint64_t Counters::*kCounts[] = {
    &Counters::ops_recorded, &Counters::programs_compiled, &Counters::programs_resent, &Counters::cache_hits,
    &Counters::steps,        &Counters::steps_dropped,     &Counters::live_handles,    &Counters::reads,
    &Counters::uploads,      &Counters::round_trips,       &Counters::upload_parts,    &Counters::looks,
    &Counters::bytes_up,     &Counters::bytes_down,        &Counters::busy_retries};
static_assert(sizeof(Counters) == std::size(kCounts) * sizeof(uint64_t));

/// How to wait for a mutex without holding the interpreter's lock (set by the bindings): whoever holds a device's lock
/// may need the interpreter to answer.
void setLockWaiter(void (*waiter)(std::mutex &));
/// Waits so.
void lockPolitely(std::mutex &mutex);

/// How to free objects that only refer to each other (set by the bindings), asked when every device is taken.
void setReclaimer(void (*reclaimer)());

/// A device's lock. A device belongs to the process that opened it: in a fork its connection is the parent's, an
/// embedded owner's books are a copy, and a lock may be held for ever by a thread that is not there.
class DeviceMutex {
public:
  explicit DeviceMutex(const RemoteDevice &device) : device_(device) {}
  /// Whether the calling thread has it: asked where a tensor dies, which may be anywhere.
  bool isHeldHere() const { return holder_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

private:
  friend class DeviceLock;
  const RemoteDevice &device_;
  std::mutex mutex_;
  std::atomic<std::thread::id> holder_{};
};

/// std::lock_guard that waits politely. Throws Error in a fork of the device's process, so that nothing is done there
/// by a session; what goes by itself (ends of tensors, threads, sessions) asks `RemoteDevice::isElsewhere` first.
class DeviceLock {
public:
  explicit DeviceLock(DeviceMutex &mutex);
  ~DeviceLock() {
    mutex_.holder_.store({}, std::memory_order_relaxed);
    mutex_.mutex_.unlock();
  }
  DeviceLock(const DeviceLock &) = delete;
  DeviceLock &operator=(const DeviceLock &) = delete;

private:
  DeviceMutex &mutex_;
};

class RemoteDevice : public std::enable_shared_from_this<RemoteDevice> {
public:
  /// What the index of a torch device stands for; the only place that says so. Throws Error naming the open ones if
  /// there is none.
  static std::shared_ptr<RemoteDevice> at(int index);
  /// Of this process; not those of one that it is a fork of.
  static std::vector<std::shared_ptr<RemoteDevice>> all();
  virtual ~RemoteDevice() = default;

  c10::DeviceIndex index() const { return index_; }
  c10::Device device() const { return {c10::DeviceType::PrivateUse1, index_}; }
  /// Whether it only records, without an owner.
  virtual bool offline() const = 0;
  /// Whether it stands for a group of owners, of which `other` is one.
  virtual bool hasMember(const RemoteDevice &) const { return false; }
  virtual bool isGroup() const { return false; }
  /// As the user wrote it to `connect`.
  virtual std::string address() const = 0;

  DeviceMutex &mutex() { return mutex_; }
  /// Whether this is a fork of the process that opened it.
  bool isElsewhere() const { return process_.isForked(); }
  [[noreturn]] void raiseElsewhere() const;
  void requireHere() const {
    if (isElsewhere()) {
      raiseElsewhere();
    }
  }
  bool isClosed() const {
    requireHere();
    return closed_;
  }
  Handles &handles() { return handles_; }

  // --- lock held by the caller ---
  /// Throws Error if it is closed.
  void requireOpen() const;
  /// The calling thread's open trace.
  Recording &recording();
  Counters &counts() { return counts_; }
  /// How many steps have committed; the age of values that no step uses.
  uint64_t commits() const { return commits_; }
  /// A storage that holds a copy of a CPU tensor, which travels with the next step. `fresh`: nobody else writes to
  /// `hostTensor`, so that it need not be copied.
  c10::intrusive_ptr<Storage> makeUpload(const at::Tensor &hostTensor, bool fresh = false);
  /// An open trace of some thread begins or ends.
  void adopt(Recording &recording) { recordings_.push_back(&recording); }
  void forget(Recording &recording) { std::erase(recordings_, &recording); }
  /// Drops a trace that will not be sent.
  void abandonHeld(Recording &recording, const Reason &reason);

  // --- by themselves ---
  /// An input of an artifact (offline): whoever runs it sends its contents.
  c10::intrusive_ptr<Storage> makeInput(c10::IntArrayRef sizes, at::ScalarType dtype, int position);
  void storageDied(Storage &storage);
  /// Called before a tensor object changes its layout, or its storage too: a rollback undoes it.
  void willChange(RemoteTensorImpl &tensor, bool storageToo);
  /// Drops a trace whose thread has ended.
  void abandon(Recording &recording);
  /// Cuts the calling thread's trace back to its mark.
  void rollback(const Reason &reason);
  /// Counts steps that have committed.
  void countSteps(uint64_t committed);
  /// Takes the releases that may travel with a step: not those of handles that open traces, except `own`, take as
  /// states.
  std::vector<uint64_t> takeReleases(const Recording *own = nullptr);

protected:
  RemoteDevice() = default;
  /// Takes a free index. Throws Error if there is none.
  void enter();
  /// Nothing of an open trace survives. False if it was closed before.
  bool closeTraces(const Reason &reason);
  /// Lock held: a step has committed.
  void countCommit() { ++commits_; }
  Counters countsNow();

private:
  const runtime::OwnProcess process_;
  DeviceMutex mutex_{*this}; ///< of the fields below; never held while an owner is waited for
  c10::DeviceIndex index_ = -1;
  std::vector<Recording *> recordings_; ///< of all threads
  Counters counts_;
  uint64_t commits_ = 0;
  std::atomic<bool> closed_{false};
  Handles handles_; ///< a lock of its own
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_REMOTEDEVICE_H
