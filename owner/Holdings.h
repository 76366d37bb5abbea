// SPDX-License-Identifier: Apache-2.0
// Bytes that clients keep at an owner between their requests: values, and uploads ahead of their step.
#ifndef SOJOURN_OWNER_HOLDINGS_H
#define SOJOURN_OWNER_HOLDINGS_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <cstddef>
#include <map>
#include <string>

namespace sojourn::owner {

/// Every account has a share of what all may keep, so that none can use up the room of the others:
///
/// | account | most |
/// |---|---|
/// | the data owner's process | all |
/// | a client with an identity | half |
/// | all clients without an identity together | an eighth |
///
/// Errors tell a client of its own use alone. Guarded by the owner's mutex.
class Holdings {
public:
  /// In bytes; `most` 0: half of the machine's memory.
  explicit Holdings(size_t most);

  /// An error of code Limit unless `bytes` more fit once `freed` of the account's bytes are gone. `what` begins its
  /// text: "an upload of 12 bytes does not fit".
  llvm::Error check(const std::string &account, size_t bytes, size_t freed, const llvm::Twine &what) const;
  void add(const std::string &account, size_t bytes);
  void remove(const std::string &account, size_t bytes);

  size_t share(const std::string &account) const;
  size_t used(const std::string &account) const;

private:
  const size_t most;
  size_t total = 0;
  std::map<std::string, size_t> byAccount;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_HOLDINGS_H
