// SPDX-License-Identifier: Apache-2.0
// The other owners that an owner knows, and the ways to them.
#ifndef SOJOURN_OWNER_PEERS_PEERS_H
#define SOJOURN_OWNER_PEERS_PEERS_H

#include "owner/peers/Group.h"
#include "runtime/signing/SigningKey.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace sojourn::owner {

/// Of one owner. Thread-safe; its lock is held while no other one is taken. Peers of one process reach each other by
/// calls; there is no other way yet.
class Peers final : public GroupPort, public std::enable_shared_from_this<Peers> {
public:
  /// `isNeighbour`: the neighbours of this process know it, and it knows them. Otherwise it knows no owner.
  static std::shared_ptr<Peers> open(const signing::PublicKey &own, bool isNeighbour);
  ~Peers() override;
  Peers(const Peers &) = delete;
  Peers &operator=(const Peers &) = delete;

  /// Enters this owner's side of a group, whose member number `role` it is. RequestErrors: it knows no owners, is not
  /// that member, does not know one, is in the group already, or has left it while others are in it still.
  llvm::Expected<std::shared_ptr<Group>> join(const GroupId &id, unsigned role,
                                              llvm::ArrayRef<signing::PublicKey> members);
  void leave(const GroupId &id) override;
  void send(const signing::PublicKey &to, const GroupId &group, const PeerFrame &frame) const override;
  /// From another owner. Frames for groups that this one has not joined are dropped.
  void take(const signing::PublicKey &from, const GroupId &group, const PeerFrame &frame);

private:
  /// Whether this owner's side of the group has seen that the member has left it.
  bool hasSeenLeave(const GroupId &id, const signing::PublicKey &member);
  std::shared_ptr<Group> find(const GroupId &id);

  Peers(const signing::PublicKey &own, bool isNeighbour) : own(own), isNeighbour(isNeighbour) {}

  const signing::PublicKey own;
  const bool isNeighbour;
  std::mutex mutex;
  std::map<GroupId, std::weak_ptr<Group>> groups;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PEERS_PEERS_H
