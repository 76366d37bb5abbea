// SPDX-License-Identifier: Apache-2.0
// A member's tensors as tensors of its group: the value stays where it is, and gets a handle in the group's session.
#include "frontend/flight/Borrow.h"

#include "frontend/flight/Flights.h"
#include "frontend/recording/Steps.h"
#include "frontend/session/Translated.h"

#include <algorithm>
#include <iterator>

namespace sojourn::frontend {

/// The storage, once the owner has its value.
static c10::intrusive_ptr<Storage> sentStorage(const at::Tensor &tensor, const std::shared_ptr<Session> &member) {
  const c10::intrusive_ptr<Storage> storage = remoteImpl(tensor)->remoteStorage();
  auto isSent = [&] {
    DeviceLock lock(member->mutex());
    const bool isWritten =
        std::any_of(storage->places.begin(), storage->places.end(), [](const auto &place) { return place.written; });
    if (storage->lost) {
      raise(ErrorKind::Error, "this tensor has no value: " + *storage->lost);
    }
    if (storage->readAgain) { // what is computed from them, the owner knows
      raise(ErrorKind::Refused, "the tensor is read from a private table of " + member->address() +
                                    ", and private tables do not take part in steps of several owners yet");
    }
    return storage->handle != 0 && !isWritten && !storage->isPacked();
  };
  if (isSent()) {
    return storage;
  }
  if (Steps::active()) {
    raise(ErrorKind::Error, "a tensor at " + member->address() +
                                " joins a group before its value is computed; compute it in a step before this one, or "
                                "on the group's device");
  }
  at::Tensor kept = tensor;
  if (storage->isPacked()) {
    kept = tensor.clone(); // its value is among others
  }
  flush(member);
  if (kept.is_same(tensor) && !isSent()) {
    raise(ErrorKind::Error, "the value of a tensor at " + member->address() + " could not be sent to the owner");
  }
  return remoteImpl(kept)->remoteStorage();
}

std::vector<at::Tensor> borrowed(const std::vector<at::Tensor> &tensors, const std::shared_ptr<Session> &group) {
  const auto &members = group->members();
  std::vector<at::Tensor> found(tensors.size());
  for (unsigned role = 0; role < members.size(); ++role) {
    std::vector<size_t> own;
    std::vector<c10::intrusive_ptr<Storage>> storages;
    std::vector<uint64_t> handles;
    for (size_t at = 0; at < tensors.size(); ++at) {
      if (Session::of(tensors[at]) == members[role]) {
        own.push_back(at);
        storages.push_back(sentStorage(tensors[at], members[role]));
      }
    }
    if (own.empty()) {
      continue;
    }
    {
      DeviceLock lock(members[role]->mutex());
      for (const auto &storage : storages) {
        handles.push_back(storage->handle);
      }
    }
    std::vector<uint64_t> as;
    {
      Turn turn(group->connection());
      group->sendHeld();
      group->requireOpen();
      std::generate_n(std::back_inserter(as), handles.size(), [&] { return group->handles().reserve(); });
      translated([&] { group->connection().borrow(role, members[role]->connection().client(), handles, as); });
    }
    wire::Place place;
    place.kind = wire::Place::Kind::At;
    place.role = role;
    DeviceLock lock(group->mutex());
    for (size_t each = 0; each < own.size(); ++each) {
      const at::Tensor &tensor = tensors[own[each]];
      const Storage &from = *storages[each];
      auto storage = Storage::make(group, from.sizes, from.strides, from.dtype);
      storage->handle = as[each];
      storage->place = PlaceTable::get().intern(place);
      storage->reads = from.reads;
      group->handles().add(1);
      const RemoteTensorImpl *impl = remoteImpl(tensor);
      found[own[each]] = makeTensor(std::move(storage));
      if (storages[each] == impl->remoteStorage()) { // else it is a dense copy
        ViewMeta meta;
        meta.sizes.assign(impl->sizes().begin(), impl->sizes().end());
        meta.strides.assign(impl->strides().begin(), impl->strides().end());
        meta.offset = impl->storage_offset();
        meta.dtype = tensor.scalar_type();
        found[own[each]] = makeView(found[own[each]], meta);
      }
    }
  }
  return found;
}

} // namespace sojourn::frontend
