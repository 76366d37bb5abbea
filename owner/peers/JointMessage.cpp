// SPDX-License-Identifier: Apache-2.0
// The order of frames of a joint step (see JointMessage.h): Terms per exchange, then Ready; or End.
#include "owner/peers/JointMessage.h"

#include "owner/peers/FrameBytes.h"

#include "llvm/ADT/Twine.h"

#include <utility>

namespace sojourn::owner {

PeerFrame JointMessage::frame(PeerFrame::Kind kind) const {
  PeerFrame frame;
  frame.kind = kind;
  frame.point = point_;
  frame.exchange = exchange_;
  frame.digest = digest_;
  return frame;
}

llvm::Expected<CameFrames> JointMessage::await(PeerFrame::Kind kind, const runtime::StopFlag *stop) {
  auto came = group_.await(point_, kind, exchange_, digest_, stop, most_);
  if (!came || !came->endedBy) {
    return came;
  }
  isOver_ = came->code == PeerFrame::kNoFailure;
  end(came->code, *came->endedBy); // so that none holds this member's terms
  return requestError(wire::ErrorCode_Peer,
                      group_.nameOf(*came->endedBy) + " ended the step; its own reply says why. " +
                          (kind == PeerFrame::Kind::Ready
                               ? "It was not committed here, and may have been at others: then the group has ended"
                               : "Nothing of the step was committed at any member"));
}

llvm::Expected<Memory> JointMessage::exchange(Memory frames) {
  if (frames.size() != 1) {
    return requestError(wire::ErrorCode_Internal,
                        "the worker sends " + llvm::Twine(frames.size()) + " frames in an exchange, expected 1");
  }
  if (frames[0]->size() > kTermsBytesMost) {
    return requestError(wire::ErrorCode_Limit, "an exchange of this step has " + llvm::Twine(frames[0]->size()) +
                                                   " bytes for other members, and " + llvm::Twine(kTermsBytesMost) +
                                                   " are allowed; sum smaller tensors in a step");
  }
  PeerFrame own = frame(PeerFrame::Kind::Terms);
  own.terms = std::move(frames[0]);
  group_.send(own);
  auto came = await(PeerFrame::Kind::Terms, &stop_);
  if (!came) {
    return came.takeError();
  }
  ++exchange_;
  Memory terms;
  for (unsigned role = 0; role < group_.parties(); ++role) {
    std::optional<PeerFrame> &each = came->frames[role];
    terms.push_back(each && each->terms ? std::move(each->terms) : runtime::copyOf("", 0));
  }
  return terms;
}

llvm::Error JointMessage::ready() {
  if (exchange_ == 0) { // no terms have shown that all members have begun the step
    auto begun = exchange({runtime::copyOf("", 0)});
    if (!begun) {
      return begun.takeError();
    }
  }
  group_.send(frame(PeerFrame::Kind::Ready));
  auto came = await(PeerFrame::Kind::Ready, nullptr);
  if (!came) {
    return came.takeError();
  }
  ++point_.step;
  exchange_ = 0;
  return llvm::Error::success();
}

void JointMessage::end(uint8_t code, unsigned endedBy) {
  if (isEnded_ || point_.step >= steps_) {
    return;
  }
  isEnded_ = true;
  PeerFrame last = frame(PeerFrame::Kind::End);
  last.code = code;
  last.endedBy = static_cast<uint8_t>(endedBy);
  group_.send(last);
  group_.close(point_);
}

} // namespace sojourn::owner
