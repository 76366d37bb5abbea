// SPDX-License-Identifier: Apache-2.0
#include "owner/AccountLines.h"

#include <algorithm>

namespace sojourn::owner {

void AccountLines::renew(Account &account, int64_t nowMs) const {
  account.left = std::min(most, account.left + static_cast<double>(nowMs - account.atMs) / eachMs);
  account.atMs = nowMs;
}

std::vector<std::string> AccountLines::add(const std::string &account, const std::string &line, int64_t nowMs) {
  auto [found, isNew] = accounts.try_emplace(account, Account{most, nowMs, 0});
  std::vector<std::string> lines = rest(nowMs);
  renew(found->second, nowMs);
  if (found->second.left < 1) {
    ++found->second.untold;
    return lines;
  }
  --found->second.left;
  lines.push_back(line);
  return lines;
}

std::vector<std::string> AccountLines::rest(int64_t nowMs, bool all) {
  std::vector<std::string> lines;
  for (auto &[name, account] : accounts) {
    renew(account, nowMs);
    if (account.untold > 0 && (all || account.left >= 1)) {
      lines.push_back(what + ": " + std::to_string(account.untold) + " more " + whose + " " +
                      (name.empty() ? "clients without an identity" : name));
      account.untold = 0;
      --account.left;
    }
  }
  return lines;
}

} // namespace sojourn::owner
