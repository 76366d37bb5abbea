// SPDX-License-Identifier: Apache-2.0
// The certificate that an owner shows over TLS. Its authority is the owner's key, which signs it (Introduction.h):
// neither names nor dates in it say whose it is, so those are the same for every owner.
#ifndef SOJOURN_OWNER_CERTIFICATE_H
#define SOJOURN_OWNER_CERTIFICATE_H

#include "runtime/signing/Introduction.h"

#include "llvm/Support/Error.h"

#include <string>

namespace sojourn::owner {

/// Of a certificate's text; no date ends it.
inline constexpr const char *kCertificateBegin = "2020-01-01", *kCertificateEnd = "2099-12-31";

struct Certificate {
  std::string pem, keyPem, der;
  std::string introduction; ///< as the bytes of signing::write
  signing::CertificateDigest digest{};
};

/// A fresh key on P-256 and a certificate that it signed for itself.
llvm::Expected<Certificate> makeCertificate(const signing::SigningKey &owner);

/// The file of a store with both, of mode 0600.
std::string certificatePath(const std::string &store);
/// That of a store, made where it is missing. Errors name the file. `renew`: another in its place, whatever is there.
llvm::Expected<Certificate> openCertificate(const std::string &store, const signing::SigningKey &owner, bool renew);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_CERTIFICATE_H
