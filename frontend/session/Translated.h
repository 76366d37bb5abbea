// SPDX-License-Identifier: Apache-2.0
#ifndef SOJOURN_FRONTEND_SESSION_TRANSLATED_H
#define SOJOURN_FRONTEND_SESSION_TRANSLATED_H

#include "frontend/Error.h"
#include "frontend/Raise.h"

#include <exception>

namespace sojourn::frontend {

/// Our own errors thrown by `body` become those of the process's raiser.
template <class Body>
auto translated(Body &&body) {
  try {
    return body();
  } catch (const Error &error) {
    raise(error.kind(), error.text());
  }
}

/// The exception being handled, likewise.
inline std::exception_ptr translatedFailure() {
  const std::exception_ptr failure = std::current_exception();
  try {
    translated([&] { std::rethrow_exception(failure); });
  } catch (...) {
    return std::current_exception();
  }
  return failure;
}

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_TRANSLATED_H
