// SPDX-License-Identifier: Apache-2.0
// Peers of one process, by their keys (see Peers.h).
#include "owner/peers/Peers.h"

#include "owner/RequestError.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

namespace sojourn::owner {

using llvm::Twine;

namespace {

/// Owners of this process. Of two with one key (two objects over one store) the one that came last counts.
struct Neighbours {
  std::mutex mutex;
  std::map<signing::PublicKey, std::weak_ptr<Peers>> owners;
  static Neighbours &get() {
    static auto *neighbours = new Neighbours; // owners may end after static objects
    return *neighbours;
  }
  std::shared_ptr<Peers> find(const signing::PublicKey &key) {
    std::lock_guard lock(mutex);
    auto found = owners.find(key);
    return found == owners.end() ? nullptr : found->second.lock();
  }
};

} // namespace

std::shared_ptr<Peers> Peers::open(const signing::PublicKey &own, bool isNeighbour) {
  std::shared_ptr<Peers> peers(new Peers(own, isNeighbour));
  if (isNeighbour) {
    Neighbours &all = Neighbours::get();
    std::lock_guard lock(all.mutex);
    all.owners[own] = peers;
  }
  return peers;
}

Peers::~Peers() {
  if (isNeighbour) {
    Neighbours &all = Neighbours::get();
    std::lock_guard lock(all.mutex);
    if (auto found = all.owners.find(own); found != all.owners.end() && found->second.expired()) {
      all.owners.erase(found);
    }
  }
}

llvm::Expected<std::shared_ptr<Group>> Peers::join(const GroupId &id, unsigned role,
                                                   llvm::ArrayRef<signing::PublicKey> members) {
  if (!isNeighbour) {
    return requestError(wire::ErrorCode_Unsupported,
                        "this owner takes part in no groups: it knows no other owners; owners of one process "
                        "(sojourn.local) know each other");
  }
  if (role >= members.size() || members[role] != own) {
    return requestError(wire::ErrorCode_Malformed, "member " + Twine(role) +
                                                       " of the group has another key than this owner, " +
                                                       signing::shortKeyText(own));
  }
  for (const signing::PublicKey &member : members) {
    if (llvm::count(members, member) > 1) {
      return requestError(wire::ErrorCode_Malformed, "the owner with key " + signing::shortKeyText(member) +
                                                         " is in the group more than once; name each owner once");
    }
    if (member != own && !Neighbours::get().find(member)) {
      return requestError(wire::ErrorCode_Refused, "the owner with key " + signing::shortKeyText(own) +
                                                       " does not know the owner with key " +
                                                       signing::shortKeyText(member) +
                                                       "; owners of one process (sojourn.local) know each other");
    }
  }
  {
    std::lock_guard lock(mutex);
    if (!groups.try_emplace(id).second) { // until the others have been told of its end
      return requestError(wire::ErrorCode_Refused, "this owner is in the group already, in another session");
    }
  }
  llvm::scope_exit undo([&] { leave(id); });
  for (const signing::PublicKey &member : members) {
    const std::shared_ptr<Peers> peer = member == own ? nullptr : Neighbours::get().find(member);
    if (peer && peer->hasSeenLeave(id, own)) { // its frames of then may wait
      return requestError(wire::ErrorCode_Refused, "this owner has left the group, and others are in it still; make "
                                                   "another group");
    }
  }
  auto group = std::make_shared<Group>(shared_from_this(), id, role, members.vec());
  undo.release();
  std::lock_guard lock(mutex);
  groups[id] = group;
  return group;
}

bool Peers::hasSeenLeave(const GroupId &id, const signing::PublicKey &member) {
  const std::shared_ptr<Group> group = find(id);
  return group && group->hasLeft(member);
}

std::shared_ptr<Group> Peers::find(const GroupId &id) {
  std::lock_guard lock(mutex);
  auto found = groups.find(id);
  return found == groups.end() ? nullptr : found->second.lock();
}

void Peers::leave(const GroupId &id) {
  std::lock_guard lock(mutex);
  if (auto found = groups.find(id); found != groups.end() && found->second.expired()) {
    groups.erase(found);
  }
}

void Peers::send(const signing::PublicKey &to, const GroupId &group, const PeerFrame &frame) const {
  if (const std::shared_ptr<Peers> peer = Neighbours::get().find(to)) {
    peer->take(own, group, frame);
  }
}

void Peers::take(const signing::PublicKey &from, const GroupId &id, const PeerFrame &frame) {
  if (const std::shared_ptr<Group> group = find(id)) {
    group->take(from, frame);
  }
}

} // namespace sojourn::owner
