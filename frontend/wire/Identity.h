// SPDX-License-Identifier: Apache-2.0
// Who a client is, and which owner it means to talk to (runtime/signing/Proof.h has the handshake). Knows no torch.
#ifndef SOJOURN_FRONTEND_WIRE_IDENTITY_H
#define SOJOURN_FRONTEND_WIRE_IDENTITY_H

#include "runtime/signing/SigningKey.h"

#include <string>
#include <string_view>

namespace sojourn::frontend {

/// Of one connection. Errors are sojourn::Error, whatever raiser is set.
///
/// A signature must not be of use to another owner that passes it on. So the client signs for the key of one owner, and
/// says which one it expects: `ownerKey`, or the key that it met first at this address, which it keeps beside its own
/// key
/// (`FILE.owners`). An owner's key that it knows from another address is not taken without being asked for.
class Identity {
public:
  /// `file`: the secret key that `sojourn keygen` made. `ownerKey`: 64 hexadecimal digits, or empty.
  Identity(std::string file, const std::string &ownerKey, std::string address);

  std::string_view publicKey() const;
  /// Fresh bytes for a Hello.
  std::string draw() const;
  /// Checks that the challenge comes from the owner that is expected and answers this Hello; signs it.
  std::string answer(std::string_view nonce, std::string_view challenge, std::string_view ownerKey,
                     std::string_view ownerSignature);
  /// Notes an owner that was met for the first time, now that it took the proof.
  void remember() const;
  /// 64 hexadecimal digits, once it has answered.
  const std::string &owner() const { return ownerText_; }

private:
  void checkKnown();

  std::string file_, address_, ownerText_;
  signing::SigningKey key_;
  std::string expected_;
  bool isNew_ = false;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_WIRE_IDENTITY_H
