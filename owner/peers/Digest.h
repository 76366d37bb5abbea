// SPDX-License-Identifier: Apache-2.0
// BLAKE2b-256 of what members of a group compare: clients choose the bytes, so that a fast hash would not do.
#ifndef SOJOURN_OWNER_PEERS_DIGEST_H
#define SOJOURN_OWNER_PEERS_DIGEST_H

#include "owner/peers/Frame.h"
#include "runtime/signing/SigningKey.h"
#include "runtime/wire/Messages_generated.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <sodium.h>

#include <string_view>

namespace sojourn::owner {

/// Of bytes that come in parts.
class ContentDigest {
public:
  ContentDigest();
  void add(const void *bytes, size_t size);
  MessageDigest get() const; ///< of the bytes so far

private:
  crypto_generichash_state state{};
};

/// Of all that every member gets alike: program, bindings, terms, repetitions, and what uploads hold that were sent
/// ahead (`sentAhead`, by their numbers). Session, mark and the bytes of the program, which a member may have already,
/// are each member's own. RequestError (Malformed): vectors of the message share their bytes, so that they are many
/// more than its `messageBytes`.
llvm::Expected<MessageDigest> digestOf(const sojourn_wire::Step &message, size_t messageBytes,
                                       llvm::function_ref<MessageDigest(uint64_t)> sentAhead);

/// A group is one client's, by the key that it proved (empty: none), and these members' in this order.
GroupId groupIdOf(std::string_view nonce, std::string_view client, llvm::ArrayRef<signing::PublicKey> members);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PEERS_DIGEST_H
