// SPDX-License-Identifier: Apache-2.0
// Owners of two groups: one whose other two members send changed frames over links, and an honest one.
#ifndef SOJOURN_TEST_FUZZ_PEERWORLD_H
#define SOJOURN_TEST_FUZZ_PEERWORLD_H

#include "owner/links/PeerLinks.h"
#include "owner/peers/Peers.h"
#include "runtime/signing/SigningKey.h"
#include "test/fuzz/PeerChanges.h"
#include "test/owner/Support.h"

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::fuzz {

/// The owner under test is member 1 of the changed group, and member 0 of the honest one.
class PeerWorld {
public:
  explicit PeerWorld(PeerScript &script);
  ~PeerWorld();
  PeerWorld(const PeerWorld &) = delete;
  PeerWorld &operator=(const PeerWorld &) = delete;

  static constexpr unsigned kMembers = 3, kPrograms = 3;
  struct Outcome {
    std::array<std::string, kMembers> errors; ///< by role; empty where the step has committed
    bool isLinkEnded = false;                 ///< by the owner
    const std::string &ofOwner() const { return errors[1]; }
  };
  /// The next step of the changed group is the first one of a new group.
  void renew() { isJoined = false; }
  /// A message of the changed group: sums in the clear, masked, or masked and added up in shares. What is as it must
  /// never be ends the process.
  Outcome step(uint8_t message);
  /// A step of the honest group, which must give the right sum.
  void honestStep(unsigned program);
  /// Begins a handshake whose messages a change says; nobody is linked by it.
  void connect(const PeerChange &change);
  const owner::GroupId &honestGroup() const { return honestId; }

private:
  class Link;
  class Routes;
  struct Member {
    owner::test::World world;
    std::unique_ptr<owner::Owner> owner;
    signing::PublicKey key{};
  };
  struct Sequence { ///< of a group
    uint64_t number = 1, attempt = 0, handle = 0;
  };
  using Roles = std::array<Member *, kMembers>;

  using Clients = std::array<std::unique_ptr<owner::test::Client>, kMembers>;
  using Errors = std::array<std::string, kMembers>;

  void make(Member &member, unsigned seed, bool isNeighbour);
  void registerTables(Member &member, unsigned first);
  /// Puts a link in place of the last one, whose threads have ended then.
  void setEnd(unsigned number, std::shared_ptr<Link> end);
  std::shared_ptr<Link> endOf(unsigned number);
  void linkAll();
  bool isLinkOver() const;
  owner::GroupId join(const Roles &roles, Clients &clients);
  void joinChanged();
  void leave();
  void watch(const std::atomic<unsigned> &left);
  Errors run(const Roles &roles, Clients &clients, Sequence &sequence, unsigned program, bool isChanged);
  void tell() { crossed = std::chrono::steady_clock::now().time_since_epoch().count(); }

  PeerScript &script;
  const std::string address;
  std::array<runtime::EncodedProgram, kPrograms> programs;
  Member own;
  std::array<Member, 2> changedMembers, honestMembers;
  std::unique_ptr<owner::PeerLinks> links;
  std::mutex endsMutex;                      ///< of the next one, which is written on the test's thread alone
  std::array<std::shared_ptr<Link>, 2> ends; ///< of links, at the members whose frames are changed
  std::atomic<std::chrono::steady_clock::rep> crossed = 0; ///< when a frame did, last
  Clients changedClients, honestClients;
  Sequence changedSequence, honestSequence;
  bool isJoined = false;
  owner::GroupId honestId{};
  uint64_t nonces = 0;
};

} // namespace sojourn::fuzz

#endif // SOJOURN_TEST_FUZZ_PEERWORLD_H
