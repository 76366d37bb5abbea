// SPDX-License-Identifier: Apache-2.0
// What a failing step takes back: the trace to its mark, tensor objects to their form.
#include "frontend/Session.h"

namespace sojourn::frontend {

void Session::mark() {
  SessionLock lock(mutex_);
  mark_ = {trace_.inputs.size(), trace_.words.size(), trace_.slots.size(), trace_.seeds.size(), trace_.origins.size(),
           publishes_.size(),    changes_.size(),     trace_.storageCount, tables_.mark()};
}

void Session::willChange(RemoteTensorImpl &tensor, bool storageToo) {
  SessionLock lock(mutex_);
  auto self = c10::intrusive_ptr<RemoteTensorImpl>::unsafe_reclaim_from_nonowning(&tensor);
  changes_.push_back({c10::weak_intrusive_ptr<RemoteTensorImpl>(self), tensor.snapshot(storageToo)});
}

void Session::undoChanges(size_t from) {
  for (size_t i = changes_.size(); i-- > from;) {
    if (auto tensor = changes_[i].tensor.lock()) {
      tensor->restore(*changes_[i].before);
    }
  }
  changes_.erase(changes_.begin() + static_cast<std::ptrdiff_t>(from), changes_.end());
}

/// A storage that only an undo would bring back is no result of the step.
void Session::forgetReplaced() {
  for (Change &change : changes_) {
    const auto &storage = change.before->remoteStorage();
    if (storage && storage.use_count() == 1 && !storage->handle && !storage->upload.defined() &&
        storage->traceId >= 0) {
      storages_[storage->traceId] = nullptr;
      storage->traceId = -1;
      storage->lost = kFailed;
    }
  }
}

void Session::rollback(const char *reason) {
  SessionLock lock(mutex_);
  if (trace_.storageCount > mark_.storages || trace_.words.size() > mark_.words) {
    ++counters_.steps_dropped;
  }
  for (size_t id = mark_.storages; id < storages_.size(); ++id) {
    if (Storage *storage = storages_[id]) {
      storage->traceId = -1;
      // Handles return to their committed version, uploads to what was uploaded.
      if (!storage->handle && !storage->upload.defined()) {
        storage->lost = reason;
      }
    }
  }
  undoChanges(mark_.changes);
  storages_.resize(mark_.storages);
  while (!inputIds_.empty() && inputIds_.back() >= mark_.storages) {
    inputIds_.pop_back();
  }
  trace_.inputs.resize(mark_.inputs);
  size_t states = 0, uploads = 0;
  for (size_t at = 0; at < trace_.inputs.size(); at += 4 + 2 * trace_.inputs[at + 3]) {
    ++(trace_.inputs[at + 1] == static_cast<Word>(InputKind::State) ? states : uploads);
  }
  stateHandles_.resize(states);
  uploads_.resize(uploads);
  uploadInputs_.resize(uploads);
  trace_.words.resize(mark_.words);
  tables_.cut(mark_.tables, mark_.storages, trace_.tables);
  trace_.slots.resize(mark_.slots);
  trace_.slotOps.resize(mark_.slots);
  trace_.seeds.resize(mark_.seeds);
  trace_.origins.resize(mark_.origins);
  trace_.storageCount = mark_.storages;
  auto dropped = std::vector(std::make_move_iterator(publishes_.begin() + mark_.publishes),
                             std::make_move_iterator(publishes_.end()));
  publishes_.resize(mark_.publishes);
  for (auto &[storage, state] : dropped) {
    state->failure = reason;
  }
}

} // namespace sojourn::frontend
