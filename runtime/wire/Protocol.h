// SPDX-License-Identifier: Apache-2.0
// The version of the protocol (Messages.fbs), for both sides of the wire.
#ifndef SOJOURN_RUNTIME_WIRE_PROTOCOL_H
#define SOJOURN_RUNTIME_WIRE_PROTOCOL_H

#include <cstddef>
#include <cstdint>

namespace sojourn::wire {

/// Grows when a request or a reply changes its meaning; fields that are only appended keep it.
inline constexpr uint32_t kProtocolVersion = 3;

/// Zeros that may stand before a request where the transport puts a header of as many bytes: what follows both is
/// aligned, and read where it lies. No request begins with zeros.
inline constexpr size_t kRequestPad = 4;

} // namespace sojourn::wire

#endif // SOJOURN_RUNTIME_WIRE_PROTOCOL_H
