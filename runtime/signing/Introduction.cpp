// SPDX-License-Identifier: Apache-2.0
// Introductions as bytes: a line that says what they are, then canonical bytes (Bytes.h).
#include "runtime/signing/Introduction.h"

#include "runtime/signing/Bytes.h"

#include <sodium.h>

namespace sojourn::signing {

static constexpr std::string_view kFirstLine = "sojourn introduction 1\n";

static std::string_view viewOf(const CertificateDigest &digest) {
  return {reinterpret_cast<const char *>(digest.data()), digest.size()};
}

CertificateDigest digestOf(std::string_view der) {
  CertificateDigest digest;
  crypto_hash_sha256(digest.data(), reinterpret_cast<const unsigned char *>(der.data()), der.size());
  return digest;
}

std::string pemOf(std::string_view der) {
  constexpr size_t kColumns = 64;
  std::string text(sodium_base64_ENCODED_LEN(der.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char *>(der.data()), der.size(),
                    sodium_base64_VARIANT_ORIGINAL);
  text.pop_back(); // its end
  std::string pem = "-----BEGIN CERTIFICATE-----\n";
  for (size_t at = 0; at < text.size(); at += kColumns) {
    pem.append(text, at, kColumns) += '\n';
  }
  return pem + "-----END CERTIFICATE-----\n";
}

Introduction introduce(const SigningKey &owner, std::string der) {
  Signature signature = owner.sign(kCertificateContext, viewOf(digestOf(der)));
  return {owner.publicKey(), std::move(der), signature};
}

std::string write(const Introduction &introduction) {
  Writer writer;
  writer(introduction);
  return std::string(kFirstLine) + writer.bytes;
}

std::optional<Introduction> readIntroduction(std::string_view bytes) {
  if (bytes.size() > kIntroductionBytesMost || !bytes.starts_with(kFirstLine)) {
    return std::nullopt;
  }
  Introduction introduction;
  Reader reader(bytes.substr(kFirstLine.size()));
  reader(introduction);
  const size_t size = introduction.certificate.size();
  return reader.done() && size > 0 && size <= kCertificateBytesMost ? std::optional(std::move(introduction))
                                                                    : std::nullopt;
}

bool isGenuine(const Introduction &introduction) {
  return isSigned(introduction.owner, kCertificateContext, viewOf(digestOf(introduction.certificate)),
                  introduction.signature);
}

} // namespace sojourn::signing
