// SPDX-License-Identifier: Apache-2.0
#include "owner/Holdings.h"

#include "owner/Budget.h"
#include "owner/Peer.h"
#include "owner/RequestError.h"

#include <algorithm>

namespace sojourn::owner {

using llvm::Twine;

Holdings::Holdings(size_t most) : most(most ? most : machineBytes() / 2) {}

size_t Holdings::share(const std::string &account) const {
  return account == kLocalClient ? most : account.empty() ? most / 8 : most / 2;
}

size_t Holdings::used(const std::string &account) const {
  auto found = byAccount.find(account);
  return found == byAccount.end() ? 0 : found->second;
}

llvm::Error Holdings::check(const std::string &account, size_t bytes, size_t freed, const Twine &what) const {
  const size_t own = used(account) - freed;
  const char *whose = account.empty() ? "clients without an identity keep at this owner" : "you keep at this owner";
  if (own > share(account) || bytes > share(account) - own) {
    return requestError(wire::ErrorCode_Limit, what + " beside the " + Twine(own) + " bytes that " + whose + "; " +
                                                   (account.empty() ? "their" : "your") + " share is " +
                                                   Twine(share(account)) +
                                                   ": delete tensors that are no longer needed");
  }
  if (bytes > most - std::min(most, total - freed)) {
    return requestError(wire::ErrorCode_Limit, what + ": the owner has no room left for values; try again later");
  }
  return llvm::Error::success();
}

void Holdings::add(const std::string &account, size_t bytes) {
  total += bytes;
  byAccount[account] += bytes;
}

void Holdings::remove(const std::string &account, size_t bytes) {
  total -= bytes;
  auto found = byAccount.find(account);
  if (found != byAccount.end() && (found->second -= bytes) == 0) { // empty values may outlive the entry
    byAccount.erase(found);
  }
}

} // namespace sojourn::owner
