// SPDX-License-Identifier: Apache-2.0
// The way to one owner, or to the members of a group: clients, whose turn it is to send, and the programs that each
// owner has been sent.
#ifndef SOJOURN_FRONTEND_SESSION_CONNECTION_H
#define SOJOURN_FRONTEND_SESSION_CONNECTION_H

#include "frontend/RecentlyUsed.h"
#include "frontend/recording/RemoteDevice.h"
#include "frontend/session/JointAttempt.h"
#include "frontend/session/MemberThread.h"
#include "frontend/wire/Client.h"
#include "frontend/wire/Identity.h"
#include "runtime/signing/SigningKey.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace sojourn::frontend {

class BackOff;

/// One thread at a time sends: it has the turn from taking its trace to its commit. All but `isOffline`, `address`
/// and the counts are for that thread.
class Connection {
public:
  /// Says hello. `transport == nullptr`: an offline session, which has no client.
  Connection(std::unique_ptr<Transport> transport, std::shared_ptr<Identity> identity, RemoteDevice &device);
  /// Opens a connection to each of these owners, as the client that opened these, and makes them a group. `isMasked`:
  /// whether its sums are; by default where a member asks for it.
  Connection(const std::vector<const Connection *> &members, RemoteDevice &device, std::optional<bool> isMasked);
  ~Connection();

  bool isOffline() const { return lanes_.empty(); }
  std::string address() const;
  const std::string &ownerKey() const { return ownerKey_; }
  RemoteDevice &device() const { return device_; }
  /// Not of an offline session. Of a group that of its first member.
  Client &client() const { return *lanes_[0].client; }
  /// The key by which owners know this one. Throws Error (Unsupported) where it takes part in no groups.
  const signing::PublicKey &memberKey() const;
  /// Adds the counts of the other members' clients.
  void addOthers(Counters &counters) const;

  /// One request, two if the owner lacks the program. `unknown`: set where a failure leaves open whether the owner ran
  /// the step.
  StepReply send(wire::Step &step, bool &unknown, const StepFollower *follow = nullptr);
  /// As `send`; releases that wait ride along, and wait again where the step did not run. `own`: the trace of the step.
  StepReply sendWithReleases(wire::Step &step, const Recording *own, bool &unknown);
  /// Of a group: gives values that a member has in another session of the client handles here.
  void borrow(unsigned role, const Client &from, const std::vector<uint64_t> &handles, const std::vector<uint64_t> &as);
  /// The other way: gives values that this member has of the group handles in the session of `to`.
  void lend(unsigned role, Client &to, const std::vector<uint64_t> &handles, const std::vector<uint64_t> &as) const;
  bool isMasked() const { return isMasked_; }
  /// Ends the session at every owner.
  void bye();
  /// How often a program was sent again.
  uint64_t resent() const { return resent_; }
  /// Attempts at steps of a group that were repeated, because a member was busy.
  uint64_t busyRetries() const { return busyRetries_; }

private:
  friend class Turn;
  /// Programs that it remembers having sent.
  static constexpr size_t kPrograms = 4096;

  /// To one owner.
  struct Lane {
    std::unique_ptr<Client> client;
    /// Programs the owner has been sent. One that is forgotten is sent again.
    std::unique_ptr<RecentlyUsed<std::array<uint8_t, 32>, std::monostate>> knownHashes;
    std::unique_ptr<MemberThread> thread; ///< of all but the first
  };
  Client &open(std::unique_ptr<Transport> transport);
  StepReply sendTo(Lane &lane, wire::Step &step, bool &unknown, const StepFollower *follow);
  StepReply sendToOne(wire::Step &step, bool &unknown, const StepFollower *follow);
  StepReply sendToAll(wire::Step &step, bool &unknown, const StepFollower *follow);
  std::vector<MemberOutcome> attempt(std::vector<wire::Step> &own, const StepFollower *follow);
  void dropUploads(std::vector<wire::Step> &own, const std::vector<MemberOutcome> &outcomes) noexcept;
  void raiseBusy(const std::vector<MemberOutcome> &outcomes, const BackOff &backOff) const;
  std::vector<std::string> names() const;

  RemoteDevice &device_;
  std::mutex turn_;
  std::atomic<std::thread::id> holder_{};
  std::vector<Lane> lanes_; ///< by role; one where there is no group
  std::shared_ptr<Identity> identity_;
  std::string ownerKey_;
  std::atomic<uint64_t> resent_{0}, busyRetries_{0};
  uint64_t group_ = 0;   ///< a random number
  uint64_t attempt_ = 0; ///< of the next message of a group
  bool isBusyTold_ = false;
  bool isMasked_ = false; ///< sums over rows of three members or more
  bool isBroken_ = false; ///< a group whose members may differ
};

/// The turn at a connection. Throws Error in a fork of the session's process, and where the calling thread has the turn
/// already (a listener of phases, or a transport written in Python, that sends a step).
class Turn {
public:
  explicit Turn(Connection &connection);
  ~Turn() {
    connection_.holder_.store({}, std::memory_order_relaxed);
    connection_.turn_.unlock();
  }
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;

private:
  Connection &connection_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_CONNECTION_H
