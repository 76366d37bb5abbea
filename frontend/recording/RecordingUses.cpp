// SPDX-License-Identifier: Apache-2.0
// How storages enter an open trace: as inputs, as targets of writes, as results.
#include "frontend/recording/Recording.h"

#include "dialect/Signature.h"
#include "frontend/Error.h"
#include "frontend/Raise.h"
#include "frontend/recording/RemoteDevice.h"
#include "frontend/recording/TraceWriter.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <utility>

namespace sojourn::frontend {

void Recording::raiseUnsent(bool written) const {
  raise(ErrorKind::Error,
        std::string(written ? "another thread has written to this tensor" : "another thread has computed this tensor") +
            " at " + device_.address() +
            " and has not sent it yet; end the step in that thread, or call sojourn.flush() there, before this thread "
            "uses it");
}

int64_t Recording::idOf(Storage &storage) {
  if (Storage::Place *place = storage.placeIn(*this)) {
    return place->id;
  }
  if (storage.readAgain && storage.handle) {
    if (std::optional<int64_t> read = tables.find(TableRecords::again(storage.serial))) {
      return *read;
    }
  }
  if (storage.lost) {
    raise(ErrorKind::Error, "this tensor has no value: " + *storage.lost +
                                "; recompute it (tensors made before the step keep their committed values)");
  }
  device_.requireOpen();
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
  const InputKind kind = storage.handle ? InputKind::State : InputKind::Upload;
  storage.usedAt = device_.commits();
  reads = std::max(reads, storage.reads);
  const int64_t id = enter(storage);
  auto &inputs = trace.inputs;
  inputs.insert(inputs.end(), {id, inputWord(kind, storage.handle ? storage.place : 0),
                               static_cast<Word>(elementOf(storage.dtype)), static_cast<Word>(storage.sizes.size())});
  inputs.insert(inputs.end(), storage.sizes.begin(), storage.sizes.end());
  inputs.insert(inputs.end(), storage.strides.begin(), storage.strides.end());
  if (kind == InputKind::State) {
    stateHandles.push_back(storage.handle);
  } else {
    uploads.push_back(storage.upload);
    uploadInputs.push_back(storage.input);
  }
  return id;
}

int64_t Recording::idOfPack(Storage &packed) {
  const bool isWritten =
      std::any_of(packed.places.begin(), packed.places.end(), [](const auto &place) { return place.written; });
  if (isWritten || packed.lost) {
    idOf(packed); // says so
  }
  packed.usedAt = device_.commits();
  reads = std::max(reads, packed.reads);
  unrepeatable = "it uses values that were only kept for long, which are together at the owner; the next call finds "
                 "them apart";
  return idOf(*packed.pack);
}

void Recording::unpack(Storage &storage, const Origin &origin) {
  if (!storage.isPacked() || !storage.places.empty() || storage.lost) {
    return;
  }
  static const Word clone = OpTable::get().intern({"aten.clone", {"self", "memory_format"}, {false, false}});
  const int64_t pack = idOfPack(storage);
  TraceWriter write(*this);
  write.beginOp(clone, 2, origin);
  write.window(pack, storage.sizes, storage.strides, storage.packedAt);
  write.none();
  write.beginResults(1);
  write.resultInto(storage);
}

void Recording::readAgain(Storage &storage, const Origin &origin) {
  if (!storage.readAgain || !storage.handle || storage.placeIn(*this)) {
    return;
  }
  std::vector<Word> request = TableRecords::again(storage.serial);
  if (tables.find(request)) {
    return;
  }
  tables.remember(std::move(request), storage.readAgain(origin));
  unrepeatable = // whatever else is in the way
      "it uses columns of a private table that an earlier step has read, and each step reads them anew; "
      "read them outside for each call (table[...]) and pass them";
}

void Recording::willWrite(Storage &storage) {
  {
    // The value at the owner is written to, not what was read anew; a step that is dropped leaves a column.
    auto column = std::exchange(storage.readAgain, nullptr);
    auto restored = c10::make_scope_exit([&] { storage.readAgain = std::move(column); });
    idOf(storage);
  }
  ++storage.writes;
  storage.seen.clear();
  for (Storage::Place &place : storage.places) {
    if (place.recording != this && !place.recording->isAside) {
      raise(ErrorKind::Error, "this thread would write to a tensor at " + device_.address() +
                                  " that another thread has used and not sent yet; end the step in that thread, or "
                                  "call sojourn.flush() there, before this thread writes");
    }
    place.written = place.written || place.recording == this;
  }
}

c10::intrusive_ptr<Storage> Recording::makeResult(const OutputMeta &meta) {
  auto storage = Storage::make(device_.shared_from_this(), meta.sizes, meta.strides, meta.dtype);
  enter(*storage);
  return storage;
}

int64_t Recording::makeHidden() {
  storages.push_back(nullptr);
  return trace.storageCount++;
}

} // namespace sojourn::frontend
