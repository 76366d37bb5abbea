// SPDX-License-Identifier: Apache-2.0
// What an owner shows before a client trusts a TLS connection to it: the certificate of the connection, vouched for by
// the owner's key. The client takes that certificate as its sole authority.
#ifndef SOJOURN_RUNTIME_SIGNING_INTRODUCTION_H
#define SOJOURN_RUNTIME_SIGNING_INTRODUCTION_H

#include "runtime/signing/SigningKey.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sojourn::signing {

inline constexpr std::string_view kCertificateContext = "sojourn owner certificate 1";
/// The common name of every owner's certificate and its only DNS name: who the owner is, its key says.
inline constexpr const char *kServerName = "sojourn-owner";
/// Of a certificate, as DER.
inline constexpr size_t kCertificateBytesMost = 4096;
inline constexpr size_t kIntroductionBytesMost = kCertificateBytesMost + 128;

struct Introduction {
  PublicKey owner{};
  std::string certificate; ///< as DER
  Signature signature{};   ///< by `owner` with kCertificateContext, of the certificate's digest
  static void fields(auto &archive, auto &introduction) {
    archive(introduction.owner, introduction.certificate, introduction.signature);
  }
  friend bool operator==(const Introduction &, const Introduction &) = default;
};

/// SHA-256.
using CertificateDigest = std::array<uint8_t, 32>;
CertificateDigest digestOf(std::string_view der);
/// With lines of 64 characters.
std::string pemOf(std::string_view der);

Introduction introduce(const SigningKey &owner, std::string der);
std::string write(const Introduction &introduction);
/// Nothing where `bytes` are not what `write` makes of a certificate within kCertificateBytesMost.
std::optional<Introduction> readIntroduction(std::string_view bytes);
/// Whether the owner's key has signed it.
bool isGenuine(const Introduction &introduction);

} // namespace sojourn::signing

#endif // SOJOURN_RUNTIME_SIGNING_INTRODUCTION_H
