// SPDX-License-Identifier: Apache-2.0
// The owner's Ed25519 key: it signs receipts and the entries by which budgets grow.
#ifndef SOJOURN_OWNER_LEDGER_SIGNINGKEY_H
#define SOJOURN_OWNER_LEDGER_SIGNINGKEY_H

#include "owner/ledger/Problem.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace sojourn::owner::ledger {

using PublicKey = std::array<uint8_t, 32>;
using Signature = std::array<uint8_t, 64>;

/// Immutable, so thread-safe. The secret half is wiped when the key goes.
class SigningKey {
public:
  /// The key in a file of mode 0600, made at the first use. Refuses a file that others may read.
  static Result<SigningKey> open(const std::string &path);
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

bool isSigned(const PublicKey &key, std::string_view context, std::string_view bytes, const Signature &signature);

} // namespace sojourn::owner::ledger

#endif // SOJOURN_OWNER_LEDGER_SIGNINGKEY_H
