// SPDX-License-Identifier: Apache-2.0
#include "frontend/session/KeptValues.h"

#include "frontend/recording/Packed.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace sojourn::frontend {

/// Of one value: a pack is never larger than a few megabytes.
constexpr int64_t kElementsMost = 256;

int64_t elementsOf(const Storage &storage) {
  int64_t count = 1;
  for (int64_t size : storage.sizes) {
    count *= size;
  }
  return count;
}

void KeptValues::note(Storage &storage) {
  if (device_.handles().live() < gathering().from / 2) {
    return;
  }
  const int64_t count = elementsOf(storage);
  if (storage.place != 0) {
    return; // rows of several owners, or a value of one
  }
  if (storage.isPack || storage.reads == TablesRead::Private || count == 0 || count > kElementsMost) {
    return;
  }
  small_.push_back(storage.weak());
}

std::vector<c10::intrusive_ptr<Storage>> KeptValues::gatherable() {
  const Gathering when = gathering();
  std::vector<c10::intrusive_ptr<Storage>> dying; // outside of the lock
  DeviceLock lock(device_.mutex());
  const uint64_t live = device_.handles().live();
  const bool isFull = live >= when.from;
  if (live >= 4 * when.from && !std::exchange(toldMany_, true)) {
    news_.add(std::vector<std::string>{
        "this script keeps " + std::to_string(live) + " values at " + device_.address() +
        ", and an owner holds a bounded number of values (131072 by default); large values, and values computed "
        "from private tables, are not gathered: delete tensors that are no longer needed"});
  }
  if (!isFull) { // many that have died since do not delay the next look
    nextLook_ = std::min(nextLook_, small_.size() + when.many);
  }
  if (device_.isClosed() || small_.size() < (isFull ? nextLook_ : nextPrune_)) {
    return {};
  }
  std::erase_if(small_, [](const auto &weak) { return weak.expired(); });
  nextLook_ = small_.size() + when.many;
  nextPrune_ = 2 * small_.size() + when.many;
  if (!isFull) {
    return {};
  }
  using Kind = std::tuple<at::ScalarType, int64_t, TablesRead>;
  std::map<Kind, std::vector<c10::intrusive_ptr<Storage>>> kinds;
  for (const auto &weak : small_) {
    auto storage = weak.lock();
    if (!storage) {
      continue;
    }
    const bool isKept = storage->handle && !storage->isPacked() && storage->places.empty() && !storage->lost &&
                        !storage->readAgain && !storage->isNamed && storage->reads != TablesRead::Private &&
                        storage->usedAt + when.age <= device_.commits();
    auto &alike = kinds[{storage->dtype, elementsOf(*storage), storage->reads}];
    if (isKept && alike.size() < when.many) {
      alike.push_back(std::move(storage));
    } else {
      dying.push_back(std::move(storage));
    }
  }
  for (auto &[kind, alike] : kinds) {
    if (alike.size() == when.many) {
      return std::move(alike);
    }
    dying.insert(dying.end(), std::make_move_iterator(alike.begin()), std::make_move_iterator(alike.end()));
  }
  return {};
}

void KeptValues::moveInto(const c10::intrusive_ptr<Storage> &pack,
                          const std::vector<c10::intrusive_ptr<Storage>> &values, const std::vector<uint64_t> &writes) {
  DeviceLock lock(device_.mutex());
  nextLook_ = 0; // there may be more
  for (size_t i = 0; i < values.size(); ++i) {
    Storage &value = *values[i];
    if (!pack->handle || !value.handle || !value.places.empty() || value.writes != writes[i] || value.lost) {
      continue;
    }
    value.pack = pack;
    value.packedAt = static_cast<int64_t>(i) * elementsOf(value);
    device_.handles().release(std::exchange(value.handle, 0));
  }
  std::erase_if(small_, [](const auto &weak) {
    const auto storage = weak.lock();
    return !storage || storage->isPacked();
  });
}

} // namespace sojourn::frontend
