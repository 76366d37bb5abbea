// SPDX-License-Identifier: Apache-2.0
// Session: what is open, what is committed, and the one message between them.
#include "frontend/Session.h"

#include "frontend/Error.h"
#include "frontend/Origin.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

namespace sojourn::frontend {

namespace {

std::mutex registryMutex;
std::vector<std::weak_ptr<Session>> registry;

constexpr const char *kClosed = "its session was closed";

} // namespace

Session::Session() = default;

std::shared_ptr<Session> Session::openOffline() { return open(nullptr); }

std::shared_ptr<Session> Session::open(std::unique_ptr<Transport> transport) {
  std::shared_ptr<Session> session(new Session());
  if (transport) {
    session->client_ = std::make_unique<Client>(std::move(transport));
    session->client_->hello();
  }
  std::lock_guard lock(registryMutex);
  for (size_t i = 0; i < static_cast<size_t>(kDeviceCountMax); ++i) {
    if (i == registry.size()) {
      registry.emplace_back();
    }
    if (registry[i].expired()) {
      registry[i] = session;
      session->index_ = static_cast<c10::DeviceIndex>(i);
      return session;
    }
  }
  raise(ErrorKind::Error, "more than " + std::to_string(kDeviceCountMax) + " owners in one process; close one first");
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
  raise(ErrorKind::Error, "no owner is connected as device owner:" + std::to_string(index) +
                              "; call sojourn.local() or sojourn.connect(url), and keep the owner that it returns: its "
                              "device ends with it");
}

std::vector<std::shared_ptr<Session>> Session::all() {
  std::lock_guard lock(registryMutex);
  std::vector<std::shared_ptr<Session>> sessions;
  for (auto &weak : registry) {
    if (auto session = weak.lock()) {
      sessions.push_back(std::move(session));
    }
  }
  return sessions;
}

Session::~Session() {
  try {
    close();
  } catch (...) {
    // The owner drops a session's handles when its lease ends.
  }
}

void Session::close() {
  SessionLock lock(mutex_);
  if (closed_) {
    return;
  }
  closed_ = true;
  mark_ = {}; // of a step that may still be open: nothing of the trace survives
  rollback(kClosed);
  reset();
  if (client_) {
    client_->bye();
  }
}

std::vector<DatasetInfo> Session::datasets() {
  SessionLock lock(mutex_);
  return client_ ? client_->datasets() : std::vector<DatasetInfo>();
}

std::string Session::address() const { return client_ ? client_->transport().name() : "an offline device"; }

std::vector<ProgramSummary> Session::programs(bool withText) {
  SessionLock lock(mutex_);
  return client_ ? client_->programs(withText) : std::vector<ProgramSummary>();
}

Counters Session::counters() {
  SessionLock lock(mutex_);
  Counters result = counters_;
  if (client_) {
    result.round_trips = client_->roundTrips;
    result.upload_parts = client_->uploadParts;
    result.bytes_up = client_->bytesUp;
    result.bytes_down = client_->bytesDown;
  }
  return result;
}

int64_t Session::idInTrace(Storage &storage) {
  if (storage.traceId >= 0) {
    return storage.traceId;
  }
  if (storage.lost) {
    raise(ErrorKind::Error, std::string("this tensor has no value: ") + storage.lost +
                                "; recompute it (tensors made before the step keep their committed values)");
  }
  requireOpen();
  InputKind kind = storage.handle ? InputKind::State : InputKind::Upload;
  int64_t id = trace_.storageCount++;
  auto &inputs = trace_.inputs;
  inputs.insert(inputs.end(), {id, static_cast<Word>(kind), static_cast<Word>(elementOf(storage.dtype)),
                               static_cast<Word>(storage.sizes.size())});
  inputs.insert(inputs.end(), storage.sizes.begin(), storage.sizes.end());
  inputs.insert(inputs.end(), storage.strides.begin(), storage.strides.end());
  if (kind == InputKind::State) {
    stateHandles_.push_back(storage.handle);
  } else {
    uploads_.push_back(storage.upload);
    uploadInputs_.push_back(storage.input);
  }
  inputIds_.push_back(id);
  storages_.push_back(&storage);
  storage.traceId = id;
  return id;
}

void Session::requireOpen() const {
  if (closed_) {
    raise(ErrorKind::Error, "its session at " + address() + " is closed; connect again and upload or recompute it");
  }
}

c10::intrusive_ptr<Storage> Session::makeResult(const OutputMeta &meta) {
  auto storage = c10::make_intrusive<Storage>(shared_from_this(), meta.sizes, meta.strides, meta.dtype);
  storage->traceId = trace_.storageCount++;
  storages_.push_back(storage.get());
  return storage;
}

c10::intrusive_ptr<Storage> Session::makeUpload(const at::Tensor &hostTensor) {
  checkElement(hostTensor.scalar_type());
  // A dense layout is kept as it is (channels_last); the bytes travel row-major.
  at::Tensor copy = hostTensor.detach().clone(at::MemoryFormat::Preserve);
  if (!copy.is_non_overlapping_and_dense()) {
    copy = copy.contiguous();
  }
  auto storage = c10::make_intrusive<Storage>(shared_from_this(), Dims(copy.sizes().begin(), copy.sizes().end()),
                                              Dims(copy.strides().begin(), copy.strides().end()), copy.scalar_type());
  storage->upload = copy.contiguous();
  ++counters_.uploads;
  return storage;
}

c10::intrusive_ptr<Storage> Session::makeInput(c10::IntArrayRef sizes, at::ScalarType dtype, int position) {
  // Its contents are never read: whoever runs the artifact sends them.
  auto storage = makeUpload(at::empty(sizes, at::device(at::kCPU).dtype(dtype)));
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
  SessionLock lock(mutex_);
  --counters_.live_handles;
  releases_.push_back(handle);
}

std::vector<at::Tensor> Session::runProgram(StepCall call) {
  SessionLock lock(mutex_);
  if (!client_) {
    raise(ErrorKind::Error, "an offline device runs nothing; connect to an owner");
  }
  counters_.live_handles -= call.releases.size();
  std::vector<OwnedTensor> values = exchange(call);
  ++counters_.steps;
  std::vector<at::Tensor> tensors;
  for (OwnedTensor &value : values) {
    at::Tensor tensor = hostTensor(scalarTypeOf(value.element), value.dims, value.data);
    if (!tensor.defined()) {
      raise(ErrorKind::OwnerError, "a published value came back with " + std::to_string(value.data.size()) + " bytes");
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

int64_t Session::makeHidden() {
  storages_.push_back(nullptr);
  return trace_.storageCount++;
}

int64_t Session::tableInTrace(const DatasetInfo &dataset, const std::vector<ColumnInfo> &columns) {
  return tables_.argument(dataset, columns, trace_.tables);
}

void Session::storageDied(Storage &storage) {
  SessionLock lock(mutex_);
  if (storage.traceId >= 0) {
    storages_[storage.traceId] = nullptr;
  }
  if (storage.handle) {
    releases_.push_back(storage.handle);
    --counters_.live_handles;
  }
}

void Session::reset() {
  changes_.clear();
  storages_.clear();
  stateHandles_.clear();
  uploads_.clear();
  uploadInputs_.clear();
  inputIds_.clear();
  tables_.clear();
  trace_.inputs.clear();
  trace_.words.clear();
  trace_.tables.clear();
  trace_.slots.clear();
  trace_.slotOps.clear();
  trace_.seeds.clear();
  trace_.origins.clear();
  trace_.storageCount = 0;
  mark_ = {};
}

TraceCall Session::finish() {
  forgetReplaced();
  TraceCall call;
  for (size_t id = 0; id < storages_.size(); ++id) {
    Storage *storage = storages_[id];
    // A published clone lives for its publish alone.
    bool published =
        std::any_of(publishes_.begin(), publishes_.end(), [&](auto &entry) { return entry.first.get() == storage; });
    if (storage && !storage->handle && !published) {
      call.kept.push_back(static_cast<Word>(id));
      call.results.push_back(nextHandle_++);
    }
  }
  trace_.push(Record::Outputs);
  trace_.push(static_cast<Word>(call.kept.size()));
  trace_.words.insert(trace_.words.end(), call.kept.begin(), call.kept.end());
  trace_.push(static_cast<Word>(publishes_.size()));
  for (auto &[storage, state] : publishes_) {
    trace_.push(storage->traceId);
  }
  bool hit = false;
  call.compiled = cache_.find(trace_, hit);
  ++(hit ? counters_.cache_hits : counters_.programs_compiled);
  call.states = stateHandles_;
  call.slots = trace_.slots;
  call.seeds = trace_.seeds;
  call.uploads = uploads_;
  call.uploadInputs = uploadInputs_;
  call.published = publishes_.size();
  call.tables = tables_.bindings();
  return call;
}

void Session::send(const TraceCall &call) {
  StepCall step;
  step.hash = call.compiled->hash;
  step.program = call.compiled->program;
  step.debug = call.compiled->debug;
  step.states = call.states;
  step.slots = call.slots;
  step.seeds = call.seeds;
  step.results = call.results;
  step.tables = call.tables;
  for (const at::Tensor &tensor : call.uploads) {
    step.uploads.push_back({elementOf(tensor.scalar_type()),
                            {tensor.sizes().begin(), tensor.sizes().end()},
                            {static_cast<const uint8_t *>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  std::vector<OwnedTensor> published = exchange(step);
  if (published.size() != publishes_.size()) {
    raise(ErrorKind::OwnerError, "the owner's reply does not hold the " + std::to_string(publishes_.size()) +
                                     " published values of this step");
  }
  fillPublished(std::move(published));
}

/// One request, two if the owner lacks the program. Releases that wait ride along.
std::vector<OwnedTensor> Session::exchange(StepCall &step) {
  // Taken now: tensors may die while the owner works.
  std::vector<uint64_t> waiting = std::exchange(releases_, {});
  step.releases.insert(step.releases.end(), waiting.begin(), waiting.end());
  bool known = !knownHashes_.insert(step.hash).second;
  try {
    client_->sendAhead(step);
    step.withProgram = !known;
    auto published = client_->step(step);
    if (!published && known) {
      // The owner evicted its plan; the bytes go again.
      step.withProgram = true;
      published = client_->step(step);
    }
    if (!published) {
      raise(ErrorKind::OwnerError, "the owner asks for a program that came with the request");
    }
    return std::move(*published);
  } catch (...) {
    knownHashes_.erase(step.hash);
    releases_.insert(releases_.end(), waiting.begin(), waiting.end());
    client_->dropSentAhead(step);
    throw;
  }
}

void Session::fillPublished(std::vector<OwnedTensor> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    Storage &storage = *publishes_[i].first;
    OwnedTensor &value = values[i];
    auto result = hostTensor(scalarTypeOf(value.element), value.dims, value.data);
    if (!result.defined() || result.sizes() != storage.sizes || result.scalar_type() != storage.dtype) {
      raise(ErrorKind::OwnerError, "a published value came back as " +
                                       std::string(c10::toString(scalarTypeOf(value.element))) + " of " +
                                       std::to_string(value.data.size()) + " bytes, not as recorded");
    }
    publishes_[i].second->value = std::move(result);
  }
}

void Session::commit(const TraceCall &call) {
  for (auto &[storage, state] : publishes_) {
    storages_[storage->traceId] = nullptr;
    storage->traceId = -1;
  }
  for (size_t i = 0; i < call.kept.size(); ++i) {
    if (Storage *storage = storages_[call.kept[i]]) {
      storage->handle = call.results[i];
      storage->upload = at::Tensor();
      ++counters_.live_handles;
    } else {
      // It died while the reply was on its way.
      releases_.push_back(call.results[i]);
    }
  }
  for (Storage *storage : storages_) {
    if (storage) {
      storage->traceId = -1;
    }
  }
  publishes_.clear();
  reset();
}

void Session::flush() {
  SessionLock lock(mutex_);
  if (closed_ || !pending()) {
    changes_.clear();
    return;
  }
  if (!client_) {
    raise(ErrorKind::Error, "an offline device only records: use sojourn.compile, or connect to an owner");
  }
  mark_ = {};
  TraceCall call;
  try {
    call = finish();
    send(call);
  } catch (...) {
    rollback(kFailed);
    reset();
    throw;
  }
  ++counters_.steps;
  commit(call);
}

TraceCall Session::finishOffline() {
  SessionLock lock(mutex_);
  mark_ = {};
  try {
    std::vector<Origin> slotOrigins = originsOfSlots(trace_);
    TraceCall call = finish();
    call.slotOrigins = std::move(slotOrigins);
    call.releases = std::move(releases_);
    releases_.clear();
    commit(call);
    return call;
  } catch (...) {
    rollback(kFailed);
    reset();
    throw;
  }
}

bool Session::pending() {
  SessionLock lock(mutex_);
  return !trace_.words.empty() || !publishes_.empty() ||
         std::any_of(storages_.begin(), storages_.end(), [](Storage *s) { return s && !s->handle; });
}

std::shared_ptr<PublishedState> Session::publish(const at::Tensor &copy) {
  SessionLock lock(mutex_);
  const auto &storage = remoteImpl(copy)->remoteStorage();
  idInTrace(*storage);
  auto state = std::make_shared<PublishedState>();
  publishes_.emplace_back(storage, state);
  return state;
}

} // namespace sojourn::frontend
