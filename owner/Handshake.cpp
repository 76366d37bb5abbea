// SPDX-License-Identifier: Apache-2.0
// Challenges and proofs (see Handshake.h).
#include "owner/Handshake.h"

#include "owner/RequestError.h"
#include "runtime/wire/Step.h"

#include <algorithm>
#include <cstring>
#include <sodium.h>

namespace sojourn::owner {

using llvm::Twine;
using signing::PublicKey;

namespace {

/// Time and random bytes of a challenge; its tag follows.
constexpr size_t kBodyBytes = 8 + sizeof(Handshake::Random), kTagBytes = 32;

std::string_view viewOf(const flatbuffers::Vector<uint8_t> *bytes) {
  return bytes ? std::string_view(reinterpret_cast<const char *>(bytes->data()), bytes->size()) : std::string_view();
}

llvm::Error checkSize(const char *what, std::string_view bytes, size_t expected) {
  return bytes.size() == expected
             ? llvm::Error::success()
             : requestError(wire::ErrorCode_Malformed,
                            Twine(what) + " has " + Twine(bytes.size()) + " bytes, expected " + Twine(expected));
}

llvm::Expected<PublicKey> clientOf(std::string_view identity, std::string_view nonce) {
  llvm::Error error = checkSize("the identity", identity, sizeof(PublicKey));
  error = error ? std::move(error) : checkSize("the nonce", nonce, signing::kNonceBytes);
  if (error) {
    return error;
  }
  PublicKey client;
  std::memcpy(client.data(), identity.data(), client.size());
  return client;
}

llvm::Error tooOld() {
  return requestError(wire::ErrorCode_Refused,
                      "the challenge is older than " + Twine(kChallengeMs / 1000) + " seconds; connect again");
}

} // namespace

Handshake::Handshake(const Environment &environment, const signing::SigningKey &key)
    : environment(environment), key(key) {
  environment.randomBytes(secret.data(), secret.size());
}

int64_t Handshake::now() {
  std::lock_guard lock(mutex);
  return latestMs = std::max(latestMs, environment.elapsedMs());
}

std::string Handshake::tagOf(std::string_view body, const PublicKey &client, std::string_view nonce) const {
  signing::Writer writer;
  writer(std::string(body), client, std::string(nonce));
  std::string tag(kTagBytes, '\0');
  crypto_generichash(reinterpret_cast<unsigned char *>(tag.data()), tag.size(),
                     reinterpret_cast<const unsigned char *>(writer.bytes.data()), writer.bytes.size(), secret.data(),
                     secret.size());
  return tag;
}

llvm::Expected<Handshake::Challenge> Handshake::challenge(const wire::Hello &request, const Random &random,
                                                          std::string_view certificate) {
  std::string_view nonce = viewOf(request.nonce());
  auto client = clientOf(viewOf(request.identity()), nonce);
  if (!client) {
    return client.takeError();
  }
  signing::Writer writer;
  writer(now(), random);
  Challenge made;
  made.bytes = writer.bytes + tagOf(writer.bytes, *client, nonce);
  made.signature =
      key.sign(signing::kOwnerProof, signing::statement(key.publicKey(), *client, nonce, made.bytes, certificate));
  return made;
}

llvm::Expected<PublicKey> Handshake::check(const wire::Prove &request, std::string_view certificate) {
  std::string_view nonce = viewOf(request.nonce()), challenge = viewOf(request.challenge()),
                   signature = viewOf(request.signature());
  auto client = clientOf(viewOf(request.identity()), nonce);
  if (!client) {
    return client.takeError();
  }
  signing::Signature given;
  llvm::Error error = checkSize("the challenge", challenge, kBodyBytes + kTagBytes);
  error = error ? std::move(error) : checkSize("the signature", signature, given.size());
  if (error) {
    return error;
  }
  // Cheap first: without a tag of ours there is no signature to look at.
  std::string_view body = challenge.substr(0, kBodyBytes);
  std::string tag = tagOf(body, *client, nonce);
  if (sodium_memcmp(tag.data(), challenge.data() + kBodyBytes, kTagBytes) != 0) {
    return requestError(wire::ErrorCode_Refused,
                        "this owner has issued no such challenge to this key since its start; connect again");
  }
  signing::Reader reader(body);
  int64_t madeMs = 0;
  reader(madeMs);
  if (now() - madeMs > kChallengeMs) {
    return tooOld();
  }
  std::memcpy(given.data(), signature.data(), given.size());
  if (!signing::isSigned(*client, signing::kClientProof,
                         signing::statement(key.publicKey(), *client, nonce, challenge, certificate), given)) {
    return requestError(wire::ErrorCode_Refused, "the proof is not signed with the secret key of this identity, or was "
                                                 "made for another owner or connection");
  }
  return client;
}

llvm::Error Handshake::take(const wire::Prove &request, const PublicKey &client) {
  std::string challenge(viewOf(request.challenge()));
  std::lock_guard lock(mutex);
  // What is forgotten below is too old here: time may have passed since the check.
  signing::Reader reader(std::string_view(challenge).substr(0, kBodyBytes));
  int64_t madeMs = 0;
  reader(madeMs);
  if (latestMs - madeMs > kChallengeMs) {
    return tooOld();
  }
  std::map<std::string, int64_t> &own = answered[client];
  std::erase_if(own, [&](const auto &entry) { return entry.second < latestMs; });
  if (own.size() >= kAnsweredChallenges) {
    const auto soonest = std::min_element(
        own.begin(), own.end(), [](const auto &left, const auto &right) { return left.second < right.second; });
    return requestError(wire::ErrorCode_Limit, "this client has connected " + Twine(own.size()) + " times within " +
                                                   Twine(kChallengeMs / 1000) +
                                                   " seconds, the limit; connect again in " +
                                                   Twine((soonest->second - latestMs) / 1000 + 1) + " seconds");
  }
  // Until it is refused for its age, whatever its own time says.
  if (!own.emplace(std::move(challenge), latestMs + kChallengeMs).second) {
    return requestError(wire::ErrorCode_Refused,
                        "this challenge was already answered: a proof opens one session; connect again");
  }
  return llvm::Error::success();
}

} // namespace sojourn::owner
