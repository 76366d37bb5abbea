// SPDX-License-Identifier: Apache-2.0
// Masks of sums: words that two members know, and that cancel in the sum over all (Bonawitz and others, 2017, without
// recovery of members that are gone).
#ifndef SOJOURN_OWNER_PEERS_MASKS_H
#define SOJOURN_OWNER_PEERS_MASKS_H

#include "owner/peers/Frame.h"
#include "runtime/Exchange.h"

#include <array>
#include <map>
#include <memory>
#include <optional>

namespace sojourn::owner {

/// A key that lives in the memory of this process alone, and is overwritten at its end.
class SecretKey {
public:
  static constexpr size_t kBytes = 32;
  SecretKey() = default;
  ~SecretKey();
  SecretKey(const SecretKey &) = delete;
  SecretKey &operator=(const SecretKey &) = delete;
  std::array<uint8_t, kBytes> bytes{};
};

/// X25519. Made afresh for each side of a group, so that no two sessions have the same masks, whatever clients do.
class MaskKeyPair {
public:
  MaskKeyPair();
  const MaskKey &publicKey() const { return half; }
  /// The key that this member shares with another one; null where `other` is no key.
  std::shared_ptr<const SecretKey> sharedWith(const MaskKey &other, bool isBefore) const;

private:
  MaskKey half{};
  SecretKey secret;
};

/// The keys that a member shares with others, by their roles.
using MaskKeys = std::map<unsigned, std::shared_ptr<const SecretKey>>;

/// Adds this member's masks to its masked terms in a frame. A word's mask with each other member that has a term there
/// is a word of a ChaCha20 stream under a key of their own, of `point`, `exchange`, `digest` and all that is exchanged:
/// the one of the smaller role adds it, the other one subtracts it, mod 2^64. Where members were told different things,
/// masks do not cancel, and the sums are noise.
void addMasks(const MaskKeys &keys, unsigned ownRole, const StepPoint &point, uint32_t exchange,
              const MessageDigest &digest, const runtime::Exchange &terms, std::byte *frame);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PEERS_MASKS_H
