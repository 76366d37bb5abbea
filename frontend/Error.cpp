// SPDX-License-Identifier: Apache-2.0
// The replaceable raiser behind every frontend error.
#include "frontend/Error.h"

#include <atomic>

namespace sojourn {

namespace {
std::atomic<Raiser> activeRaiser{nullptr};
} // namespace

Error::Error(ErrorKind kind, const std::string &message)
    : c10::Error(std::string("sojourn::") + errorKindName(kind) + ": " + message, /*backtrace=*/nullptr), kind_(kind),
      text_(message) {}

const char *errorKindName(ErrorKind kind) {
  switch (kind) {
  case ErrorKind::Error: return "Error";
  case ErrorKind::ValueNeeded: return "ValueNeeded";
  case ErrorKind::Refused: return "Refused";
  case ErrorKind::Unsupported: return "Unsupported";
  case ErrorKind::OwnerError: return "OwnerError";
  case ErrorKind::ConnectionLost: return "ConnectionLost";
  case ErrorKind::VersionMismatch: return "VersionMismatch";
  case ErrorKind::BudgetExhausted: return "BudgetExhausted";
  }
  return "Error";
}

void setRaiser(Raiser raiser) { activeRaiser = raiser; }

void raise(ErrorKind kind, const std::string &message) {
  if (Raiser raiser = activeRaiser.load()) {
    raiser(kind, message);
  }
  throw Error(kind, message);
}

} // namespace sojourn
