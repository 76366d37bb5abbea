// SPDX-License-Identifier: Apache-2.0
// Session: opening and closing, recording into the calling thread's trace, handles.
#include "frontend/session/Session.h"

#include "dialect/Signature.h"
#include "frontend/Error.h"
#include "frontend/recording/Origin.h"
#include "frontend/wire/Identity.h"
#include "frontend/Interrupt.h"

#include <atomic>
#include <ATen/ATen.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <cstring>

namespace sojourn::frontend {

namespace {

std::mutex registryMutex;
std::vector<std::weak_ptr<Session>> registry;
Counters endedCounters; ///< of the sessions that are gone; under the registry's mutex

const Reason &kClosed = constantReason("its session was closed");

void (*reclaim)() = nullptr;

} // namespace

void setReclaimer(void (*reclaimer)()) { reclaim = reclaimer; }

Session::Session() = default;

std::shared_ptr<Session> Session::openOffline() { return open(nullptr); }

std::shared_ptr<Session> Session::open(std::unique_ptr<Transport> transport, Identity *identity) {
  std::shared_ptr<Session> session(new Session());
  if (transport) {
    session->client_ = std::make_unique<Client>(std::move(transport));
    try {
      translated([&] { session->client_->hello(identity); });
    } catch (...) {
      session->client_.reset(); // there is nothing to end
      throw;
    }
    session->ownerKey_ = identity ? identity->owner() : session->client_->transport().ownerKey();
  }
  const auto takeDevice = [&] {
    std::lock_guard lock(registryMutex);
    registry.resize(kDeviceCountMax);
    auto free = std::find_if(registry.begin(), registry.end(), [](const auto &slot) { return slot.expired(); });
    if (free == registry.end()) {
      return false;
    }
    session->index_ = static_cast<c10::DeviceIndex>(free - registry.begin());
    *free = session;
    return true;
  };
  bool hasDevice = takeDevice();
  if (!hasDevice && reclaim) {
    reclaim(); // cycles of objects may keep sessions that nothing else uses
    hasDevice = takeDevice();
  }
  if (!hasDevice) {
    const auto others = all();
    const auto closed =
        std::count_if(others.begin(), others.end(), [](const auto &other) { return other->isClosed(); });
    raise(ErrorKind::Error,
          "more than " + std::to_string(kDeviceCountMax) + " owners in one process; close one first" +
              (closed ? " (" + std::to_string(closed) + " are closed, but tensors on them still exist: delete those)"
                      : ""));
  }
  return session;
}

std::shared_ptr<Session> Session::at(int index) {
  std::lock_guard lock(registryMutex);
  if (index >= 0 && static_cast<size_t>(index) < registry.size()) {
    if (auto session = registry[index].lock()) {
      if (session->closed_) {
        raise(ErrorKind::Error, "owner:" + std::to_string(index) + " is closed; connect again");
      }
      return session;
    }
  }
  raise(ErrorKind::Error,
        "no owner is connected as device owner:" + std::to_string(index) +
            "; call sojourn.local() or sojourn.connect(url), and keep the returned owner: its device ends with it");
}

std::vector<std::shared_ptr<Session>> Session::all() {
  std::lock_guard lock(registryMutex);
  std::vector<std::shared_ptr<Session>> sessions;
  for (auto &weak : registry) {
    if (auto session = weak.lock(); session && !session->isElsewhere()) {
      sessions.push_back(std::move(session));
    }
  }
  return sessions;
}

Session::~Session() {
  if (isElsewhere()) {
    static_cast<void>(client_.release()); // its socket has threads in the parent alone
    return;
  }
  try {
    close();
  } catch (...) {
    // The owner drops a session's handles when its lease ends.
    if (takeInterruptNote()) {
      interruptLater(std::current_exception());
    }
  }
  const Counters own = counters();
  std::lock_guard lock(registryMutex);
  for (uint64_t Counters::*count : kCounts) {
    endedCounters.*count += own.*count;
  }
  endedCounters.live_handles = 0;
}

Counters Session::ended() {
  std::lock_guard lock(registryMutex);
  return endedCounters;
}

void Session::raiseElsewhere() const {
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

void Session::close() {
  if (isElsewhere()) {
    return;
  }
  SessionLock turn(turn_);
  sendHeld();
  {
    SessionLock lock(mutex_);
    if (closed_) {
      return;
    }
    closed_ = true;
    for (Recording *recording : recordings_) {
      // Of a step that may still be open too: nothing of a trace survives.
      recording->unmark();
      counters_.steps_dropped += recording->rollback(kClosed);
      recording->clear();
    }
  }
  if (client_) {
    translated([&] { client_->bye(); });
  }
}

std::vector<DatasetInfo> Session::datasets() {
  SessionLock turn(turn_);
  return client_ ? translated([&] { return spending_.tables(*client_); }) : std::vector<DatasetInfo>();
}

std::string Session::address() const { return client_ ? client_->transport().name() : "an offline device"; }

std::vector<ProgramSummary> Session::programs(bool withText) {
  SessionLock turn(turn_);
  return client_ ? translated([&] { return client_->programs(withText); }) : std::vector<ProgramSummary>();
}

Counters Session::counters() {
  SessionLock lock(mutex_);
  Counters result = counters_;
  if (client_) {
    result.round_trips = client_->roundTrips;
    result.upload_parts = client_->uploadParts;
    result.looks = client_->looks;
    result.bytes_up = client_->bytesUp;
    result.bytes_down = client_->bytesDown;
  }
  return result;
}

void Session::raiseUnsent(bool written) const {
  raise(ErrorKind::Error,
        std::string(written ? "another thread has written to this tensor" : "another thread has computed this tensor") +
            " at " + address() +
            " and has not sent it yet; end the step in that thread, or call sojourn.flush() there, before this thread "
            "uses it");
}

int64_t Session::idInTrace(Recording &open, Storage &storage) {
  if (Storage::Place *place = storage.placeIn(open)) {
    return place->id;
  }
  if (storage.readAgain && storage.handle) {
    if (std::optional<int64_t> read = open.tables.find(TableRecords::again(storage.serial))) {
      return *read;
    }
  }
  if (storage.lost) {
    raise(ErrorKind::Error, "this tensor has no value: " + *storage.lost +
                                "; recompute it (tensors made before the step keep their committed values)");
  }
  requireOpen();
  const bool isUpload = !storage.handle && storage.upload.defined() && storage.input < 0;
  for (const Storage::Place &place : storage.places) {
    if (place.written || (!storage.handle && !isUpload)) {
      raiseUnsent(place.written);
    }
  }
  if (storage.isPacked()) {
    raiseUnsent(/*written=*/false); // a trace of another thread has it; else this trace would have a copy by now
  }
  // Traces of several threads may send it; the first that does makes it a value at the owner for all of them.
  for (size_t at = storage.places.size(); isUpload && at-- > 0;) {
    storage.places[at].recording->letGo(storage);
  }
  InputKind kind = storage.handle ? InputKind::State : InputKind::Upload;
  storage.usedAt = commits_;
  open.reads = std::max(open.reads, storage.reads);
  int64_t id = open.enter(storage);
  auto &inputs = open.trace.inputs;
  inputs.insert(inputs.end(), {id, static_cast<Word>(kind), static_cast<Word>(elementOf(storage.dtype)),
                               static_cast<Word>(storage.sizes.size())});
  inputs.insert(inputs.end(), storage.sizes.begin(), storage.sizes.end());
  inputs.insert(inputs.end(), storage.strides.begin(), storage.strides.end());
  if (kind == InputKind::State) {
    open.stateHandles.push_back(storage.handle);
  } else {
    open.uploads.push_back(storage.upload);
    open.uploadInputs.push_back(storage.input);
  }
  return id;
}

void Session::readAgain(Recording &open, Storage &storage, const Origin &origin) {
  if (!storage.readAgain || !storage.handle || storage.placeIn(open)) {
    return;
  }
  std::vector<Word> request = TableRecords::again(storage.serial);
  if (open.tables.find(request)) {
    return;
  }
  open.tables.remember(std::move(request), storage.readAgain(origin));
  open.unrepeatable = // whatever else is in the way
      "it uses columns of a private table that an earlier step has read, and each step reads them anew; "
      "read them outside for each call (table[...]) and pass them";
}

void Session::willWrite(Recording &open, Storage &storage) {
  {
    // The value at the owner is written to, not what was read anew; a step that is dropped leaves a column.
    auto column = std::exchange(storage.readAgain, nullptr);
    auto restored = c10::make_scope_exit([&] { storage.readAgain = std::move(column); });
    idInTrace(open, storage);
  }
  ++storage.writes;
  storage.seen.clear();
  for (Storage::Place &place : storage.places) {
    if (place.recording != &open && !place.recording->isAside) {
      raise(ErrorKind::Error, "this thread would write to a tensor at " + address() +
                                  " that another thread has used and not sent yet; end the step in that thread, or "
                                  "call sojourn.flush() there, before this thread writes");
    }
    place.written = place.written || place.recording == &open;
  }
}

void Session::requireOpen() const {
  if (closed_) {
    raise(ErrorKind::Error, "its session at " + address() + " is closed; connect again and upload or recompute it");
  }
}

c10::intrusive_ptr<Storage> Session::makeResult(Recording &open, const OutputMeta &meta) {
  auto storage = Storage::make(shared_from_this(), meta.sizes, meta.strides, meta.dtype);
  open.enter(*storage);
  return storage;
}

c10::intrusive_ptr<Storage> Session::makeUpload(const at::Tensor &hostTensor, bool fresh) {
  checkElement(hostTensor.scalar_type());
  // A dense layout is kept as it is (channels_last); the bytes travel row-major.
  at::Tensor copy = fresh ? hostTensor.detach() : hostTensor.detach().clone(at::MemoryFormat::Preserve);
  if (!copy.is_non_overlapping_and_dense()) {
    copy = copy.contiguous();
  }
  auto storage = Storage::make(shared_from_this(), Dims(copy.sizes().begin(), copy.sizes().end()),
                               Dims(copy.strides().begin(), copy.strides().end()), copy.scalar_type());
  storage->upload = copy.contiguous();
  SessionLock lock(mutex_);
  ++counters_.uploads;
  return storage;
}

c10::intrusive_ptr<Storage> Session::makeInput(c10::IntArrayRef sizes, at::ScalarType dtype, int position) {
  // Its contents are never read: whoever runs the artifact sends them.
  auto storage = makeUpload(at::empty(sizes, at::device(at::kCPU).dtype(dtype)), /*fresh=*/true);
  storage->input = position;
  SessionLock lock(mutex_);
  idInTrace(*storage);
  return storage;
}

uint64_t Session::newHandle() {
  SessionLock lock(mutex_);
  ++counters_.live_handles;
  return nextHandle_++;
}

void Session::releaseHandle(uint64_t handle) {
  if (isElsewhere()) {
    return; // the parent has it still
  }
  SessionLock lock(mutex_);
  --counters_.live_handles;
  releases_.push_back(handle);
}

int64_t Session::makeHidden(Recording &open) {
  open.storages.push_back(nullptr);
  return open.trace.storageCount++;
}

int64_t Session::tableInTrace(const DatasetInfo &dataset, const std::vector<ColumnInfo> &columns, bool isWhole) {
  Recording &open = recording();
  return open.tables.argument(dataset, columns, isWhole, open.trace.tables);
}

void Session::storageDied(Storage &storage) {
  std::optional<SessionLock> lock;
  if (!isElsewhere()) {
    lock.emplace(mutex_);
  }
  for (const Storage::Place &place : storage.places) {
    place.recording->storages[place.id] = nullptr;
  }
  if (!lock) {
    return; // the parent has its value still
  }
  if (storage.handle) {
    releases_.push_back(storage.handle);
    --counters_.live_handles;
  }
}

void Session::willChange(RemoteTensorImpl &tensor, bool storageToo) {
  SessionLock lock(mutex_);
  recording().willChange(tensor, storageToo);
}

BudgetInfo Session::budget(const std::string &dataset, uint64_t endRun) {
  SessionLock turn(turn_);
  requireOpen();
  sendHeld(); // it may spend
  return translated([&] { return client_->budget(dataset, endRun); });
}

std::shared_ptr<PublishedState> Session::publish(const at::Tensor &copy, const wire::ReleaseTerms &terms) {
  SessionLock lock(mutex_);
  const auto &storage = remoteImpl(copy)->remoteStorage();
  idInTrace(*storage);
  auto state = std::make_shared<PublishedState>();
  state->terms = terms;
  recording().publishes.emplace_back(storage, state);
  return state;
}

void Session::adopt(Recording &recording) { recordings_.push_back(&recording); }

void Session::abandon(Recording &recording) {
  if (isElsewhere()) {
    return;
  }
  SessionLock lock(mutex_);
  // Tensor objects keep the form they have: it needs no owner.
  recording.forgetChanges();
  recording.unmark();
  counters_.steps_dropped += recording.rollback(reasonOf("the thread that recorded it ended before it was sent (call "
                                                         "sojourn.flush() at the end of the thread)"));
  recording.clear();
  std::erase(recordings_, &recording);
}

void Session::rollback(const Reason &reason) {
  if (isElsewhere()) {
    return;
  }
  SessionLock lock(mutex_);
  if (auto open = ThreadState::current().peek(*this)) {
    counters_.steps_dropped += open->rollback(reason);
    open->unmark();
  }
}

} // namespace sojourn::frontend
