// SPDX-License-Identifier: Apache-2.0
// Small values move into packs, and back where a step needs them (Packed.h).
#include "frontend/session/Packed.h"

#include "frontend/recording/Record.h"
#include "frontend/session/Apart.h"
#include "frontend/session/Flights.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace sojourn::frontend {

namespace {

/// Of one value: a pack is never larger than a few megabytes.
constexpr int64_t kElementsMost = 256;

int64_t elementsOf(const Storage &storage) {
  int64_t count = 1;
  for (int64_t size : storage.sizes) {
    count *= size;
  }
  return count;
}

/// Whether this thread gathers.
thread_local bool isGathering = false;

struct Gatherer {
  Gatherer() { isGathering = true; }
  ~Gatherer() { isGathering = false; }
  Gatherer(const Gatherer &) = delete;
  Gatherer &operator=(const Gatherer &) = delete;
};

constexpr const char *kWereGathered =
    "it uses values that were only kept for long, which are together at the owner; the next call finds them apart";

} // namespace

/// Values computed from rows of private tables stay apart: what may become of one must not depend on others. Where few
/// values live, none is noted: most results of a step die with the next.
void Session::noteSmall(Storage &storage) {
  if (counters_.live_handles < gathering().from / 2) {
    return;
  }
  const int64_t count = elementsOf(storage);
  if (storage.isPack || storage.reads == TablesRead::Private || count == 0 || count > kElementsMost) {
    return;
  }
  small_.push_back(storage.weak());
}

std::vector<c10::intrusive_ptr<Storage>> Session::gatherable() {
  const Gathering when = gathering();
  std::vector<c10::intrusive_ptr<Storage>> dying; // outside of the lock
  SessionLock lock(mutex_);
  const bool isFull = counters_.live_handles >= when.from;
  if (counters_.live_handles >= 4 * when.from && !std::exchange(toldMany_, true)) {
    news_.add(std::vector<std::string>{
        "this script keeps " + std::to_string(counters_.live_handles) + " values at " + address() +
        ", and an owner holds a bounded number of values (131072 by default); large values, and values computed "
        "from private tables, are not gathered: delete tensors that are no longer needed"});
  }
  if (!isFull) { // many that have died since do not delay the next look
    nextLook_ = std::min(nextLook_, small_.size() + when.many);
  }
  if (closed_ || small_.size() < (isFull ? nextLook_ : nextPrune_)) {
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
                        !storage->readAgain && storage->reads != TablesRead::Private &&
                        storage->usedAt + when.age <= commits_;
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

void Session::moveInto(const c10::intrusive_ptr<Storage> &pack, const std::vector<c10::intrusive_ptr<Storage>> &values,
                       const std::vector<uint64_t> &writes) {
  SessionLock lock(mutex_);
  nextLook_ = 0; // there may be more
  for (size_t i = 0; i < values.size(); ++i) {
    Storage &value = *values[i];
    if (!pack->handle || !value.handle || !value.places.empty() || value.writes != writes[i] || value.lost) {
      continue;
    }
    value.pack = pack;
    value.packedAt = static_cast<int64_t>(i) * elementsOf(value);
    releases_.push_back(std::exchange(value.handle, 0));
    --counters_.live_handles;
  }
  std::erase_if(small_, [](const auto &weak) {
    const auto storage = weak.lock();
    return !storage || storage->isPacked();
  });
}

void Session::unpack(Recording &open, Storage &storage, const Origin &origin) {
  if (!storage.isPacked() || !storage.places.empty() || storage.lost) {
    return;
  }
  static const Word clone = OpTable::get().intern({"aten.clone", {"self", "memory_format"}, {false, false}});
  const int64_t pack = idOfPack(open, storage);
  TraceWriter write(*this, open);
  write.beginOp(clone, 2, origin);
  write.window(pack, storage.sizes, storage.strides, storage.packedAt);
  write.none();
  write.beginResults(1);
  write.resultInto(storage);
}

int64_t Session::idOfPack(Recording &open, Storage &packed) {
  const bool isWritten =
      std::any_of(packed.places.begin(), packed.places.end(), [](const auto &place) { return place.written; });
  if (isWritten || packed.lost) {
    idInTrace(open, packed); // says so
  }
  packed.usedAt = commits_;
  open.reads = std::max(open.reads, packed.reads);
  open.unrepeatable = kWereGathered;
  return idInTrace(open, *packed.pack);
}

void Session::gather() {
  if (isGathering || offline() || Steps::active() || isElsewhere()) {
    return;
  }
  const Gatherer gatherer;
  for (;;) {
    std::vector<c10::intrusive_ptr<Storage>> values = gatherable();
    if (values.empty()) {
      return;
    }
    const Apart apart(shared_from_this());
    std::vector<uint64_t> writes;
    c10::intrusive_ptr<Storage> pack;
    {
      SessionLock lock(mutex_);
      // Other threads may have used some since.
      std::erase_if(values, [](const auto &value) { return !value->handle || !value->places.empty(); });
      if (closed_ || values.empty()) {
        return;
      }
      at::AutoDispatchBelowADInplaceOrView below;
      const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset |
                                                     c10::DispatchKeySet(c10::DispatchKey::Python));
      recording().isAside = true;
      std::vector<at::Tensor> flat;
      for (const auto &value : values) {
        writes.push_back(value->writes);
        flat.push_back(makeTensor(value).as_strided({elementsOf(*value)}, {1}, 0));
      }
      pack = remoteImpl(at::cat(flat))->remoteStorage();
      pack->isPack = true;
    }
    try {
      sendAll({shared_from_this()}, /*explicitStep=*/false);
    } catch (const HasErrorKind &raised) { // not an interrupt
      if (raised.kind() == ErrorKind::Error) {
        throw; // none of an owner's
      }
      return;
    }
    moveInto(pack, values, writes);
  }
}

} // namespace sojourn::frontend
