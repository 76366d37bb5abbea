// SPDX-License-Identifier: Apache-2.0
// Proofs of a client's identity (see Identity.h).
#include "frontend/wire/Identity.h"

#include "frontend/Error.h"
#include "runtime/signing/Proof.h"

#include <cstring>
#include <sodium.h>

namespace sojourn::frontend {

namespace {

[[noreturn]] void refuse(const std::string &text) { throw Error(ErrorKind::Refused, text); }

signing::SigningKey openKey(const std::string &file) {
  auto key = signing::SigningKey::openClient(file);
  if (!key) {
    throw Error(ErrorKind::Error, key.problem().text);
  }
  return *key;
}

} // namespace

Identity::Identity(const std::string &file, std::shared_ptr<KnownOwners> owners)
    : key_(openKey(file)), owners_(std::move(owners)) {}

std::string_view Identity::publicKey() const {
  return {reinterpret_cast<const char *>(key_.publicKey().data()), key_.publicKey().size()};
}

std::string Identity::draw() const {
  std::string nonce(signing::kNonceBytes, '\0');
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string Identity::answer(std::string_view nonce, std::string_view challenge, std::string_view ownerKey,
                             std::string_view ownerSignature, std::string_view certificate,
                             const std::string &channelKey) {
  const std::string &address = owners_->address();
  signing::PublicKey owner;
  signing::Signature signature;
  if (ownerKey.size() != owner.size() || ownerSignature.size() != signature.size() || challenge.empty() ||
      challenge.size() > signing::kChallengeBytesMost) {
    throw Error(ErrorKind::OwnerError, "the challenge of the owner at " + address + " is malformed");
  }
  std::memcpy(owner.data(), ownerKey.data(), owner.size());
  std::memcpy(signature.data(), ownerSignature.data(), signature.size());
  std::string said = signing::statement(owner, key_.publicKey(), nonce, challenge, certificate);
  ownerText_ = signing::keyText(owner);
  if (!channelKey.empty() && ownerText_ != channelKey) {
    refuse("the server at " + address + " presents the key " + ownerText_ + ", but its certificate is that of " +
           channelKey + "; ask the data owner");
  }
  if (!signing::isSigned(owner, signing::kOwnerProof, said, signature)) {
    refuse("the server at " + address + " does not hold the key " + ownerText_ +
           " that it presents; ask the data owner");
  }
  owners_->check(ownerText_, /*isRelayed=*/certificate.empty());
  signing::Signature own = key_.sign(signing::kClientProof, said);
  return {reinterpret_cast<const char *>(own.data()), own.size()};
}

} // namespace sojourn::frontend
