// SPDX-License-Identifier: Apache-2.0
// The other owners that an owner knows, and the ways to them.
#ifndef SOJOURN_OWNER_PEERS_PEERS_H
#define SOJOURN_OWNER_PEERS_PEERS_H

#include "owner/peers/Group.h"
#include "owner/peers/PeerRecord.h"
#include "runtime/signing/SigningKey.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::owner {

/// Steps that committed with bytes of a first member in the place of this owner's, and these.
struct TakenOver {
  uint64_t steps = 0, bytes = 0;
};

struct LinkFigures {
  size_t registered = 0, linked = 0;
  uint64_t bytesSent = 0, bytesReceived = 0; ///< over the links that there are
  size_t waitingBytes = 0;                   ///< of terms that came early
};

/// The ways to owners of other processes (../links/PeerLinks.h). Thread-safe.
class PeerRoutes {
public:
  virtual ~PeerRoutes() = default;
  /// Waits for a link, some seconds. RequestErrors: the owner is not registered (Refused), or there is no link (Peer).
  virtual llvm::Error await(const signing::PublicKey &member) = 0;
  virtual bool isLinked(const signing::PublicKey &member) = 0;
  virtual void send(const signing::PublicKey &to, const GroupId &group, const PeerFrame &frame) noexcept = 0;
  /// GroupPort::receive
  virtual bool receive(const signing::PublicKey &, std::chrono::milliseconds) { return false; }
  virtual LinkFigures figures() = 0;
};

/// Of one owner. Thread-safe; its lock is held while no other one is taken. Owners of one process reach each other by
/// calls, others by routes.
class Peers final : public GroupPort, public std::enable_shared_from_this<Peers> {
public:
  /// `isNeighbour`: the neighbours of this process know it, and it knows them.
  static std::shared_ptr<Peers> open(const signing::PublicKey &own, bool isNeighbour);
  ~Peers() override;
  Peers(const Peers &) = delete;
  Peers &operator=(const Peers &) = delete;

  /// Enters this owner's side of a group, whose member number `role` it is. RequestErrors: it knows no owners, is not
  /// that member, does not know one or has no link with it, is in the group, or has left it.
  /// `account`: of its client.
  llvm::Expected<std::shared_ptr<Group>> join(const GroupId &id, unsigned role,
                                              llvm::ArrayRef<signing::PublicKey> members,
                                              const std::string &account = kLocalClient);
  void send(const signing::PublicKey &to, const GroupId &group, const PeerFrame &frame) const override;
  bool receive(const signing::PublicKey &from, std::chrono::milliseconds most) const override;
  void tookOver(uint64_t bytes) const noexcept override;
  /// From another owner. Frames for groups that this one has not joined are dropped.
  void take(const signing::PublicKey &from, const GroupId &group, const PeerFrame &frame);
  /// Null: none from now on.
  void attach(std::shared_ptr<PeerRoutes> routes);
  /// The link with an owner has ended, and with it the groups that it is in.
  void lose(const signing::PublicKey &member) noexcept;
  /// A group for which bytes wait; null where frames of this owner for it are of no use.
  std::shared_ptr<const Group> waitingOf(const signing::PublicKey &from, const GroupId &group);
  struct Counts {
    size_t groups = 0, waiting = 0; ///< groups that it is in, and those with a step that waits for others
    std::optional<LinkFigures> links;
    TakenOver takenOver; ///< since the start
  };
  Counts counts();

private:
  std::shared_ptr<Group> find(const GroupId &id);
  std::shared_ptr<WaitingBytes> waitingOfClient(const std::string &account);
  std::vector<std::shared_ptr<Group>> all();
  std::shared_ptr<PeerRoutes> routesOf() const;
  llvm::Error reach(const signing::PublicKey &member, PeerRoutes *routes) const;

  Peers(const signing::PublicKey &own, bool isNeighbour) : own(own), isNeighbour(isNeighbour) {}

  const signing::PublicKey own;
  const bool isNeighbour;
  mutable std::mutex mutex;
  std::map<GroupId, std::weak_ptr<Group>> groups;             ///< also those that it has left last
  std::deque<GroupId> order;                                  ///< of joining
  std::map<std::string, std::weak_ptr<WaitingBytes>> waiting; ///< by account
  mutable std::atomic<uint64_t> stepsTaken = 0, bytesTaken = 0;
  std::shared_ptr<PeerRoutes> routes;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PEERS_PEERS_H
