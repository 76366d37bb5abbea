// SPDX-License-Identifier: Apache-2.0
// Replies to the last steps of sessions, should the same request come again.
#ifndef SOJOURN_OWNER_REMEMBEREDREPLIES_H
#define SOJOURN_OWNER_REMEMBEREDREPLIES_H

#include "owner/RequestError.h"
#include "owner/Shares.h"
#include "runtime/wire/Message.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace sojourn::owner {

/// Tells two requests apart. Not a secret: who forges one deceives only the own session.
using RequestHash = std::array<uint64_t, 2>;
RequestHash hashRequest(std::string_view message);
/// 32 hexadecimal digits.
std::string textOf(const RequestHash &hash);

/// The last message of a session with a step that committed.
struct LastStep {
  uint64_t sequence = 0; ///< 0: none yet
  RequestHash request{};
  /// Empty: too large to be remembered, or forgotten for younger ones.
  sojourn::wire::Message reply;
  uint64_t age = 0;                    ///< grows with each reply remembered anywhere
  uint32_t steps = 0;                  ///< of the message, committed
  std::optional<RequestError> failure; ///< of the step after these
};

/// Bounded in bytes, over all accounts and for each (Shares.h): an account forgets its own oldest replies before those
/// of others. Guarded by the owner's mutex.
class RememberedReplies {
public:
  /// `each`: the largest reply that is remembered; `all`: of all of them together.
  RememberedReplies(size_t each, size_t all) : each(each), bytes(all) {}

  /// Of a step of the account's; an empty reply forgets the one before.
  void remember(LastStep &last, const std::string &account, sojourn::wire::Message reply);
  void forget(LastStep &last, const std::string &account);

private:
  void dropOldest(const std::string &account);
  const std::string &largest() const;

  const size_t each;
  Shares bytes;
  std::map<std::string, std::map<uint64_t, LastStep *>> known; ///< by account and age
  uint64_t ages = 0;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_REMEMBEREDREPLIES_H
