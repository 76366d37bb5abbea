// SPDX-License-Identifier: Apache-2.0
#include "owner/RememberedReplies.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <utility>

namespace sojourn::owner {

RequestHash hashRequest(std::string_view message) {
  auto hash = llvm::xxh3_128bits(llvm::ArrayRef(reinterpret_cast<const uint8_t *>(message.data()), message.size()));
  return {hash.high64, hash.low64};
}

std::string textOf(const RequestHash &hash) {
  return llvm::utohexstr(hash[0], /*LowerCase=*/true, 16) + llvm::utohexstr(hash[1], /*LowerCase=*/true, 16);
}

void RememberedReplies::forget(LastStep &last, const std::string &account) {
  if (last.reply.bytes.empty()) {
    return;
  }
  bytes.remove(account, last.reply.bytes.size());
  auto own = known.find(account);
  own->second.erase(last.age);
  if (own->second.empty()) {
    known.erase(own);
  }
  last.reply = {};
}

void RememberedReplies::dropOldest(const std::string &account) { forget(*known.at(account).begin()->second, account); }

/// The account whose replies take most.
const std::string &RememberedReplies::largest() const {
  return std::max_element(known.begin(), known.end(),
                          [&](const auto &a, const auto &b) { return bytes.used(a.first) < bytes.used(b.first); })
      ->first;
}

void RememberedReplies::remember(LastStep &last, const std::string &account, sojourn::wire::Message reply) {
  forget(last, account);
  const size_t size = reply.bytes.size();
  if (size == 0 || size > std::min(each, bytes.share(account))) {
    return;
  }
  while (bytes.used(account) + size > bytes.share(account)) {
    dropOldest(account);
  }
  while (size > bytes.left()) {
    dropOldest(std::string(largest())); // the name goes with its last reply
  }
  // Whatever fails for want of memory, both lists hold the same.
  const auto own = known.try_emplace(account).first;
  llvm::scope_exit tidy([&] {
    if (own->second.empty()) {
      known.erase(own);
    }
  });
  bytes.add(account, size);
  llvm::scope_exit undo([&] { bytes.remove(account, size); });
  own->second.emplace(ages + 1, &last);
  undo.release();
  last.reply = std::move(reply);
  last.age = ++ages;
}

} // namespace sojourn::owner
