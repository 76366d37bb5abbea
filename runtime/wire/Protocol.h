// SPDX-License-Identifier: Apache-2.0
// The version of the protocol (Messages.fbs), for both sides of the wire.
#ifndef SOJOURN_RUNTIME_WIRE_PROTOCOL_H
#define SOJOURN_RUNTIME_WIRE_PROTOCOL_H

#include <cstddef>
#include <cstdint>

namespace sojourn::wire {

/// Grows when a request or a reply changes its meaning; fields that are only appended keep it.
inline constexpr uint32_t kProtocolVersion = 4;

/// Uploads are read where they lie if they lie at multiples of this, else copied: products of the library give other
/// bits elsewhere.
inline constexpr size_t kUploadAlignment = 16;

} // namespace sojourn::wire

#endif // SOJOURN_RUNTIME_WIRE_PROTOCOL_H
