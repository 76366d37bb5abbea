// SPDX-License-Identifier: Apache-2.0
// Tensors that a group and its members take over from each other: the value stays where it is, and gets a handle in the
// other session of its owner.
#include "frontend/flight/Borrow.h"

#include "frontend/flight/Flights.h"
#include "frontend/recording/Steps.h"
#include "frontend/session/Translated.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>

namespace sojourn::frontend {

/// The storage, once the owner has its value. `move`: what becomes of the tensor, for messages.
static c10::intrusive_ptr<Storage> sentStorage(const at::Tensor &tensor, const std::shared_ptr<Session> &from,
                                               const char *move) {
  const c10::intrusive_ptr<Storage> storage = remoteImpl(tensor)->remoteStorage();
  auto isSent = [&] {
    DeviceLock lock(from->mutex());
    const bool isWritten =
        std::any_of(storage->places.begin(), storage->places.end(), [](const auto &place) { return place.written; });
    if (storage->lost) {
      raise(ErrorKind::Error, "this tensor has no value: " + *storage->lost);
    }
    if (storage->readAgain) { // what is computed from them, the owner knows
      raise(ErrorKind::Refused, "the tensor is read from a private table of " + from->address() +
                                    ", and private tables do not take part in steps of several owners yet");
    }
    return storage->handle != 0 && !isWritten && !storage->isPacked();
  };
  if (isSent()) {
    return storage;
  }
  if (Steps::active()) {
    raise(ErrorKind::Error, "a tensor at " + from->address() + " " + move +
                                " before its value is computed; compute it in a step before this one, or on the "
                                "group's device");
  }
  at::Tensor kept = tensor;
  if (storage->isPacked()) {
    kept = tensor.clone(); // its value is among others
  }
  flush(from);
  if (kept.is_same(tensor) && !isSent()) {
    raise(ErrorKind::Error, "the value of a tensor at " + from->address() + " could not be sent to the owner");
  }
  return remoteImpl(kept)->remoteStorage();
}

/// The tensor on another storage, which has the value of the one that was sent.
static at::Tensor asShown(const at::Tensor &tensor, const c10::intrusive_ptr<Storage> &sent,
                          c10::intrusive_ptr<Storage> storage) {
  const RemoteTensorImpl *impl = remoteImpl(tensor);
  at::Tensor whole = makeTensor(std::move(storage));
  if (sent != impl->remoteStorage()) { // a dense copy
    return whole;
  }
  ViewMeta meta;
  meta.sizes.assign(impl->sizes().begin(), impl->sizes().end());
  meta.strides.assign(impl->strides().begin(), impl->strides().end());
  meta.offset = impl->storage_offset();
  meta.dtype = tensor.scalar_type();
  return makeView(whole, meta);
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
        storages.push_back(sentStorage(tensors[at], members[role], "joins a group"));
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
      found[own[each]] = asShown(tensor, storages[each], std::move(storage));
    }
  }
  return found;
}

/// A group's value that one member has, as one that all members have: it is sent to them, in two steps.
static at::Tensor toldToAll(const at::Tensor &tensor, const std::shared_ptr<Session> &group) {
  const at::AutoDispatchBelowADInplaceOrView below;
  at::Tensor all = at::zeros_like(tensor);
  flush(group);
  all.copy_(tensor);
  flush(group);
  return all;
}

at::Tensor lent(const at::Tensor &tensor, const std::shared_ptr<Session> &member) {
  const auto group = Session::of(tensor);
  const auto &members = group->members();
  const auto role = static_cast<unsigned>(std::find(members.begin(), members.end(), member) - members.begin());
  constexpr const char *kMove = "moves to one of its members";
  at::Tensor source = tensor;
  c10::intrusive_ptr<Storage> storage = sentStorage(source, group, kMove);
  const auto placeOf = [&] {
    DeviceLock lock(group->mutex());
    return PlaceTable::get().at(storage->place);
  };
  const wire::Place place = placeOf();
  if (place.kind == wire::Place::Kind::Parts) {
    raise(ErrorKind::Unsupported, "rows of several members of " + group->address() + " would move to " +
                                      member->address() +
                                      " as one tensor; sum over them first, or use the rows of one owner "
                                      "(owner.dataset)");
  }
  if (!place.isAt(role)) {
    if (Steps::active()) {
      raise(ErrorKind::Error, "a tensor at " + members[place.role]->address() + " moves to " + member->address() +
                                  " inside a step; move it before the step");
    }
    source = toldToAll(tensor, group);
    storage = sentStorage(source, group, kMove);
  }
  const uint64_t handle = [&] {
    DeviceLock lock(group->mutex());
    return storage->handle;
  }();
  uint64_t as = 0;
  {
    Turn turn(member->connection());
    member->sendHeld();
    member->requireOpen();
    as = member->handles().reserve();
    translated([&] { group->connection().lend(role, member->connection().client(), {handle}, {as}); });
  }
  DeviceLock lock(member->mutex());
  auto found = Storage::make(member, storage->sizes, storage->strides, storage->dtype);
  found->handle = as;
  found->reads = storage->reads;
  member->handles().add(1);
  return asShown(source, storage, std::move(found));
}

/// The open group of both owners with the fewest members, who see what moves; the last of several. Null: none.
static std::shared_ptr<Session> groupOf(const RemoteDevice &one, const RemoteDevice &other) {
  std::shared_ptr<Session> found;
  for (const auto &session : Session::all()) {
    if (session->hasMember(one) && session->hasMember(other) && !session->isClosed() &&
        (!found || session->members().size() <= found->members().size())) {
      found = session;
    }
  }
  return found;
}

at::Tensor moved(const at::Tensor &tensor, const std::shared_ptr<Session> &to) {
  const auto from = Session::of(tensor);
  if (to->hasMember(*from)) {
    return borrowed({tensor}, to).front();
  }
  if (from->hasMember(*to)) {
    return lent(tensor, to);
  }
  const auto group = groupOf(*from, *to);
  if (!group) {
    return {};
  }
  if (Steps::active()) {
    raise(ErrorKind::Error,
          "a tensor at " + from->address() + " moves to " + to->address() + " inside a step; move it before the step");
  }
  return lent(borrowed({tensor}, group).front(), to);
}

} // namespace sojourn::frontend
