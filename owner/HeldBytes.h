// SPDX-License-Identifier: Apache-2.0
// Bytes of messages that are on their way in or out, which count for their account as its values do.
#ifndef SOJOURN_OWNER_HELDBYTES_H
#define SOJOURN_OWNER_HELDBYTES_H

#include "owner/Holdings.h"

#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace sojourn::owner {

/// They count until the object goes, which is not to happen under the mutex: the owner's, which it locks.
class HeldBytes {
public:
  /// Not under the mutex. An error of code Limit where they do not fit (Holdings::check).
  static llvm::Expected<std::shared_ptr<HeldBytes>>
  take(std::mutex &mutex, Holdings &holdings, const std::string &account, size_t bytes, const llvm::Twine &what) {
    auto held = std::make_shared<HeldBytes>(mutex, holdings, account);
    std::lock_guard lock(mutex);
    if (llvm::Error error = holdings.check(account, bytes, 0, what)) {
      return error;
    }
    holdings.add(account, bytes);
    held->bytes = bytes;
    return held;
  }
  HeldBytes(std::mutex &mutex, Holdings &holdings, std::string account)
      : mutex(mutex), holdings(holdings), account(std::move(account)) {}
  ~HeldBytes() {
    if (bytes > 0) {
      std::lock_guard lock(mutex);
      holdings.remove(account, bytes);
    }
  }
  HeldBytes(const HeldBytes &) = delete;
  HeldBytes &operator=(const HeldBytes &) = delete;

private:
  std::mutex &mutex;
  Holdings &holdings;
  const std::string account;
  size_t bytes = 0;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_HELDBYTES_H
