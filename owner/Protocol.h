// SPDX-License-Identifier: Apache-2.0
// Version numbers of the owner's protocol (runtime/wire/Messages.fbs), for both sides of the wire.
#ifndef SOJOURN_OWNER_PROTOCOL_H
#define SOJOURN_OWNER_PROTOCOL_H

#include <cstdint>

namespace sojourn::owner {

/// Grows when a request or a reply changes its meaning; fields that are only appended keep it.
inline constexpr uint32_t kProtocolVersion = 2;

/// The FlatBuffers file identifier of requests and replies alike.
inline constexpr const char *kMessageIdentifier = "SJM1";

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PROTOCOL_H
