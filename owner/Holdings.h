// SPDX-License-Identifier: Apache-2.0
// Bytes that clients keep at an owner between their requests: values, and uploads ahead of their step.
#ifndef SOJOURN_OWNER_HOLDINGS_H
#define SOJOURN_OWNER_HOLDINGS_H

#include "owner/Shares.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <cstddef>
#include <string>

namespace sojourn::owner {

/// Memory of a value or an upload of `bytes` bytes: its buffer with header, and its entry in the session.
size_t heldBytes(size_t bytes);
/// Memory of a program that a session may refer to by its hash, in bytes.
inline constexpr size_t kProgramBytes = 192;

/// Errors tell a client of its own use alone.
class Holdings : public Shares {
public:
  /// In bytes; `most` 0: half of the machine's memory.
  explicit Holdings(size_t most);

  /// For what goes when its request has been answered. An error of code Limit unless `bytes` more fit once `freed` of
  /// the account's bytes are gone. `what` begins its text: "an upload of 12 bytes does not fit".
  llvm::Error check(const std::string &account, size_t bytes, size_t freed, const llvm::Twine &what) const;
  /// The same for values and uploads that are kept. If the account's amount grows, it must also stay within its claim.
  llvm::Error checkKept(const std::string &account, size_t bytes, size_t freed, const llvm::Twine &what) const;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_HOLDINGS_H
