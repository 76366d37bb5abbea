// SPDX-License-Identifier: Apache-2.0
// How often and how soon a request that got no answer is sent again.
#ifndef SOJOURN_FRONTEND_WIRE_RETRY_H
#define SOJOURN_FRONTEND_WIRE_RETRY_H

#include "frontend/wire/Client.h"

#include <chrono>

namespace sojourn::frontend {

/// Pauses that grow, within the time that `connect` was given. Each request is repeated once at least, unless it could
/// not be sent for all that time.
class Retry {
public:
  explicit Retry(int timeoutMs) : limit_(timeoutMs) {}

  /// Pauses, then returns true, if the request is to be sent again. Throws an interruption.
  bool again(CallStatus status);
  /// The next failure is a first one.
  void reset() { repeats_ = 0; }

private:
  using Clock = std::chrono::steady_clock;
  std::chrono::milliseconds limit_;
  int repeats_ = 0;
  bool wasLate_ = false;
  Clock::time_point first_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_WIRE_RETRY_H
