// SPDX-License-Identifier: Apache-2.0
// Raising errors from files that do not know torch; Error.h has the class.
#ifndef SOJOURN_FRONTEND_RAISE_H
#define SOJOURN_FRONTEND_RAISE_H

#include <string>

namespace sojourn {

enum class ErrorKind {
  Error,           ///< anything else
  ValueNeeded,     ///< a Python value of a remote tensor was asked for
  Refused,         ///< the owner's policy keeps the value
  Unsupported,     ///< op, dtype or form that is not recorded
  OwnerError,      ///< the owner answered with an error
  ConnectionLost,  ///< nobody answered
  VersionMismatch, ///< client and owner speak different versions
  BudgetExhausted  ///< the budget does not admit it, or there is none
};

const char *errorKindName(ErrorKind kind);

/// Throws what has a kind; never returns. Default: `sojourn::Error`.
using Raiser = void (*)(ErrorKind kind, const std::string &message);
void setRaiser(Raiser raiser);
[[noreturn]] void raise(ErrorKind kind, const std::string &message);
/// Base of all exceptions that `raise` throws, for handlers.
class HasErrorKind {
public:
  virtual ~HasErrorKind() = default;
  virtual ErrorKind kind() const = 0;
};

} // namespace sojourn

#endif // SOJOURN_FRONTEND_RAISE_H
