// SPDX-License-Identifier: Apache-2.0
// Ed25519 by libsodium.
#include "runtime/signing/SigningKey.h"

#include "runtime/signing/Bytes.h"
#include "runtime/signing/KeyFile.h"

#include <cctype>
#include <sodium.h>
#include <stdexcept>
#include <unistd.h>

namespace sojourn::signing {

static constexpr std::string_view kOwnerLine = "sojourn owner key 1\n", kClientLine = "sojourn client key 1\n",
                                  kPublicLine = "sojourn client public key 1\n";
static constexpr mode_t kForUser = S_IRUSR | S_IWUSR, kForAll = kForUser | S_IRGRP | S_IROTH;

/// Once is enough, more often is fine; it fails where there is no randomness at all.
static void startCrypto() {
  if (sodium_init() < 0) {
    throw std::runtime_error("libsodium could not be initialised");
  }
}

SigningKey::SigningKey(const std::array<uint8_t, 32> &seed) {
  startCrypto();
  crypto_sign_seed_keypair(half.data(), secret.data(), seed.data());
}

SigningKey::~SigningKey() { sodium_memzero(secret.data(), secret.size()); }

SigningKey SigningKey::generate() {
  KeyBytes seed = newKeyBytes();
  SigningKey key(seed);
  sodium_memzero(seed.data(), seed.size());
  return key;
}

Result<SigningKey> SigningKey::open(const std::string &path) {
  if (!isFileThere(path)) {
    KeyBytes seed = newKeyBytes();
    Status status = makeKeyFile(path, kOwnerLine, seed, kForUser, /*mayBeThere=*/true);
    sodium_memzero(seed.data(), seed.size());
    if (status) {
      return *status;
    }
  }
  auto seed = readSecretKey(path, kOwnerLine, "an owner's key", "restore its copy");
  if (!seed) {
    return seed.problem();
  }
  SigningKey key(*seed);
  sodium_memzero(seed->data(), seed->size());
  return key;
}

Result<SigningKey> SigningKey::openClient(const std::string &path) {
  if (!isFileThere(path)) {
    return problem(Code::badRequest, "there is no identity '" + path + "'; create one with: sojourn keygen " + path);
  }
  auto seed = readSecretKey(path, kClientLine, "a client's secret key", "create one with: sojourn keygen FILE");
  if (!seed) {
    return seed.problem();
  }
  SigningKey key(*seed);
  sodium_memzero(seed->data(), seed->size());
  return key;
}

Result<SigningKey> SigningKey::makeClient(const std::string &path) {
  std::string publicPath = path + ".pub";
  if (access(publicPath.c_str(), F_OK) == 0) {
    return problem(Code::badRequest, "'" + publicPath + "' already exists, and a key is never overwritten; choose " +
                                         "another name, or move the file away");
  }
  KeyBytes seed = newKeyBytes();
  Status status = makeKeyFile(path, kClientLine, seed, kForUser, /*mayBeThere=*/false);
  SigningKey key(seed);
  sodium_memzero(seed.data(), seed.size());
  if (status) {
    return *status;
  }
  if (Status publicStatus = makeKeyFile(publicPath, kPublicLine, key.half, kForAll, /*mayBeThere=*/false)) {
    unlink(path.c_str()); // half a pair is of no use to anyone
    return *publicStatus;
  }
  return key;
}

static std::string_view viewOf(const PublicKey &bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

std::string keyText(const PublicKey &key) { return hex(viewOf(key)); }

std::string shortKeyText(const PublicKey &key) { return keyText(key).substr(0, 16); }

std::optional<PublicKey> parseKey(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  PublicKey key{};
  size_t bytes = 0;
  bool good = text.size() == 2 * key.size() &&
              sodium_hex2bin(key.data(), key.size(), text.data(), text.size(), nullptr, &bytes, nullptr) == 0 &&
              bytes == key.size();
  return good ? std::optional(key) : std::nullopt;
}

Result<PublicKey> readPublicKey(const std::string &path) {
  PublicKey key{};
  struct stat facts {};
  bool isGood = false, isSecret = false;
  if (Status status = readKeyFile(path, kPublicLine, key, facts, isGood)) {
    return *status;
  }
  if (isGood && crypto_core_ed25519_is_valid_point(key.data()) == 1) {
    return key;
  }
  KeyBytes seed;
  readKeyFile(path, kClientLine, seed, facts, isSecret);
  sodium_memzero(seed.data(), seed.size());
  return isSecret
             ? problem(Code::badRequest,
                       "'" + path + "' is the secret key of a client; ask for " + "the public key, '" + path + ".pub'")
             : problem(Code::badRequest, "'" + path + "' is not the public key of a client; the client creates one " +
                                             "with 'sojourn keygen FILE' and sends you FILE.pub");
}

/// Bytes that are signed: the length keeps a context from running into the bytes.
static std::string framed(std::string_view context, std::string_view bytes) {
  Writer writer;
  writer(std::string(context), std::string(bytes));
  return std::move(writer.bytes);
}

Signature SigningKey::sign(std::string_view context, std::string_view bytes) const {
  std::string message = framed(context, bytes);
  Signature signature;
  crypto_sign_detached(signature.data(), nullptr, reinterpret_cast<const unsigned char *>(message.data()),
                       message.size(), secret.data());
  return signature;
}

bool isSigned(const PublicKey &key, std::string_view context, std::string_view bytes, const Signature &signature) {
  startCrypto();
  std::string message = framed(context, bytes);
  return crypto_sign_verify_detached(signature.data(), reinterpret_cast<const unsigned char *>(message.data()),
                                     message.size(), key.data()) == 0;
}

} // namespace sojourn::signing
