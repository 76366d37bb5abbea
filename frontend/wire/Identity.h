// SPDX-License-Identifier: Apache-2.0
// Who a client is (runtime/signing/Proof.h has the handshake). Knows no torch.
#ifndef SOJOURN_FRONTEND_WIRE_IDENTITY_H
#define SOJOURN_FRONTEND_WIRE_IDENTITY_H

#include "frontend/wire/KnownOwners.h"
#include "runtime/signing/SigningKey.h"

#include <memory>
#include <string>
#include <string_view>

namespace sojourn::frontend {

/// Of one connection. Errors are sojourn::Error, whatever raiser is set.
///
/// A signature must not be of use to another owner that passes it on. So the client signs for the key of one owner, and
/// says which one it expects (KnownOwners.h); over TLS it is the owner of the channel, whose certificate is signed,
/// too.
class Identity {
public:
  /// `file`: the secret key that `sojourn keygen` made.
  Identity(const std::string &file, std::shared_ptr<KnownOwners> owners);
  /// Where the owners are noted that a client with this identity has met.
  static std::string ownersFile(const std::string &file) { return file + ".owners"; }

  std::string_view publicKey() const;
  /// Fresh bytes for a Hello.
  std::string draw() const;
  /// Checks that the challenge comes from the owner that is expected and answers this Hello; signs it. The last two are
  /// those of the transport (Client.h).
  std::string answer(std::string_view nonce, std::string_view challenge, std::string_view ownerKey,
                     std::string_view ownerSignature, std::string_view certificate = {},
                     const std::string &channelKey = "");
  /// Notes an owner that was met for the first time, now that it took the proof.
  void remember() const { owners_->remember(); }
  /// 64 hexadecimal digits, once it has answered.
  const std::string &owner() const { return ownerText_; }

private:
  std::string ownerText_;
  signing::SigningKey key_;
  std::shared_ptr<KnownOwners> owners_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_WIRE_IDENTITY_H
