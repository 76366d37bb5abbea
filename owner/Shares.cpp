// SPDX-License-Identifier: Apache-2.0
#include "owner/Shares.h"

#include "owner/Peer.h"

#include <algorithm>

namespace sojourn::owner {

size_t Shares::share(const std::string &account) const {
  return account == kLocalClient ? all : std::max<size_t>(1, account.empty() ? all / 8 : all / 2);
}

size_t Shares::claim(const std::string &account) const {
  if (account == kLocalClient || account.empty()) {
    return share(account);
  }
  return std::max<size_t>(1, (left() + used(account) + used("")) / 2);
}

size_t Shares::used(const std::string &account) const {
  auto found = byAccount.find(account);
  return found == byAccount.end() ? 0 : found->second;
}

void Shares::add(const std::string &account, size_t amount) {
  byAccount[account] += amount; // first what may fail
  total += amount;
}

void Shares::remove(const std::string &account, size_t amount) {
  total -= amount;
  auto found = byAccount.find(account);
  if (found != byAccount.end() && (found->second -= amount) == 0) { // empty amounts may outlive the entry
    byAccount.erase(found);
  }
}

} // namespace sojourn::owner
