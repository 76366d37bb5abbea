// SPDX-License-Identifier: Apache-2.0
// Errors of the frontend: one C++ class with a kind; the bindings replace the raiser so that
// Python sees its own classes. Never TypeError: Tensor's operators swallow that.
#ifndef SOJOURN_FRONTEND_ERROR_H
#define SOJOURN_FRONTEND_ERROR_H

#include "frontend/Raise.h"

#include <c10/util/Exception.h>

namespace sojourn {

/// Thrown in processes without Python (and by C++ code under Python where no raiser is set).
class Error : public c10::Error, public HasErrorKind {
public:
  Error(ErrorKind kind, const std::string &message);
  ErrorKind kind() const override { return kind_; }
  /// As it was raised.
  const std::string &text() const { return text_; }

private:
  ErrorKind kind_;
  std::string text_;
};

} // namespace sojourn

#endif // SOJOURN_FRONTEND_ERROR_H
