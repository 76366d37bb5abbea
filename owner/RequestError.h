// SPDX-License-Identifier: Apache-2.0
// Why a request was not done, in the words of the wire.
#ifndef SOJOURN_OWNER_REQUESTERROR_H
#define SOJOURN_OWNER_REQUESTERROR_H

#include "runtime/wire/Messages_generated.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <chrono>
#include <string>

namespace sojourn::owner {

namespace wire = sojourn_wire;

class RequestError : public llvm::ErrorInfo<RequestError> {
public:
  static char ID;
  RequestError(wire::ErrorCode code, std::string message, std::string op = "", std::string location = "")
      : code(code), message(std::move(message)), op(std::move(op)), location(std::move(location)) {}

  void log(llvm::raw_ostream &stream) const override { stream << message; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

  wire::ErrorCode code;
  std::string message, op, location;
};

inline llvm::Error requestError(wire::ErrorCode code, const llvm::Twine &message, std::string op = "",
                                std::string location = "") {
  return llvm::make_error<RequestError>(code, message.str(), std::move(op), std::move(location));
}

/// Of a step of a group that lacks something here: all members let go, and the client repeats it. `what`: "this owner
/// has no ...".
llvm::Error busy(std::chrono::milliseconds waited, const llvm::Twine &what);

/// Any error as a RequestError: those of runtime/ keep their code, all others are Internal.
RequestError takeRequestError(llvm::Error error);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_REQUESTERROR_H
