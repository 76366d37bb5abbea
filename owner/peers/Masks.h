// SPDX-License-Identifier: Apache-2.0
// Masks of sums: words that two members know, and that cancel in the sum over all (Bonawitz and others, 2017, without
// recovery of members that are gone).
#ifndef SOJOURN_OWNER_PEERS_MASKS_H
#define SOJOURN_OWNER_PEERS_MASKS_H

#include "owner/peers/Frame.h"
#include "runtime/Exchange.h"
#include "runtime/Stop.h"

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

/// The secret of two members, and their keys.
struct PairKey {
  std::shared_ptr<const SecretKey> secret;
  MaskKey first{}, second{}; ///< public keys, that of the smaller role first
};
/// X25519. Made afresh for each side of a group, so that no two sessions have the same masks, whatever clients do.
class MaskKeyPair {
public:
  MaskKeyPair();
  const MaskKey &publicKey() const { return half; }
  /// The key that this member shares with another one; `isBefore`: its own role is the smaller one. Nothing where
  /// `other` is no key, or its own.
  std::optional<PairKey> sharedWith(const MaskKey &other, bool isBefore) const;

private:
  MaskKey half{};
  SecretKey secret;
};

/// By the roles of the others.
using MaskKeys = std::map<unsigned, PairKey>;

/// Adds this member's masks to its masked terms in a frame. A word's mask with each other member that has a term there
/// is a word of a ChaCha20 stream under a key of the pair, its roles, `point`, `exchange`, `digest` and the layout:
/// the one of the smaller role adds it, the other one subtracts it, mod 2^64. Where members were told different things,
/// masks do not cancel, and the sums are noise. False where `stop` was set.
[[nodiscard]] bool addMasks(const MaskKeys &keys, unsigned ownRole, const StepPoint &point, uint32_t exchange,
                            const MessageDigest &digest, const runtime::Exchange &terms, const runtime::StopFlag &stop,
                            std::byte *frame);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PEERS_MASKS_H
