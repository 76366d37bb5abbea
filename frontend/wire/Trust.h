// SPDX-License-Identifier: Apache-2.0
// Which certificate a client takes over TLS: the one that the expected owner has signed
// (runtime/signing/Introduction.h).
#ifndef SOJOURN_FRONTEND_WIRE_TRUST_H
#define SOJOURN_FRONTEND_WIRE_TRUST_H

#include "frontend/wire/KnownOwners.h"
#include "runtime/signing/Introduction.h"

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace sojourn::frontend {

/// Of one address. Thread-safe. Errors are sojourn::Error, whatever raiser is set.
class Trust {
public:
  explicit Trust(std::shared_ptr<KnownOwners> owners) : owners_(std::move(owners)) {}

  /// The certificate that an introduction carries, as PEM: the sole authority of the connection that follows. Throws
  /// where the introduction is malformed, not signed by the owner that it names, or that is not the expected one.
  std::string certificateOf(std::string_view introduction);
  /// Of what was accepted last: the owner's key as 64 hexadecimal digits, and the digest of the certificate.
  std::string ownerKey() const;
  std::array<uint8_t, 32> digest() const;
  /// Notes an owner that was met for the first time, now that a session is open.
  void remember() { owners_->remember(); }

private:
  const std::shared_ptr<KnownOwners> owners_;
  mutable std::mutex mutex_;
  std::string ownerKey_;
  std::array<uint8_t, 32> digest_{};
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_WIRE_TRUST_H
