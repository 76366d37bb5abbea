// SPDX-License-Identifier: Apache-2.0
// The one error type of runtime/: a code the owner can put on the wire, a text, and where it arose.
#ifndef SOJOURN_RUNTIME_ERROR_H
#define SOJOURN_RUNTIME_ERROR_H
#include "llvm/Support/Error.h"
#include <string>
#include <system_error>

namespace sojourn::runtime {

/// The numbers are those of ErrorCode in runtime/wire/Messages.fbs.
enum class ErrorCode : uint8_t {
  Malformed = 0,
  Version = 1,
  Limit = 2,
  Unsupported = 7,
  Execution = 8,
  Internal = 9,
  Stopped = 11
};

/// Failure of decoding (Malformed, Version, Limit, Unsupported, Stopped), of planning (Unsupported, Limit, Stopped)
/// or of a run (Execution, Stopped). `op` and `location` are empty where no op is to blame.
class ProgramError : public llvm::ErrorInfo<ProgramError> {
public:
  static char ID;
  ProgramError(ErrorCode code, std::string message, std::string op = "", std::string location = "")
      : code_(code), message_(std::move(message)), op_(std::move(op)), location_(std::move(location)) {}

  ErrorCode code() const { return code_; }
  const std::string &text() const { return message_; }
  const std::string &op() const { return op_; }
  const std::string &location() const { return location_; }

  void log(llvm::raw_ostream &stream) const override;
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  ErrorCode code_;
  std::string message_, op_, location_;
};

/// The text of the error of a run to which the system refuses memory.
inline constexpr const char *kNoMemory = "not enough memory for the run";

inline llvm::Error makeError(ErrorCode code, std::string message, std::string op = "", std::string location = "") {
  return llvm::make_error<ProgramError>(code, std::move(message), std::move(op), std::move(location));
}

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_ERROR_H
