// SPDX-License-Identifier: Apache-2.0
// One owner's side of a group: frames that the other members have sent, and the wait for them.
#ifndef SOJOURN_OWNER_PEERS_GROUP_H
#define SOJOURN_OWNER_PEERS_GROUP_H

#include "dialect/Bounds.h"
#include "owner/Peer.h"
#include "owner/peers/Frame.h"
#include "owner/peers/Masks.h"
#include "runtime/Stop.h"
#include "runtime/signing/SigningKey.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sojourn::owner {

/// The ways to the other members.
class GroupPort {
public:
  virtual ~GroupPort() = default;
  /// To the side of a group at another owner; lost where that owner or its side is gone.
  virtual void send(const signing::PublicKey &to, const GroupId &group, const PeerFrame &frame) const = 0;
  /// Reads frames of another owner on this thread, until one has come or some time is over. False where another thread
  /// reads them.
  virtual bool receive(const signing::PublicKey &, std::chrono::milliseconds) const { return false; }
  /// A step commits with so many bytes of the first member in the place of this one's.
  virtual void tookOver(uint64_t) const noexcept {}
};

/// Of terms that came over links and wait: for all groups of one client, or of all clients without an identity.
struct WaitingBytes {
  static constexpr size_t kPartOfClient = 2, kPartOfAnonymous = 4;
  /// The data owner's own process may have all.
  explicit WaitingBytes(const std::string &account)
      : part(account == kLocalClient ? 1
             : account.empty()       ? kPartOfAnonymous
                                     : kPartOfClient) {}
  std::atomic<size_t> count = 0;
  const size_t part; ///< it may have one of so many parts of the owner's limit
};

/// Frames of all members for one moment of a step, by role; that of the own role is empty. Or the role of a member that
/// has ended the step.
struct CameFrames {
  std::array<std::optional<PeerFrame>, bounds::kPartiesMost> frames;
  std::optional<unsigned> endedBy;
  uint8_t code = PeerFrame::kNoFailure; ///< of the End
};

/// Belongs to a session, and ends with it: the other members are told. Thread-safe.
class Group {
public:
  /// `waiting`: what its client has, by all its groups.
  Group(std::shared_ptr<GroupPort> port, const GroupId &id, unsigned role, std::vector<signing::PublicKey> members,
        std::shared_ptr<WaitingBytes> waiting = std::make_shared<WaitingBytes>(kLocalClient));
  ~Group();
  Group(const Group &) = delete;
  Group &operator=(const Group &) = delete;

  /// From 1; no other group of this process ever has it.
  const uint64_t number = newNumber();
  unsigned role() const { return ownRole; }
  unsigned parties() const { return static_cast<unsigned>(members.size()); }
  const signing::PublicKey &member(unsigned role) const { return members[role]; }
  std::set<signing::PublicKey> keys() const { return {members.begin(), members.end()}; }
  /// "member 2 (owner ab12...)"
  std::string nameOf(unsigned role) const;

  /// A message begins, with its first step. RequestError (Peer): this attempt, or a later one, has begun here before.
  llvm::Error begin(const StepPoint &first);
  /// No step of this attempt at a message begins any more, and its frames are dropped.
  void close(const StepPoint &last);

  /// An attempt that does not begin here: ends it at the others.
  void refuse(const StepPoint &first, uint8_t code);

  /// To each other member. Allocates nothing: a commit does not fail where memory is short.
  void send(const PeerFrame &frame);
  void sendTo(unsigned role, const PeerFrame &frame) { port->send(members[role], id, frame); }

  /// Sends this member's key of masks to the others, which may not have it: until `settleKeys`.
  void offerKey();
  /// Waits for the keys of all others; none of them where a member has ended the step before. RequestErrors as of
  /// `await`, at `point`, and for bytes that are no key (Peer).
  llvm::Expected<MaskKeys> awaitKeys(const StepPoint &point, const runtime::StopFlag &stop,
                                     std::chrono::milliseconds most);
  /// All members have the keys: they have used them.
  void settleKeys() { areKeysSettled = true; }
  void tookOver(uint64_t bytes) const noexcept { port->tookOver(bytes); }
  /// Whether the client knows that members compute other bits. In the session's turn, as the next one.
  bool isTold = false;
  /// Whether they do: then each step commits before the next one begins.
  bool hasOtherBits = false;

  /// From a member. Dropped: all after it has left; frames of earlier points, those that it sent before an end of the
  /// same step, or in earlier attempts at a message. Of a member that sends more than kWaitingMost ahead, nothing is
  /// taken any more.
  void take(const signing::PublicKey &from, PeerFrame frame);

  /// Drops terms of later steps of the message than `point`: they were computed from copies in whose place others come.
  void dropLater(const StepPoint &point);

  /// Waits for the frames of this kind, of all other members, at `point`; drops those of earlier points. RequestErrors:
  /// a member is gone, has gone on to a later point, or sent another message or another frame (Peer), the stop flag is
  /// set (Stopped), the wait takes longer than `most` (Stopped). Without a flag it waits until all have answered.
  /// `digest`: of the message, which frames of Ready do not have.
  llvm::Expected<CameFrames> await(const StepPoint &point, PeerFrame::Kind kind, uint32_t exchange,
                                   const MessageDigest &digest, const runtime::StopFlag *stop,
                                   std::chrono::milliseconds most);

  /// The link with a member has ended. Its earlier frames count, later ones are dropped.
  void lose(const signing::PublicKey &member);
  bool hasMember(const signing::PublicKey &member) const;
  /// Whether a step waits for other members.
  bool isWaiting() const { return waits; }

  /// The group was not entered: its end is not announced.
  void forget() { isForgotten = true; }
  /// Of terms that came over links and wait.
  const std::shared_ptr<std::atomic<size_t>> waitingBytes = std::make_shared<std::atomic<size_t>>(0);
  const std::shared_ptr<WaitingBytes> waitingOfClient;

  /// Frames of one member that wait. A member is ahead by the terms of two exchanges, an end and the step after it.
  static constexpr size_t kWaitingMost = 8;

private:
  static uint64_t newNumber();
  void raise(const StepPoint &point);
  llvm::Error wrong(unsigned role, const llvm::Twine &what) const;
  llvm::Error checkMember(unsigned role, const StepPoint &point) const;
  /// A wait for frames of a step.
  struct Wait {
    const StepPoint &point;
    const runtime::StopFlag *stop; ///< null: no end
    const std::chrono::milliseconds most;
    const std::chrono::steady_clock::time_point until = std::chrono::steady_clock::now() + most;
    bool reads = true; ///< frames, before it sleeps
  };
  llvm::Error waitMore(std::unique_lock<std::mutex> &lock, Wait &wait, unsigned missing);
  llvm::Expected<bool> find(const StepPoint &point, PeerFrame::Kind kind, uint32_t exchange,
                            const MessageDigest &digest, CameFrames &found, unsigned &missing);

  const std::shared_ptr<GroupPort> port;
  const GroupId id;
  const unsigned ownRole;
  const std::vector<signing::PublicKey> members;
  std::mutex mutex;
  std::condition_variable came;
  struct Inbox {
    llvm::SmallVector<PeerFrame, kWaitingMost> frames;
    bool isGone = false, isBroken = false;
    bool isLost = false; ///< gone with its link
    std::optional<MaskKey> key;
    bool hasTwoKeys = false;
  };
  Inbox *inboxOf(const signing::PublicKey &member);
  std::vector<Inbox> inboxes; ///< by role
  StepPoint current;          ///< frames of earlier points are of no use
  std::atomic<bool> waits = false, areKeysSettled = false;
  const MaskKeyPair maskKeys;
  MaskKeys sharedKeys; ///< of the session's turn, once it has them
  bool isForgotten = false;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PEERS_GROUP_H
