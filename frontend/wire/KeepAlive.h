// SPDX-License-Identifier: Apache-2.0
// Notices a peer whose machine is gone: nothing of it says so, and TCP by itself waits for hours.
#ifndef SOJOURN_FRONTEND_WIRE_KEEPALIVE_H
#define SOJOURN_FRONTEND_WIRE_KEEPALIVE_H

#include <cstdint>

namespace sojourn::frontend {

/// Seconds: of silence before the first question to the peer's kernel, between questions, and without an answer to a
/// question or to data until the connection counts as broken.
inline constexpr int kSilenceSeconds = 5, kQuestionSeconds = 2, kGoneSeconds = 10;

/// Has the kernel watch the TCP connections of this process between two ports (both as in a sockaddr). nng has an
/// option to switch that on, without the times, and hands out no descriptor.
void watchConnection(uint16_t localPort, uint16_t peerPort);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_WIRE_KEEPALIVE_H
