// SPDX-License-Identifier: Apache-2.0
#include "owner/peers/FrameBytes.h"

#include "runtime/wire/Messages_generated.h"

namespace sojourn::owner {

FrameFields fieldsOf(const GroupId &group, const PeerFrame &frame) {
  FrameFields fields;
  fields.group = group;
  fields.digest = frame.digest;
  fields.sequence = frame.point.sequence;
  fields.attempt = frame.point.attempt;
  fields.step = frame.point.step;
  fields.exchange = frame.exchange;
  fields.kind = static_cast<uint8_t>(frame.kind);
  fields.code = frame.code;
  fields.endedBy = frame.endedBy;
  fields.hasTerms = frame.terms != nullptr;
  fields.readyExchange = frame.readyExchange;
  fields.readyDigest = frame.readyDigest;
  return fields;
}

std::optional<PeerFrame> readFields(const FrameFields &fields, size_t termsBytes) {
  using Kind = PeerFrame::Kind;
  PeerFrame frame;
  frame.kind = static_cast<Kind>(fields.kind);
  const bool isTerms = frame.kind == Kind::Terms;
  const bool isCode = fields.code == PeerFrame::kNoFailure || fields.code <= sojourn_wire::ErrorCode_MAX;
  const bool isReady = fields.readyExchange == 0 ? fields.readyDigest == MessageDigest{}
                                                 : isTerms && fields.exchange == 0 && fields.step > 0;
  if (fields.kind > static_cast<uint8_t>(Kind::Key) || fields.hasTerms != (isTerms ? 1 : 0) ||
      (!isTerms && termsBytes != 0) || termsBytes > kTermsBytesMost || !isCode || !isReady) {
    return std::nullopt;
  }
  frame.point = {fields.sequence, fields.attempt, fields.step};
  frame.exchange = fields.exchange;
  frame.digest = fields.digest;
  frame.code = fields.code;
  frame.endedBy = fields.endedBy;
  frame.readyExchange = fields.readyExchange;
  frame.readyDigest = fields.readyDigest;
  return frame;
}

} // namespace sojourn::owner
