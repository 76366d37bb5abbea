// SPDX-License-Identifier: Apache-2.0
// What members of a group send each other during a joint step.
#ifndef SOJOURN_OWNER_PEERS_FRAME_H
#define SOJOURN_OWNER_PEERS_FRAME_H

#include "runtime/Buffer.h"

#include <array>
#include <compare>
#include <cstdint>
#include <memory>

namespace sojourn::owner {

using GroupId = std::array<uint8_t, 32>;
/// Of the part of a message that is the same for all members (peers/Digest.h).
using MessageDigest = std::array<uint8_t, 32>;
/// A public key of X25519.
using MaskKey = std::array<uint8_t, 32>;

/// A step of a group: the number of its message, which attempt at it, and its number in the message. Points only rise.
struct StepPoint {
  uint64_t sequence = 0, attempt = 0;
  uint32_t step = 0;
  friend auto operator<=>(const StepPoint &, const StepPoint &) = default;
};

struct PeerFrame {
  enum class Kind : uint8_t {
    Terms, ///< of an exchange
    Ready, ///< the step has run, and commits once all members are ready with equal copies
    End,   ///< neither this step nor a later one of the message commits
    Gone,  ///< the member has left the group
    Key    ///< of its masks, the same in all frames of a session; of no step
  };
  /// Whether there was no room for terms where they arrived, and by which bound: on all that wait, on those for a
  /// group, on those for all groups of its client.
  enum class Dropped : uint8_t { no, all, group, client };
  /// Of an End without a failure: no further step of the message begins.
  static constexpr uint8_t kNoFailure = 255;

  Kind kind = Kind::Terms;
  StepPoint point;
  uint32_t exchange = 0;                  ///< of Terms: its number in the step
  MessageDigest digest{};                 ///< of Key: the public key; of Ready: of the copies
  std::shared_ptr<runtime::Buffer> terms; ///< immutable
  Dropped dropped = Dropped::no;          ///< of Terms
  /// Of Terms that begin a step before the one in front of it has committed: of its Ready, which goes with them; its
  /// exchange is 0 where none does.
  uint32_t readyExchange = 0;
  MessageDigest readyDigest{};
  uint8_t code = kNoFailure; ///< of End: ErrorCode of runtime/wire/Messages.fbs
  uint8_t endedBy = 0;       ///< of End: the role of the member that was the first to end it
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PEERS_FRAME_H
