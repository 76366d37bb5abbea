// SPDX-License-Identifier: Apache-2.0
// The order of frames of a joint step (see JointMessage.h): Terms per exchange, then Ready, which may go with the
// first Terms of the next step; or End. Where copies differ, Ready is followed by Terms with pieces of them, and Ready
// once more.
#include "owner/peers/JointMessage.h"

#include "owner/peers/FrameBytes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sojourn::owner {

using llvm::Twine;
using runtime::Buffer;
using runtime::BufferPool;
using runtime::Exchange;
using runtime::ExchangeTerm;
using runtime::FramePlaces;
using runtime::Share;

/// Sums of so many bytes are added up in shares, each by one of three members or more: fewer bytes, and one more wait.
static constexpr size_t kScatterBytesLeast = size_t{32} << 10;
/// Of copies that are taken over, in one frame.
static constexpr size_t kPieceBytes = size_t{4} << 20;

static std::byte *bytesOf(Buffer &buffer) { return static_cast<std::byte *>(buffer.data()); }

PeerFrame JointMessage::frame(PeerFrame::Kind kind) const {
  PeerFrame frame;
  frame.kind = kind;
  frame.point = point_;
  frame.exchange = exchange_;
  frame.digest = digest_;
  return frame;
}

static MessageDigest digestOf(const runtime::CopiesDigest &copies) {
  MessageDigest digest{};
  static_assert(sizeof(copies) <= sizeof(digest));
  std::memcpy(digest.data(), copies.data(), sizeof(copies));
  return digest;
}

/// Of an exchange.
PeerFrame JointMessage::termsFrame(const RanStep *before) const {
  PeerFrame frame = this->frame(PeerFrame::Kind::Terms);
  if (before) {
    ++frame.point.step;
    frame.readyExchange = std::exchange(frame.exchange, 0);
    frame.readyDigest = digestOf(before->copies.digest());
  }
  return frame;
}

llvm::Expected<CameFrames> JointMessage::await(PeerFrame::Kind kind, const runtime::StopFlag *stop) {
  auto came = group_.await(point_, kind, exchange_, digest_, stop, most_);
  if (!came || !came->endedBy) {
    return came;
  }
  isOver_ = came->code == PeerFrame::kNoFailure;
  end(came->code, *came->endedBy); // so that none holds this member's terms
  if (came->code == wire::ErrorCode_Busy && kind == PeerFrame::Kind::Terms) {
    return requestError(wire::ErrorCode_Busy, group_.nameOf(*came->endedBy) +
                                                  " was busy; its own reply says with what. The step ran at no member");
  }
  return requestError(wire::ErrorCode_Peer,
                      group_.nameOf(*came->endedBy) + " ended the step; its own reply says why. " +
                          (kind == PeerFrame::Kind::Ready
                               ? "It was not committed here, and may have been at others: then the group has ended"
                               : "Nothing of the step was committed at any member"));
}

llvm::Error JointMessage::begin(llvm::ArrayRef<runtime::Exchange> exchanges) {
  exchanges_ = exchanges;
  if (llvm::Error error = group_.begin(point_)) {
    return error;
  }
  isBegun_ = true;
  if (hasMasks_) {
    group_.offerKey();
  }
  return llvm::Error::success();
}

llvm::Expected<JointMessage::Frames> JointMessage::awaitTerms(std::shared_ptr<Buffer> own) {
  auto came = await(PeerFrame::Kind::Terms, &stop_);
  if (!came) {
    return came.takeError();
  }
  ++exchange_;
  Frames frames;
  for (unsigned role = 0; role < group_.parties(); ++role) {
    std::optional<PeerFrame> &each = came->frames[role];
    frames.push_back(role == group_.role() ? std::move(own) : each ? std::move(each->terms) : nullptr);
  }
  return frames;
}

/// The same bytes to all.
llvm::Expected<JointMessage::Frames> JointMessage::gather(std::shared_ptr<Buffer> own) {
  PeerFrame frame = termsFrame(nullptr);
  frame.terms = own;
  group_.send(frame);
  return awaitTerms(std::move(own));
}

/// To each member the terms that it adds up. Returns this member's own. All memory is there before the first frame
/// leaves, which may be a Ready.
std::shared_ptr<Buffer> JointMessage::scatter(const Exchange &terms, const std::shared_ptr<Buffer> &own,
                                              const RanStep *before) {
  const FramePlaces whole = placesOfTerms(terms, group_.role());
  Frames parts;
  for (unsigned role = 0; role < group_.parties(); ++role) {
    const Share share{role, group_.parties()};
    const FramePlaces places = placesOfTerms(terms, group_.role(), share);
    parts.push_back(BufferPool::global().allocate(places.bytes));
    cutShare(terms, share, whole, bytesOf(*own), places, bytesOf(*parts.back()));
  }
  PeerFrame frame = termsFrame(before);
  for (unsigned role = 0; role < group_.parties(); ++role) {
    if (role != group_.role()) {
      frame.terms = std::move(parts[role]);
      group_.sendTo(role, frame);
    }
  }
  return std::move(parts[group_.role()]);
}

/// RequestError (Peer): a member sent another number of bytes.
llvm::Expected<std::shared_ptr<Buffer>> JointMessage::sum(const Exchange &terms, Share share, const Frames &frames,
                                                          Room room) {
  std::vector<const std::byte *> each;
  for (unsigned role = 0; role < frames.size(); ++role) {
    const size_t bytes = frames[role] ? frames[role]->size() : 0, expected = placesOfTerms(terms, role, share).bytes;
    if (bytes != expected) {
      return requestError(wire::ErrorCode_Peer, group_.nameOf(role) + " sent " + Twine(bytes) +
                                                    " bytes in an exchange, expected " + Twine(expected));
    }
    each.push_back(frames[role] ? bytesOf(*frames[role]) : nullptr);
  }
  auto sums = room(placesOfSums(terms, share).bytes);
  addTerms(terms, share, each, bytesOf(*sums));
  return sums;
}

/// The frame with its masks: in place where it has no other holder, else a copy. Without masked terms, the same frame.
llvm::Expected<std::shared_ptr<Buffer>> JointMessage::masked(const Exchange &terms, const StepPoint &point,
                                                             size_t exchange, std::shared_ptr<Buffer> own) {
  if (llvm::none_of(terms, [](const ExchangeTerm &term) { return term.isMasked; })) {
    return own;
  }
  if (!hasMasks_) {
    return requestError(wire::ErrorCode_Internal, "the worker masks sums of a message without masks");
  }
  auto keys = group_.awaitKeys(point_, stop_, most_);
  if (!keys) {
    return keys.takeError();
  }
  if (keys->size() + 1 < group_.parties()) { // a member's frame is here without its key: it ended the step
    auto came = await(PeerFrame::Kind::Terms, &stop_);
    return came ? requestError(wire::ErrorCode_Peer, "a member of the group sent terms before the key of its masks")
                : came.takeError();
  }
  auto frame = own.use_count() == 1 && !own->isBorrowed() ? std::move(own) : runtime::copyOf(own->data(), own->size());
  if (!addMasks(*keys, group_.role(), point, static_cast<uint32_t>(exchange), digest_, terms, stop_, bytesOf(*frame))) {
    return requestError(wire::ErrorCode_Stopped, "the step was stopped while its sums got their masks");
  }
  return frame;
}

/// Of the worker, in this exchange of a step.
llvm::Error JointMessage::checkTerms(const Memory &frames, size_t exchange) const {
  if (frames.size() != 1 || exchange >= exchanges_.size()) {
    return requestError(wire::ErrorCode_Internal, "the worker sends " + Twine(frames.size()) + " frames in exchange " +
                                                      Twine(exchange) + " of " + Twine(exchanges_.size()) +
                                                      ", expected 1");
  }
  const Exchange &terms = exchanges_[exchange];
  const size_t expected = placesOfTerms(terms, group_.role()).bytes, bytes = placesOfSums(terms).bytes;
  if (!frames[0] || frames[0]->size() != expected) {
    return requestError(wire::ErrorCode_Internal, "the worker sends " + Twine(frames[0] ? frames[0]->size() : 0) +
                                                      " bytes in an exchange, expected " + Twine(expected));
  }
  if (bytes > kTermsBytesMost) {
    return requestError(wire::ErrorCode_Limit, "an exchange of this step has " + Twine(bytes) +
                                                   " bytes for other members, and " + Twine(kTermsBytesMost) +
                                                   " are allowed; sum smaller tensors in a step");
  }
  return llvm::Error::success();
}

llvm::Expected<Memory> JointMessage::exchange(Memory frames, Room room, const RanStep *before) {
  const size_t number = before ? 0 : next_;
  if (before && (exchange_ == 0 || next_ != exchanges_.size())) {
    return requestError(wire::ErrorCode_Internal, "the worker begins a step before the last one has had its " +
                                                      Twine(exchanges_.size()) + " exchanges");
  }
  auto own = [&]() -> llvm::Expected<std::shared_ptr<Buffer>> {
    if (llvm::Error error = checkTerms(frames, number)) {
      return error;
    }
    const StepPoint point{point_.sequence, point_.attempt, point_.step + (before ? 1 : 0)};
    return masked(exchanges_[number], point, number, std::move(frames[0]));
  }();
  if (!own && isEnded_) {
    return own.takeError();
  }
  if (!own) {
    if (llvm::Error error = before ? ready(before->copies) : llvm::Error::success()) {
      llvm::consumeError(own.takeError());
      return error;
    }
    if (before) {
      before->commit();
    }
    return own.takeError();
  }
  const Exchange &terms = exchanges_[number];
  const FramePlaces whole = placesOfSums(terms);
  const bool isScattered = group_.parties() >= 3 && whole.bytes >= kScatterBytesLeast;
  if (isScattered) {
    *own = scatter(terms, *own, before);
  } else {
    PeerFrame frame = termsFrame(before);
    frame.terms = *own;
    group_.send(frame);
  }
  if (llvm::Error error = before ? commit(*before) : llvm::Error::success()) {
    return error;
  }
  next_ = number + 1; // once each: an exchange has one stream of masks
  auto each = awaitTerms(std::move(*own));
  if (!isScattered) {
    auto sums = each ? sum(terms, {}, *each, room) : each.takeError();
    if (!sums) {
      return sums.takeError();
    }
    settle(terms);
    return Memory{std::move(*sums)};
  }
  const Share share{group_.role(), group_.parties()};
  auto part = each ? sum(terms, share, *each, ownRoom) : each.takeError();
  auto parts = part ? gather(std::move(*part)) : part.takeError();
  if (!parts) {
    return parts.takeError();
  }
  settle(terms);
  auto sums = room(whole.bytes);
  clearPadding(terms, whole, bytesOf(*sums));
  for (unsigned role = 0; role < group_.parties(); ++role) {
    const Share theirs{role, group_.parties()};
    const FramePlaces places = placesOfSums(terms, theirs);
    const size_t bytes = (*parts)[role] ? (*parts)[role]->size() : 0;
    if (bytes != places.bytes) {
      return requestError(wire::ErrorCode_Peer, group_.nameOf(role) + " sent " + Twine(bytes) +
                                                    " bytes in an exchange, expected " + Twine(places.bytes));
    }
    if (bytes > 0) {
      pasteShare(terms, theirs, places, bytesOf(*(*parts)[role]), whole, bytesOf(*sums));
    }
  }
  return Memory{std::move(sums)};
}

/// All have sent masked terms: so they have the keys.
void JointMessage::settle(const Exchange &terms) {
  if (llvm::any_of(terms, [](const ExchangeTerm &term) { return term.isMasked; })) {
    group_.settleKeys();
  }
}

void JointMessage::sendReady(const runtime::CopiesDigest &own) {
  PeerFrame ready = frame(PeerFrame::Kind::Ready);
  ready.digest = digestOf(own);
  group_.send(ready);
}

/// Waits until all are ready. The roles whose copies differ from those of role 0, bit by bit.
llvm::Expected<uint32_t> JointMessage::awaitReady(const runtime::CopiesDigest &own) {
  auto came = await(PeerFrame::Kind::Ready, nullptr);
  if (!came) {
    return came.takeError();
  }
  const auto digestAt = [&](unsigned role) {
    return role == group_.role() ? digestOf(own) : came->frames[role]->digest;
  };
  uint32_t others = 0;
  for (unsigned role = 1; role < group_.parties(); ++role) {
    others |= digestAt(role) != digestAt(0) ? 1u << role : 0;
  }
  return others;
}

/// From role 0 to the others that differ; all other frames are empty.
llvm::Error JointMessage::exchangePiece(Copies &copies, size_t bytes, uint32_t others) {
  const std::shared_ptr<Buffer> none = runtime::copyOf("", 0);
  auto piece = group_.role() == 0 ? copies.read(bytes) : none;
  if (!piece) {
    return piece.takeError();
  }
  for (unsigned role = 0; role < group_.parties(); ++role) {
    if (role != group_.role()) {
      PeerFrame frame = this->frame(PeerFrame::Kind::Terms);
      frame.terms = others >> role & 1 ? *piece : none;
      group_.sendTo(role, frame);
    }
  }
  auto came = awaitTerms(none);
  if (!came) {
    return came.takeError();
  }
  const bool takes = others >> group_.role() & 1;
  for (unsigned role = 0; role < group_.parties(); ++role) {
    const size_t got = (*came)[role] ? (*came)[role]->size() : 0, expected = takes && role == 0 ? bytes : 0;
    if (got != expected) {
      return requestError(wire::ErrorCode_Peer, group_.nameOf(role) + " sent " + Twine(got) +
                                                    " bytes of values that all members have, expected " +
                                                    Twine(expected));
    }
  }
  return takes ? copies.replace({static_cast<const uint8_t *>((*came)[0]->data()), bytes}) : llvm::Error::success();
}

/// Once for a group, by role 0.
void JointMessage::tell(Copies &copies, uint32_t others) const {
  if (group_.role() != 0 || group_.isTold) {
    return;
  }
  std::string names;
  for (unsigned role = 1; role < group_.parties(); ++role) {
    names += others >> role & 1 ? (names.empty() ? "" : ", ") + group_.nameOf(role) : "";
  }
  copies.tell(names + " computed other bits than " + group_.nameOf(0) +
              " of values that all members of this group have: processors with other instructions round otherwise. The "
              "first member's " +
              std::to_string(copies.bytes()) +
              " bytes were taken over. Each step with other bits does so, and takes more waits; this is told once, and "
              "'sojourn-owner status' of a member that takes over counts steps and bytes");
}

llvm::Error JointMessage::takeOver(Copies &copies, uint32_t others) {
  uint64_t left = copies.bytes();
  do {
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(left, kPieceBytes));
    if (llvm::Error error = exchangePiece(copies, bytes, others)) {
      return error;
    }
    left -= bytes;
  } while (left > 0);
  tell(copies, others);
  sendReady(copies.digest());
  auto still = awaitReady(copies.digest());
  if (!still) {
    return still.takeError();
  }
  if (*still != 0) {
    return requestError(wire::ErrorCode_Peer, "values that all members have still differ at " +
                                                  group_.nameOf(static_cast<unsigned>(llvm::countr_zero(*still))) +
                                                  " after they were taken over; nothing was committed here");
  }
  group_.isTold = true;
  if (others >> group_.role() & 1) {
    group_.tookOver(copies.bytes());
  }
  return llvm::Error::success();
}

llvm::Error JointMessage::ready(Copies &copies) {
  if (exchange_ == 0) { // no terms have shown that all members have begun the step
    auto begun = gather(runtime::copyOf("", 0));
    if (!begun) {
      return begun.takeError();
    }
  }
  sendReady(copies.digest());
  auto areEqual = agree(copies);
  if (!areEqual) {
    return areEqual.takeError();
  }
  beginNext();
  return llvm::Error::success();
}

/// All members have equal copies once they are ready. Whether they had them before.
llvm::Expected<bool> JointMessage::agree(Copies &copies) {
  auto others = awaitReady(copies.digest());
  if (!others || *others == 0) {
    return others ? llvm::Expected<bool>(true) : others.takeError();
  }
  group_.dropLater(point_);
  group_.hasOtherBits = true;
  if (llvm::Error error = takeOver(copies, *others)) {
    return error;
  }
  return false;
}

void JointMessage::beginNext() {
  ++point_.step;
  exchange_ = 0;
  next_ = 0;
}

/// Commits the current step, whose Ready has gone with terms of the next one.
llvm::Error JointMessage::commit(const RanStep &before) {
  auto areEqual = agree(before.copies);
  if (!areEqual) {
    return areEqual.takeError();
  }
  beginNext();
  before.commit();
  if (!*areEqual) {
    isOver_ = true;
    end(PeerFrame::kNoFailure);
    return requestError(wire::ErrorCode_Peer, "members of the group compute other bits; the message ends, and its "
                                              "steps that are left come in another one");
  }
  return llvm::Error::success();
}

void JointMessage::end(uint8_t code, unsigned endedBy) {
  if (isEnded_ || point_.step >= steps_) {
    return;
  }
  isEnded_ = true;
  if (!isBegun_) { // the request may repeat one that has begun, or has committed
    return group_.refuse(point_, code);
  }
  PeerFrame last = frame(PeerFrame::Kind::End);
  last.code = code;
  last.endedBy = static_cast<uint8_t>(endedBy);
  group_.send(last);
  group_.close(point_);
}

} // namespace sojourn::owner
