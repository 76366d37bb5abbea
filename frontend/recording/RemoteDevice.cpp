// SPDX-License-Identifier: Apache-2.0
// The devices of the process, their locks, and what becomes of their open traces.
#include "frontend/recording/RemoteDevice.h"

#include "frontend/Error.h"
#include "frontend/Raise.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

namespace sojourn::frontend {

namespace {

std::mutex registryMutex;
std::vector<std::weak_ptr<RemoteDevice>> registry;

void (*reclaim)() = nullptr;
std::atomic<void (*)(std::mutex &)> lockWaiter{nullptr};

} // namespace

void setReclaimer(void (*reclaimer)()) { reclaim = reclaimer; }

void setLockWaiter(void (*waiter)(std::mutex &)) { lockWaiter = waiter; }

void lockPolitely(std::mutex &mutex) {
  if (mutex.try_lock()) {
    return;
  }
  auto waiter = lockWaiter.load();
  waiter ? waiter(mutex) : mutex.lock();
}

DeviceLock::DeviceLock(DeviceMutex &mutex) : mutex_(mutex) {
  mutex_.device_.requireHere();
  if (mutex_.isHeldHere()) {
    raise(ErrorKind::Error, "internal error: the lock of " + mutex_.device_.device().str() +
                                " is taken twice by one thread; report this with its traceback");
  }
  lockPolitely(mutex_.mutex_);
  mutex_.holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

void RemoteDevice::enter() {
  const auto takeIndex = [&] {
    std::lock_guard lock(registryMutex);
    registry.resize(kDeviceCountMax);
    auto free = std::find_if(registry.begin(), registry.end(), [](const auto &slot) { return slot.expired(); });
    if (free == registry.end()) {
      return false;
    }
    index_ = static_cast<c10::DeviceIndex>(free - registry.begin());
    *free = weak_from_this();
    return true;
  };
  bool hasIndex = takeIndex();
  if (!hasIndex && reclaim) {
    reclaim(); // cycles of objects may keep sessions that nothing else uses
    hasIndex = takeIndex();
  }
  if (!hasIndex) {
    const auto others = all();
    const auto closed =
        std::count_if(others.begin(), others.end(), [](const auto &other) { return other->isClosed(); });
    raise(ErrorKind::Error,
          "more than " + std::to_string(kDeviceCountMax) + " owners in one process; close one first" +
              (closed ? " (" + std::to_string(closed) + " are closed, but tensors on them still exist: delete those)"
                      : ""));
  }
}

std::shared_ptr<RemoteDevice> RemoteDevice::at(int index) {
  std::lock_guard lock(registryMutex);
  if (index >= 0 && static_cast<size_t>(index) < registry.size()) {
    if (auto device = registry[index].lock()) {
      if (device->closed_) {
        raise(ErrorKind::Error, "owner:" + std::to_string(index) + " is closed; connect again");
      }
      return device;
    }
  }
  raise(ErrorKind::Error,
        "no owner is connected as device owner:" + std::to_string(index) +
            "; call sojourn.local() or sojourn.connect(url), and keep the returned owner: its device ends with it");
}

std::vector<std::shared_ptr<RemoteDevice>> RemoteDevice::all() {
  std::lock_guard lock(registryMutex);
  std::vector<std::shared_ptr<RemoteDevice>> devices;
  for (auto &weak : registry) {
    if (auto device = weak.lock(); device && !device->isElsewhere()) {
      devices.push_back(std::move(device));
    }
  }
  return devices;
}

void RemoteDevice::raiseElsewhere() const {
  const bool hasSocket = address().find("://") != std::string::npos;
  raise(
      ErrorKind::Error,
      "this session with the owner at " + address() + " was " + process_.text() +
          (hasSocket
               ? ", which has none of its connections; start processes that talk to an owner by spawn "
                 "(multiprocessing.get_context(\"spawn\"))"
               : ", where the price of a step would be paid once and spent twice; open an owner here (sojourn.local), "
                 "or start processes that talk to one by spawn (multiprocessing.get_context(\"spawn\"))"));
}

void RemoteDevice::requireOpen() const {
  if (closed_) {
    raise(ErrorKind::Error, "its session at " + address() + " is closed; connect again and upload or recompute it");
  }
}

c10::intrusive_ptr<Storage> RemoteDevice::makeUpload(const at::Tensor &hostTensor, bool fresh) {
  checkElement(hostTensor.scalar_type());
  // A dense layout is kept as it is (channels_last); the bytes travel row-major.
  at::Tensor copy = fresh ? hostTensor.detach() : hostTensor.detach().clone(at::MemoryFormat::Preserve);
  if (!copy.is_non_overlapping_and_dense()) {
    copy = copy.contiguous();
  }
  auto storage = Storage::make(shared_from_this(), Dims(copy.sizes().begin(), copy.sizes().end()),
                               Dims(copy.strides().begin(), copy.strides().end()), copy.scalar_type());
  storage->upload = copy.contiguous();
  ++counts_.uploads;
  return storage;
}

c10::intrusive_ptr<Storage> RemoteDevice::makeInput(c10::IntArrayRef sizes, at::ScalarType dtype, int position) {
  // Its contents are never read: whoever runs the artifact sends them.
  const at::Tensor contents = at::empty(sizes, at::device(at::kCPU).dtype(dtype));
  DeviceLock lock(mutex_);
  auto storage = makeUpload(contents, /*fresh=*/true);
  storage->input = position;
  recording().idOf(*storage);
  return storage;
}

void RemoteDevice::storageDied(Storage &storage) {
  if (isElsewhere()) { // the parent has its value still
    for (const Storage::Place &place : storage.places) {
      place.recording->storages[place.id] = nullptr;
    }
    return;
  }
  std::optional<DeviceLock> lock;
  if (!mutex_.isHeldHere()) {
    lock.emplace(mutex_);
  }
  for (const Storage::Place &place : storage.places) {
    place.recording->storages[place.id] = nullptr;
  }
  if (storage.handle) {
    handles_.release(storage.handle);
  }
}

void RemoteDevice::willChange(RemoteTensorImpl &tensor, bool storageToo) {
  DeviceLock lock(mutex_);
  recording().willChange(tensor, storageToo);
}

void RemoteDevice::abandonHeld(Recording &recording, const Reason &reason) {
  // Tensor objects keep the form they have: it needs no owner.
  recording.forgetChanges();
  recording.unmark();
  counts_.steps_dropped += recording.rollback(reason);
  recording.clear();
  forget(recording);
}

void RemoteDevice::abandon(Recording &recording) {
  if (isElsewhere()) {
    return;
  }
  DeviceLock lock(mutex_);
  abandonHeld(recording, reasonOf("the thread that recorded it ended before it was sent (call sojourn.flush() at the "
                                  "end of the thread)"));
}

std::vector<uint64_t> RemoteDevice::takeReleases(const Recording *own) {
  DeviceLock lock(mutex_);
  std::vector<uint64_t> needed;
  for (const Recording *recording : recordings_) {
    if (recording != own) {
      needed.insert(needed.end(), recording->stateHandles.begin(), recording->stateHandles.end());
    }
  }
  std::sort(needed.begin(), needed.end());
  return handles_.takeReleases(needed);
}

void RemoteDevice::countSteps(uint64_t committed) {
  DeviceLock lock(mutex_);
  counts_.steps += committed;
}

bool RemoteDevice::closeTraces(const Reason &reason) {
  DeviceLock lock(mutex_);
  if (closed_.exchange(true)) {
    return false;
  }
  for (Recording *recording : recordings_) {
    recording->unmark(); // of a step that may still be open, too
    counts_.steps_dropped += recording->rollback(reason);
    recording->clear();
  }
  return true;
}

Counters RemoteDevice::countsNow() {
  DeviceLock lock(mutex_);
  Counters counts = counts_;
  counts.live_handles = handles_.live();
  return counts;
}

} // namespace sojourn::frontend
