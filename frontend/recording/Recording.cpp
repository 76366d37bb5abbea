// SPDX-License-Identifier: Apache-2.0
// What is open, and what a failing step takes back: the trace to its mark, tensor objects to their
// form, or one op with all that depends on it.
#include "frontend/recording/Recording.h"

#include "dialect/Signature.h"
#include "frontend/recording/Autograd.h"
#include "frontend/recording/Prune.h"

#include <algorithm>
#include <utility>

namespace sojourn::frontend {

bool Recording::empty() const {
  return !recipe && trace.words.empty() && publishes.empty() &&
         std::none_of(storages.begin(), storages.end(), [](Storage *s) { return s && !s->handle; });
}

void Recording::writeWords() {
  if (const auto known = std::exchange(recipe, nullptr)) {
    known->writeTo(trace, recipeIds);
  }
}

int64_t Recording::enter(Storage &storage) {
  int64_t id = trace.storageCount++;
  storages.push_back(&storage);
  storage.places.push_back({this, id, /*written=*/false});
  return id;
}

void Recording::willChange(RemoteTensorImpl &tensor, bool storageToo) {
  auto self = c10::intrusive_ptr<RemoteTensorImpl>::unsafe_reclaim_from_nonowning(&tensor);
  changes_.push_back({c10::weak_intrusive_ptr<RemoteTensorImpl>(self), tensor.snapshot(storageToo)});
}

void Recording::undoChanges(size_t from) {
  for (size_t i = changes_.size(); i-- > from;) {
    if (auto tensor = changes_[i].tensor.lock()) {
      tensor->restore(*changes_[i].before);
    }
  }
  // Of their final form: an accumulator that fits it stays.
  for (size_t i = from; i < changes_.size(); ++i) {
    if (auto tensor = changes_[i].tensor.lock()) {
      renewAccumulator(at::Tensor(std::move(tensor)));
    }
  }
  changes_.erase(changes_.begin() + static_cast<std::ptrdiff_t>(from), changes_.end());
}

namespace {

/// Takes a storage out of a trace.
void leave(Storage &storage, const Recording &recording) {
  auto here = [&](const Storage::Place &place) { return place.recording == &recording; };
  storage.places.erase(std::remove_if(storage.places.begin(), storage.places.end(), here), storage.places.end());
}

} // namespace

void Recording::lose(Storage &storage, const Reason &reason) {
  leave(storage, *this);
  storage.lost = reason;
}

void Recording::forgetReplaced(const Reason &reason) {
  for (Change &change : changes_) {
    const auto &storage = change.before->remoteStorage();
    if (storage && storage.use_count() == 1 && !storage->handle && !storage->upload.defined() && !storage->pack) {
      if (Storage::Place *place = storage->placeIn(*this)) {
        storages[place->id] = nullptr;
        lose(*storage, reason);
      }
    }
  }
}

bool Recording::hasChanged() const {
  return std::any_of(changes_.begin() + static_cast<std::ptrdiff_t>(mark_.changes), changes_.end(),
                     [](const Change &change) { return !change.tensor.expired(); });
}

void Recording::mark() {
  unrepeatable = nullptr;
  mark_ = {trace.mark(), publishes.size(), changes_.size(), tables.mark()};
}

void Recording::truncate(const Trace::Mark &mark) {
  for (size_t id = mark.storages; id < storages.size(); ++id) {
    if (storages[id]) {
      leave(*storages[id], *this);
    }
  }
  storages.resize(mark.storages);
  trace.truncate(mark);
  generators.resize(mark.seeds);
  size_t states = 0, uploadCount = 0;
  for (size_t at = 0; at < trace.inputs.size(); at += 4 + 2 * trace.inputs[at + 3]) {
    ++(inputKindOf(trace.inputs[at + 1]) == InputKind::State ? states : uploadCount);
  }
  stateHandles.resize(states);
  uploads.resize(uploadCount);
  uploadInputs.resize(uploadCount);
}

bool Recording::rollback(const Reason &reason) {
  bool dropped = recipe || trace.storageCount > mark_.trace.storages || trace.words.size() > mark_.trace.words;
  for (size_t id = mark_.trace.storages; id < storages.size(); ++id) {
    // Handles return to their committed version, uploads to what was uploaded, gathered values to their place.
    if (Storage *storage = storages[id]; storage && !storage->handle && !storage->upload.defined() && !storage->pack) {
      storage->lost = reason;
    }
  }
  recipe = nullptr; // what a step records ends with it
  undoChanges(mark_.changes);
  truncate(mark_.trace);
  tables.cut(mark_.tables, mark_.trace.storages, trace.tables);
  auto lost = std::vector(std::make_move_iterator(publishes.begin() + static_cast<std::ptrdiff_t>(mark_.publishes)),
                          std::make_move_iterator(publishes.end()));
  publishes.resize(mark_.publishes);
  for (auto &[storage, state] : lost) {
    state->fail(*reason);
  }
  return dropped;
}

namespace {

/// Where an input is described, and how many of its kind come before it.
std::pair<size_t, size_t> inputOf(const Trace &trace, int64_t id) {
  size_t at = 0, before[2] = {0, 0};
  auto isUpload = [&] { return inputKindOf(trace.inputs[at + 1]) == InputKind::Upload; };
  for (; trace.inputs[at] != id; at += 4 + 2 * static_cast<size_t>(trace.inputs[at + 3])) {
    ++before[isUpload() ? 1 : 0];
  }
  return {at, before[isUpload() ? 1 : 0]};
}

template <class List>
void eraseAt(List &list, size_t at) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
}

} // namespace

bool Recording::letGo(Storage &storage) {
  if (isUnderway) {
    return false; // its thread reads it, without the lock
  }
  writeWords();
  const Storage::Place *place = storage.placeIn(*this);
  auto isPublished = [&](auto &entry) { return entry.first.get() == &storage; };
  if (place->written || usedIds(trace)[static_cast<size_t>(place->id)] ||
      std::any_of(publishes.begin(), publishes.end(), isPublished)) {
    return false;
  }
  const int64_t id = place->id;
  leave(storage, *this);
  dropUpload(id);
  return true;
}

void Recording::dropUpload(int64_t id) {
  const size_t upload = inputOf(trace, id).second;
  eraseAt(uploads, upload);
  eraseAt(uploadInputs, upload);
  const size_t words = trace.inputs.size(), at = dropInput(trace, id);
  if (at < mark_.trace.inputs) {
    mark_.trace.inputs -= words - trace.inputs.size();
  }
  mark_.trace.storages -= id < mark_.trace.storages ? 1 : 0;
  eraseAt(storages, static_cast<size_t>(id));
  for (size_t later = static_cast<size_t>(id); later < storages.size(); ++later) {
    if (storages[later]) {
      --storages[later]->placeIn(*this)->id;
    }
  }
  tables.dropId(id);
}

void Recording::dropUnusedUploads() {
  writeWords();
  const std::vector<bool> used = usedIds(trace);
  std::vector<int64_t> dropped;
  for (size_t at = 0, upload = 0; at < trace.inputs.size(); at += 4 + 2 * static_cast<size_t>(trace.inputs[at + 3])) {
    if (inputKindOf(trace.inputs[at + 1]) != InputKind::Upload) {
      continue;
    }
    const auto id = static_cast<size_t>(trace.inputs[at]);
    if (uploadInputs[upload++] < 0 && !storages[id] && !used[id]) {
      dropped.push_back(trace.inputs[at]);
    }
  }
  // The last first: the ids after a dropped one decrease.
  std::sort(dropped.begin(), dropped.end(), std::greater<>());
  for (int64_t id : dropped) {
    dropUpload(id);
  }
}

void Recording::wasSent(int64_t id, uint64_t handle) {
  const auto [at, upload] = inputOf(trace, id);
  eraseAt(uploads, upload);
  eraseAt(uploadInputs, upload);
  Word &kind = trace.inputs[at + 1];
  kind = static_cast<Word>(InputKind::State);
  stateHandles.insert(stateHandles.begin() + static_cast<std::ptrdiff_t>(inputOf(trace, id).second), handle);
  if (id >= mark_.trace.storages) {
    unrepeatable =
        "another thread has used what it uploads, and has sent it first; upload what threads share before the "
        "call";
  }
}

void Recording::dropOp(size_t op, const Reason &reason) {
  mark_ = {};
  writeWords();
  PrunedTrace pruned = pruneTrace(trace, op);
  trace = std::move(pruned.trace);
  generators.resize(trace.seeds.size());
  tables.forgetValues();
  std::erase_if(publishes, [&](auto &entry) {
    Storage::Place *place = entry.first->placeIn(*this);
    bool lost = place && pruned.lost[place->id];
    if (lost) {
      entry.second->fail(*reason);
    }
    return lost;
  });
  std::vector<Storage *> before = std::move(storages);
  storages.assign(trace.storageCount, nullptr);
  for (size_t id = 0; id < before.size(); ++id) {
    Storage *storage = before[id];
    if (!storage) {
      continue;
    }
    if (pruned.lost[id]) {
      lose(*storage, reason);
    } else {
      storage->placeIn(*this)->id = pruned.newId[id];
      storages[pruned.newId[id]] = storage;
    }
  }
}

void Recording::failPublishes(const Reason &reason) {
  for (auto &[storage, state] : std::exchange(publishes, {})) {
    state->fail(*reason);
  }
}

void Recording::clear() {
  for (Storage *storage : storages) {
    if (storage) {
      leave(*storage, *this);
    }
  }
  changes_.clear();
  recipe = nullptr;
  storages.clear();
  stateHandles.clear();
  uploads.clear();
  uploadInputs.clear();
  generators.clear();
  stepped.clear();
  steps = 0;
  tables.clear();
  publishes.clear();
  trace.clear();
  hasEnded = false;
  unrepeatable = nullptr;
  wasRefused = false;
  reads = TablesRead::None;
  isAside = isUnderway = false;
  mark_ = {};
}

} // namespace sojourn::frontend
