// SPDX-License-Identifier: Apache-2.0
// What a running owner does at a moment: counts alone, nothing of a value, a table or a client.
#ifndef SOJOURN_OWNER_FIGURES_H
#define SOJOURN_OWNER_FIGURES_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace sojourn::owner {

struct Figures {
  /// By the numbers of the wire's ErrorCode.
  static constexpr size_t kCodes = 16;
  std::array<uint64_t, kCodes> refused{};
  uint64_t requests = 0, steps = 0; ///< answered and committed since the start
  double seconds = 0;               ///< since the start
  size_t sessions = 0, anonymousSessions = 0, values = 0, namedValues = 0;
  size_t valueBytes = 0, anonymousValueBytes = 0, valueBytesMost = 0;
  size_t requestsUnderWay = 0;
  size_t smallRunning = 0, smallWaiting = 0, largeRunning = 0, largeWaiting = 0;
  size_t plans = 0, planBytes = 0;
  size_t groups = 0, groupsWaiting = 0; ///< of owners: with this one as a member, and those whose step waits for others
  /// Of joint steps, since the start: those in which this owner took over bytes of a first member, and these.
  uint64_t stepsTakenOver = 0, bytesTakenOver = 0;
  size_t peers = 0, linkedPeers = 0;                 ///< registered, and those with a link
  uint64_t peerBytesSent = 0, peerBytesReceived = 0; ///< over the links that there are
  size_t peerBytesWaiting = 0;                       ///< of values of others that came before their step
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_FIGURES_H
