// SPDX-License-Identifier: Apache-2.0
// Ed25519 keys in files. The owner's signs receipts and the entries by which budgets grow; a client's proves who it is.
#ifndef SOJOURN_RUNTIME_SIGNING_SIGNINGKEY_H
#define SOJOURN_RUNTIME_SIGNING_SIGNINGKEY_H

#include "runtime/signing/Problem.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sojourn::signing {

using PublicKey = std::array<uint8_t, 32>;
using Signature = std::array<uint8_t, 64>;

/// Immutable, so thread-safe. The secret half is wiped when the key goes.
class SigningKey {
public:
  /// The owner's key in a file of mode 0600, made at the first use. Refuses a file that others may read.
  static Result<SigningKey> open(const std::string &path);
  /// A client's key, likewise, but never made on the way.
  static Result<SigningKey> openClient(const std::string &path);
  /// Writes a new client's key to `path`, mode 0600, and its public half to `path`.pub. Refuses where one of the two is
  /// there already.
  static Result<SigningKey> makeClient(const std::string &path);
  /// A key that lives and dies with the process: the embedded owner's.
  static SigningKey generate();
  SigningKey(const SigningKey &) = default;
  SigningKey &operator=(const SigningKey &) = default;
  ~SigningKey();

  const PublicKey &publicKey() const { return half; }
  /// `context` tells kinds of texts apart: a signature made for one is none for another.
  Signature sign(std::string_view context, std::string_view bytes) const;

private:
  SigningKey() = default;
  explicit SigningKey(const std::array<uint8_t, 32> &seed);
  PublicKey half{};
  std::array<uint8_t, 64> secret{};
};

/// 64 hexadecimal digits.
std::string keyText(const PublicKey &key);
/// The first 16 of them: enough to tell the owners of one script apart, for messages. It proves nothing.
std::string shortKeyText(const PublicKey &key);
/// Nothing if the text is not 64 hexadecimal digits; blanks around them are fine.
std::optional<PublicKey> parseKey(std::string_view text);
/// The public key of a client, from the file that `makeClient` wrote beside its secret one.
Result<PublicKey> readPublicKey(const std::string &path);

bool isSigned(const PublicKey &key, std::string_view context, std::string_view bytes, const Signature &signature);

} // namespace sojourn::signing

#endif // SOJOURN_RUNTIME_SIGNING_SIGNINGKEY_H
