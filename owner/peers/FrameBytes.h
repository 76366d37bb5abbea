// SPDX-License-Identifier: Apache-2.0
// Frames of members as bytes on a link: a head (runtime/stream/Frame.h), these fields, then the terms.
#ifndef SOJOURN_OWNER_PEERS_FRAMEBYTES_H
#define SOJOURN_OWNER_PEERS_FRAMEBYTES_H

#include "owner/peers/Frame.h"

#include <cstddef>
#include <optional>

namespace sojourn::owner {

/// Little-endian, as heads are. A head without fields is a sign of life.
struct FrameFields {
  GroupId group{};
  MessageDigest digest{};
  uint64_t sequence = 0, attempt = 0;
  uint32_t step = 0, exchange = 0;
  uint8_t kind = 0, code = 0, endedBy = 0, hasTerms = 0;
  uint32_t readyExchange = 0;
  MessageDigest readyDigest{};
};
static_assert(sizeof(FrameFields) == 128);

/// Of the terms in one frame.
inline constexpr size_t kTermsBytesMost = size_t{1} << 30;

FrameFields fieldsOf(const GroupId &group, const PeerFrame &frame);
/// The frame without its terms; nothing where no owner of this version can have sent the fields.
std::optional<PeerFrame> readFields(const FrameFields &fields, size_t termsBytes);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PEERS_FRAMEBYTES_H
