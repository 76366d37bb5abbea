// SPDX-License-Identifier: Apache-2.0
// Errors of all layers brought to the codes of the wire.
#include "owner/RequestError.h"

#include "runtime/Error.h"

namespace sojourn::owner {

char RequestError::ID = 0;

llvm::Error busy(std::chrono::milliseconds waited, const llvm::Twine &what) {
  return requestError(wire::ErrorCode_Busy, what + " within " + llvm::Twine(waited.count()) +
                                                " ms for its part of the step; the step ran at no member");
}

RequestError takeRequestError(llvm::Error error) {
  RequestError result(wire::ErrorCode_Internal, "");
  llvm::handleAllErrors(
      std::move(error), [&](const RequestError &found) { result = found; },
      [&](const runtime::ProgramError &found) {
        result = RequestError(static_cast<wire::ErrorCode>(found.code()), found.text(), found.op(), found.location());
      },
      [&](const llvm::ErrorInfoBase &found) { result = RequestError(wire::ErrorCode_Internal, found.message()); });
  return result;
}

} // namespace sojourn::owner
