// SPDX-License-Identifier: Apache-2.0
// Errors of the frontend: one C++ class with a kind; the bindings replace the raiser so that
// Python sees its own classes. Never TypeError: Tensor's operators swallow that.
#pragma once

#include <c10/util/Exception.h>

#include <string>

namespace sojourn {

enum class ErrorKind {
  Error,          ///< anything else
  ValueNeeded,    ///< a Python value of a remote tensor was asked for
  Refused,        ///< the owner's policy keeps the value
  Unsupported,    ///< op, dtype or form that is not recorded
  OwnerError,     ///< the owner answered with an error
  ConnectionLost, ///< nobody answered
  VersionMismatch ///< client and owner speak different versions
};

/// Thrown in processes without Python (and by C++ code under Python where no raiser is set).
class Error : public c10::Error {
public:
  Error(ErrorKind kind, const std::string &message);
  ErrorKind kind() const { return kind_; }

private:
  ErrorKind kind_;
};

const char *errorKindName(ErrorKind kind);

/// Throws; never returns. Default: `sojourn::Error`.
using Raiser = void (*)(ErrorKind kind, const std::string &message);
void setRaiser(Raiser raiser);
[[noreturn]] void raise(ErrorKind kind, const std::string &message);

} // namespace sojourn
