// SPDX-License-Identifier: Apache-2.0
// Owners of one process, by their keys, and the groups of one owner (see Peers.h).
#include "owner/peers/Peers.h"

#include "owner/RequestError.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

namespace sojourn::owner {

using llvm::Twine;

/// Groups that an owner knows, with those that it has left and does not join again: frames of then may be on their way.
static constexpr size_t kGroupsKept = 4'096;

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

std::shared_ptr<PeerRoutes> Peers::routesOf() const {
  std::lock_guard lock(mutex);
  return routes;
}

void Peers::attach(std::shared_ptr<PeerRoutes> given) {
  std::lock_guard lock(mutex);
  routes = std::move(given);
}

/// RequestErrors: there is no way to another owner.
llvm::Error Peers::reach(const signing::PublicKey &member, PeerRoutes *routes) const {
  if (isNeighbour && Neighbours::get().find(member)) {
    return llvm::Error::success();
  }
  if (routes) {
    return routes->await(member);
  }
  return requestError(wire::ErrorCode_Refused,
                      "the owner with key " + signing::shortKeyText(own) + " does not know the owner with key " +
                          signing::shortKeyText(member) +
                          "; owners of one process (sojourn.local) know each other, and served owners those that "
                          "their data owners have registered (sojourn-owner peer add)");
}

llvm::Expected<std::shared_ptr<Group>>
Peers::join(const GroupId &id, unsigned role, llvm::ArrayRef<signing::PublicKey> members, const std::string &account) {
  const std::shared_ptr<PeerRoutes> routes = routesOf();
  if (!isNeighbour && !routes) {
    return requestError(wire::ErrorCode_Unsupported,
                        "the owner with key " + signing::shortKeyText(own) +
                            " takes part in no groups: its server has no address for other owners; its data owner "
                            "starts it with sojourn-owner serve --peers ADDRESS");
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
    if (member != own) {
      if (llvm::Error error = reach(member, routes.get())) {
        return error;
      }
    }
  }
  auto group = std::make_shared<Group>(shared_from_this(), id, role, members.vec(), waitingOfClient(account));
  {
    std::lock_guard lock(mutex);
    if (groups.count(id)) {
      group->forget();
      return requestError(wire::ErrorCode_Refused, "this owner is in the group already, in another session, or has "
                                                   "left it; make another group");
    }
    order.push_back(id);
    groups[id] = group;
    for (size_t looked = order.size(); groups.size() > kGroupsKept && looked > 0; --looked) {
      if (groups[order.front()].expired()) {
        groups.erase(order.front());
      } else {
        order.push_back(order.front());
      }
      order.pop_front();
    }
  }
  for (const signing::PublicKey &member : members) { // a link may have ended before the group was there
    if (member != own && !(isNeighbour && Neighbours::get().find(member)) && !(routes && routes->isLinked(member))) {
      group->lose(member);
    }
  }
  return group;
}

std::shared_ptr<Group> Peers::find(const GroupId &id) {
  std::lock_guard lock(mutex);
  auto found = groups.find(id);
  return found == groups.end() ? nullptr : found->second.lock();
}

std::vector<std::shared_ptr<Group>> Peers::all() {
  std::vector<std::shared_ptr<Group>> found;
  std::lock_guard lock(mutex);
  for (const auto &[id, group] : groups) {
    if (auto there = group.lock()) {
      found.push_back(std::move(there));
    }
  }
  return found;
}

void Peers::lose(const signing::PublicKey &member) noexcept {
  // Without memory, and without the lock while a group may go.
  std::optional<GroupId> last;
  for (;;) {
    std::shared_ptr<Group> group;
    {
      std::lock_guard lock(mutex);
      auto next = last ? groups.upper_bound(*last) : groups.begin();
      while (next != groups.end() && !(group = next->second.lock())) {
        ++next;
      }
      if (!group) {
        return;
      }
      last = next->first;
    }
    group->lose(member);
  }
}

std::shared_ptr<const Group> Peers::waitingOf(const signing::PublicKey &from, const GroupId &group) {
  std::shared_ptr<Group> found = find(group);
  return found && found->hasMember(from) ? found : nullptr;
}

/// One count for all groups of an account, as long as there are any.
std::shared_ptr<WaitingBytes> Peers::waitingOfClient(const std::string &account) {
  std::lock_guard lock(mutex);
  std::erase_if(waiting, [](const auto &each) { return each.second.expired(); });
  std::weak_ptr<WaitingBytes> &known = waiting[account];
  std::shared_ptr<WaitingBytes> found = known.lock();
  if (!found) {
    found = std::make_shared<WaitingBytes>(account);
    known = found;
  }
  return found;
}

void Peers::tookOver(uint64_t bytes) const noexcept {
  ++stepsTaken;
  bytesTaken += bytes;
}

Peers::Counts Peers::counts() {
  Counts counts;
  for (const std::shared_ptr<Group> &group : all()) {
    ++counts.groups;
    counts.waiting += group->isWaiting() ? 1 : 0;
  }
  counts.takenOver = {stepsTaken, bytesTaken};
  if (const std::shared_ptr<PeerRoutes> there = routesOf()) {
    counts.links = there->figures();
  }
  return counts;
}

void Peers::send(const signing::PublicKey &to, const GroupId &group, const PeerFrame &frame) const {
  if (const std::shared_ptr<Peers> peer = isNeighbour ? Neighbours::get().find(to) : nullptr) {
    peer->take(own, group, frame);
  } else if (const std::shared_ptr<PeerRoutes> there = routesOf()) {
    there->send(to, group, frame);
  }
}

bool Peers::receive(const signing::PublicKey &from, std::chrono::milliseconds most) const {
  if (isNeighbour && Neighbours::get().find(from)) {
    return false;
  }
  const std::shared_ptr<PeerRoutes> there = routesOf();
  return there && there->receive(from, most);
}

void Peers::take(const signing::PublicKey &from, const GroupId &id, const PeerFrame &frame) {
  if (const std::shared_ptr<Group> group = find(id)) {
    group->take(from, frame);
  }
}

} // namespace sojourn::owner
