// SPDX-License-Identifier: Apache-2.0
// Which client a connection belongs to: challenges, and the proofs that answer them (ledger/Proof.h).
#ifndef SOJOURN_OWNER_HANDSHAKE_H
#define SOJOURN_OWNER_HANDSHAKE_H

#include "owner/Environment.h"
#include "runtime/signing/Proof.h"
#include "runtime/wire/Messages_generated.h"

#include "llvm/Support/Error.h"

#include <map>
#include <mutex>
#include <string_view>

namespace sojourn::owner {

/// A challenge is answered within this time.
inline constexpr int64_t kChallengeMs = 60'000;
/// Answered ones of one client that are remembered; who floods locks out nobody else.
inline constexpr size_t kAnsweredChallenges = 1'024;

/// Challenges are not kept: each carries its time and a tag that only this object can make, so that who asks for many
/// costs no memory. An answered one is remembered until it is too old to be answered again. Thread-safe.
class Handshake {
public:
  /// `key` is the owner's, and outlives this.
  Handshake(const Environment &environment, const signing::SigningKey &key);

  using Random = std::array<uint8_t, 16>;
  struct Challenge {
    std::string bytes;
    signing::Signature signature{};
  };
  /// The answer to a Hello with an identity; `random` is fresh. Whether a client has this key is not looked up: that is
  /// told to who holds it.
  /// `certificate`: digest of the channel's (Introduction.h), empty without TLS.
  llvm::Expected<Challenge> challenge(const sojourn_wire::Hello &request, const Random &random,
                                      std::string_view certificate = {});
  /// The key whose holder made the proof, just now, for this owner and over a channel with this certificate.
  llvm::Expected<signing::PublicKey> check(const sojourn_wire::Prove &request, std::string_view certificate = {});
  /// Uses up the challenge of a proof that was checked and whose key is a client's: there is no second session for it.
  llvm::Error take(const sojourn_wire::Prove &request, const signing::PublicKey &client);

private:
  std::string tagOf(std::string_view body, const signing::PublicKey &client, std::string_view nonce) const;
  int64_t now();

  const Environment &environment;
  const signing::SigningKey &key;
  std::array<uint8_t, 32> secret{};
  std::mutex mutex;
  int64_t latestMs = 0; ///< the latest time that a thread has seen: what was forgotten stays too old
  /// By client the challenges, and when they become too old.
  std::map<signing::PublicKey, std::map<std::string, int64_t>> answered;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_HANDSHAKE_H
