// SPDX-License-Identifier: Apache-2.0
// How a client shows who it is when it connects: what the two sides sign.
//
//   client -> owner   Hello: its public key and 32 fresh bytes
//   owner -> client   Challenge: fresh bytes of its own, its public key, its signature of the owner's statement
//   client -> owner   Prove: its signature of the client's statement
//
// Either statement names both keys and what both sides have drawn. So a signature answers one connection (no replay),
// counts for one owner alone (who relays it to another owner is refused there), and neither side's is the other's.
// Over TLS it names the digest of the server's certificate, too: both sides have the same one at the ends of the
// channel.
#ifndef SOJOURN_RUNTIME_SIGNING_PROOF_H
#define SOJOURN_RUNTIME_SIGNING_PROOF_H

#include "runtime/signing/Bytes.h"
#include "runtime/signing/SigningKey.h"

namespace sojourn::signing {

inline constexpr std::string_view kOwnerProof = "sojourn owner proof 1", kClientProof = "sojourn client proof 1";
/// Of what a client draws.
inline constexpr size_t kNonceBytes = 32;
/// A client signs no longer challenge.
inline constexpr size_t kChallengeBytesMost = 256;

/// What one connection is about. Signed with kOwnerProof by the owner, with kClientProof by the client.
/// `certificateDigest`: of the channel (Introduction.h); empty without TLS, and then left out.
inline std::string statement(const PublicKey &owner, const PublicKey &client, std::string_view nonce,
                             std::string_view challenge, std::string_view certificateDigest = {}) {
  Writer writer;
  writer(owner, client, std::string(nonce), std::string(challenge));
  if (!certificateDigest.empty()) {
    writer(std::string(certificateDigest));
  }
  return std::move(writer.bytes);
}

} // namespace sojourn::signing

#endif // SOJOURN_RUNTIME_SIGNING_PROOF_H
