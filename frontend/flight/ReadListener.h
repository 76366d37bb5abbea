// SPDX-License-Identifier: Apache-2.0
#ifndef SOJOURN_FRONTEND_FLIGHT_READLISTENER_H
#define SOJOURN_FRONTEND_FLIGHT_READLISTENER_H

#include <functional>

namespace sojourn::frontend {

/// Hooks of the process around reads.
struct ReadListener {
  /// Before a trip. `isExtra`: no step has just ended that would have travelled anyway. May throw: nothing is read
  /// then.
  std::function<void(bool isExtra)> before;
  /// After it, with the same `isExtra`; not after a trip that failed. Also after work that was sent without a read.
  std::function<void(bool isExtra)> after;
  /// Runs the trip while others may run.
  std::function<void(const std::function<void()> &trip)> around;
};
void setReadListener(ReadListener listener);
const ReadListener &readListener();

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_FLIGHT_READLISTENER_H
