// SPDX-License-Identifier: Apache-2.0
// Errors of all layers brought to the codes of the wire.
#include "owner/RequestError.h"

#include "runtime/Error.h"

namespace sojourn::owner {

char RequestError::ID = 0;

RequestError takeRequestError(llvm::Error error) {
  RequestError result(wire::ErrorCode_Internal, "");
  llvm::handleAllErrors(
      std::move(error), [&](const RequestError &found) { result = found; },
      [&](const runtime::ProgramError &found) {
        // A program within its price may meet a machine that is short of memory.
        const bool isLimit = found.text() == runtime::kNoMemory;
        result = RequestError(isLimit ? wire::ErrorCode_Limit : static_cast<wire::ErrorCode>(found.code()),
                              found.text(), found.op(), found.location());
      },
      [&](const llvm::ErrorInfoBase &found) { result = RequestError(wire::ErrorCode_Internal, found.message()); });
  return result;
}

} // namespace sojourn::owner
