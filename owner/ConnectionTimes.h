// SPDX-License-Identifier: Apache-2.0
#ifndef SOJOURN_OWNER_CONNECTIONTIMES_H
#define SOJOURN_OWNER_CONNECTIONTIMES_H

#include <chrono>

namespace sojourn::owner {

/// Times in which a peer has to speak or to listen.
struct ConnectionTimes {
  /// Until a connection is a session's, between its requests.
  std::chrono::milliseconds silence{60'000};
  /// Without a byte, once a message or a reply has begun. In all it has as much again, and a second for each 64 KiB.
  std::chrono::milliseconds stall{30'000};
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_CONNECTIONTIMES_H
