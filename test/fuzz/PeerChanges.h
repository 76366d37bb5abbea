// SPDX-License-Identifier: Apache-2.0
// Changes of the frames that members of a group send to an owner: of their fields, of their order, of their bytes.
#ifndef SOJOURN_TEST_FUZZ_PEERCHANGES_H
#define SOJOURN_TEST_FUZZ_PEERCHANGES_H

#include "owner/peers/Frame.h"

#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace sojourn::fuzz {

/// One change, of one frame. An input of the target `frames` is a list of them.
struct PeerChange {
  enum What : uint8_t {
    // fields
    kind,     ///< another one; without its terms where `index` is odd
    sequence, ///< this and the next two: moved by `value`, -128 to 127
    attempt,
    step,
    exchange, ///< where `index` is odd, that of a Ready that goes with terms
    digest,
    code,
    endedBy,
    size,  ///< of the terms: `value` bytes more or fewer, or none
    terms, ///< a bit of them
    group, ///< another group: the honest one, or none that there is
    key,   ///< of masks: another member's, a fresh one, zeros, noise
    // order
    twice,
    insert,  ///< in front of the frame: one of kind `value`, at a point that `index` says
    earlier, ///< in front of it: the frame `index` places before
    drop,
    later, ///< behind the next frame
    // bytes
    head,
    byte,
    cut,
    connect, ///< beside the frame: a connection whose handshake is changed
    count
  };
  uint8_t message = 0, member = 0, frame = 0; ///< which frame
  uint8_t what = 0;
  uint8_t value = 0, index = 0;
  uint16_t place = 0;
};
static_assert(sizeof(PeerChange) == 8);
constexpr size_t kPeerChangesMost = 6, kPeerMessages = 4;

std::vector<PeerChange> readChanges(std::string_view input);
std::string writeChanges(const std::vector<PeerChange> &changes);

/// Puts frames on links as the changes of an input say. Thread-safe.
class PeerScript {
public:
  static constexpr unsigned kMembers = 2;

  /// An input begins. `honest`: another group of the owner.
  void begin(std::vector<PeerChange> changes, const owner::GroupId &honest);
  void beginMessage(uint8_t number);
  /// What this member sends in place of a frame.
  std::string bytesOf(unsigned member, const owner::GroupId &group, const owner::PeerFrame &frame);
  /// Whether a frame was changed since the last call of `forget`.
  bool isChanged();
  void forget();
  /// Handshakes to begin in a message.
  std::vector<PeerChange> connections(uint8_t message);

private:
  struct Sent {
    owner::GroupId group;
    owner::PeerFrame frame;
  };
  void changeField(const PeerChange &change, Sent &sent, unsigned member);
  void changeOrder(const PeerChange &change, std::vector<Sent> &sent, unsigned member);
  owner::MessageDigest keyOf(const PeerChange &change, unsigned member) const;

  std::mutex mutex;
  std::vector<PeerChange> changes;
  owner::GroupId honest{};
  uint8_t message = 0;
  bool changed = false;
  struct Member {
    unsigned frames = 0;    ///< in this message
    std::deque<Sent> past;  ///< the last ones
    std::vector<Sent> held; ///< until the next frame
    owner::MessageDigest key{};
  };
  std::array<Member, kMembers> members;
};

} // namespace sojourn::fuzz

#endif // SOJOURN_TEST_FUZZ_PEERCHANGES_H
