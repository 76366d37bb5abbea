// SPDX-License-Identifier: Apache-2.0
#include "owner/Holdings.h"

#include "owner/Budget.h"
#include "owner/RequestError.h"
#include "runtime/Buffer.h"

namespace sojourn::owner {

using llvm::Twine;

Holdings::Holdings(size_t most) : Shares(most ? most : machineBytes() / 2) {}

size_t heldBytes(size_t bytes) {
  constexpr size_t kEntry = 224; // a node of the session's map, and the control block
  if (bytes > SIZE_MAX / 4) {    // more than any share
    return bytes;
  }
  return runtime::BufferPool::chunkBytes(bytes) + kEntry;
}

static llvm::Error noRoom(const Twine &what) {
  return requestError(wire::ErrorCode_Limit, what + ": the owner has no room left for values; try again later");
}

llvm::Error Holdings::check(const std::string &account, size_t bytes, size_t freed, const Twine &what) const {
  if (bytes == 0) { // whatever it keeps, it may run steps that keep nothing more
    return llvm::Error::success();
  }
  const size_t own = used(account) - freed;
  const char *whose = account.empty() ? "clients without an identity keep at this owner" : "you keep at this owner";
  if (own > share(account) || bytes > share(account) - own) {
    return requestError(wire::ErrorCode_Limit, what + " beside the " + Twine(own) + " bytes that " + whose + "; " +
                                                   (account.empty() ? "their" : "your") + " share is " +
                                                   Twine(share(account)) +
                                                   ": delete tensors that are no longer needed");
  }
  return bytes > left() + freed ? noRoom(what) : llvm::Error::success();
}

llvm::Error Holdings::checkKept(const std::string &account, size_t bytes, size_t freed, const Twine &what) const {
  if (llvm::Error error = check(account, bytes, freed, what)) {
    return error;
  }
  const bool isBeyond = bytes > freed && used(account) - freed + bytes > claim(account);
  return isBeyond ? noRoom(what) : llvm::Error::success();
}

} // namespace sojourn::owner
