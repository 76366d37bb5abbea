// SPDX-License-Identifier: Apache-2.0
// Notices a peer whose machine is gone: nothing of it says so, and TCP by itself waits for hours.
#ifndef SOJOURN_RUNTIME_STREAM_KEEPALIVE_H
#define SOJOURN_RUNTIME_STREAM_KEEPALIVE_H

#include <cstdint>

namespace sojourn::stream {

/// Seconds: of silence before the first question to the peer's kernel, between questions, and without an answer to a
/// question or to data until the connection counts as broken.
inline constexpr int kSilenceSeconds = 5, kQuestionSeconds = 2, kGoneSeconds = 10;

/// Has the kernel watch the TCP connections of this process between two ports (both as in a sockaddr). nng has an
/// option to switch that on, without the times, and hands out no descriptor.
void watchConnection(uint16_t localPort, uint16_t peerPort);

/// Seconds of a server, which loses more by taking a client for gone: a step ends with its client.
inline constexpr int kListenerSilenceSeconds = 30, kListenerQuestionSeconds = 10, kListenerGoneSeconds = 60;

/// The connections that a listener of this process will accept on a port inherit the listener's times (tcp(7)). Data on
/// its way has none: the server has deadlines for that, and a client that reads slowly is not gone.
void watchListener(uint16_t port);

} // namespace sojourn::stream

#endif // SOJOURN_RUNTIME_STREAM_KEEPALIVE_H
