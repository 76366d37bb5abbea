// SPDX-License-Identifier: Apache-2.0
// A message of joint steps at one member: exchanges, and the commit of each step by all members or by none.
#ifndef SOJOURN_OWNER_PEERS_JOINTMESSAGE_H
#define SOJOURN_OWNER_PEERS_JOINTMESSAGE_H

#include "owner/RequestError.h"
#include "owner/peers/Group.h"
#include "owner/worker/Port.h"
#include "runtime/CopiesDigest.h"
#include "runtime/Exchange.h"
#include "runtime/Stop.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace sojourn::owner {

/// Results of a step that all members have, as this one has computed them: bytes of all of them, one after another.
/// Their number is the plan's, the same at all members.
class Copies {
public:
  virtual ~Copies() = default;
  virtual uint64_t bytes() const = 0;
  /// Of the bytes that were computed; once all are replaced, of the new ones.
  virtual runtime::CopiesDigest digest() const = 0;
  /// The next bytes.
  virtual llvm::Expected<std::shared_ptr<runtime::Buffer>> read(size_t bytes) = 0;
  /// Others in the place of the next bytes. RequestErrors: no values of their types (Peer).
  virtual llvm::Error replace(llvm::ArrayRef<uint8_t> bytes) = 0;
  /// A note for the client, told with the step.
  virtual void tell(std::string note) = 0;
};

/// A step that has run and has not committed, while the next one of its message has begun.
struct RanStep {
  Copies &copies;
  llvm::function_ref<void()> commit; ///< once all members are ready; throws nothing
};

/// Used by the thread that has the session's turn. Errors of its calls end the message: the other members are told when
/// it is destroyed, or earlier by `end`.
class JointMessage {
public:
  /// `steps`: of the message, whose first one is `first`. `most`: how long an exchange waits for another member.
  /// `hasMasks`: some exchange of its steps may be masked.
  JointMessage(Group &group, const StepPoint &first, const MessageDigest &digest, size_t steps, bool hasMasks,
               const runtime::StopFlag &stop, std::chrono::milliseconds most)
      : group_(group), digest_(digest), steps_(steps), hasMasks_(hasMasks), stop_(stop), most_(most), point_(first) {}
  ~JointMessage() { end(wire::ErrorCode_Internal); }
  JointMessage(const JointMessage &) = delete;
  JointMessage &operator=(const JointMessage &) = delete;

  const Group &group() const { return group_; }
  bool hasMasks() const { return hasMasks_; }
  /// Before the first step. RequestError (Peer): this attempt has begun here before, so that frames of it are on their
  /// way, or taken.
  /// `exchanges`: of each step, which outlive this message.
  llvm::Error begin(llvm::ArrayRef<runtime::Exchange> exchanges);
  /// Memory for sums of so many bytes. Throws std::bad_alloc.
  using Room = llvm::function_ref<std::shared_ptr<runtime::Buffer>(size_t)>;
  static std::shared_ptr<runtime::Buffer> ownRoom(size_t bytes) {
    return runtime::BufferPool::global().allocate(bytes);
  }
  /// Sends this member's terms, masked where the exchange says so, and gives the sums; both are one frame.
  /// `before`: the current step; the terms are the first ones of the next step, and carry that the current one is
  /// ready. It is committed as by `ready`, also where the next step fails or is stopped. Where copies differ, the
  /// message ends after it (isOver): the terms were computed from copies in whose place others have come.
  llvm::Expected<Memory> exchange(Memory frames, Room room = ownRoom, const RanStep *before = nullptr);
  /// The step has run. Waits for all members: on success each of them commits it, and the next step of the message is
  /// the current one. No stop ends this wait, since others may have committed; it ends, since all have begun the step.
  /// Members whose copies have other bits than those of role 0 take over its bytes before, which a stop ends.
  llvm::Error ready(Copies &copies);
  /// No step from the current one on commits. kNoFailure: none begins, which is no failure of those before.
  void end(uint8_t code) { end(code, group_.role()); }
  /// There is no joint step: the request is answered from memory, or lacks its program.
  void cancel() { isEnded_ = true; }
  /// Whether the worker may run some of its steps in one call: each of them has exchanges, and members compute the same
  /// bits.
  bool letsStepsFollow() const { return !exchanges_.empty() && !group_.hasOtherBits; }
  /// Whether another member let the message end after the steps that have committed, without a failure.
  bool isOver() const { return isOver_; }

private:
  void end(uint8_t code, unsigned endedBy);
  llvm::Expected<CameFrames> await(PeerFrame::Kind kind, const runtime::StopFlag *stop);
  PeerFrame frame(PeerFrame::Kind kind) const;
  PeerFrame termsFrame(const RanStep *before) const;
  using Frames = std::vector<std::shared_ptr<runtime::Buffer>>; ///< by role
  llvm::Error checkTerms(const Memory &frames, size_t exchange) const;
  void sendReady(const runtime::CopiesDigest &own);
  llvm::Expected<uint32_t> awaitReady(const runtime::CopiesDigest &own);
  llvm::Expected<bool> agree(Copies &copies);
  void beginNext();
  llvm::Error takeOver(Copies &copies, uint32_t others);
  llvm::Error exchangePiece(Copies &copies, size_t bytes, uint32_t others);
  void tell(Copies &copies, uint32_t others) const;
  void settle(const runtime::Exchange &terms);
  llvm::Expected<Frames> gather(std::shared_ptr<runtime::Buffer> own);
  llvm::Expected<Frames> awaitTerms(std::shared_ptr<runtime::Buffer> own);
  std::shared_ptr<runtime::Buffer> scatter(const runtime::Exchange &terms, const std::shared_ptr<runtime::Buffer> &own,
                                           const RanStep *before);
  llvm::Error commit(const RanStep &before);
  llvm::Expected<std::shared_ptr<runtime::Buffer>> sum(const runtime::Exchange &terms, runtime::Share share,
                                                       const Frames &frames, Room room);
  llvm::Expected<std::shared_ptr<runtime::Buffer>> masked(const runtime::Exchange &terms, const StepPoint &point,
                                                          size_t exchange, std::shared_ptr<runtime::Buffer> own);

  Group &group_;
  const MessageDigest digest_;
  const size_t steps_;
  const bool hasMasks_;
  const runtime::StopFlag &stop_;
  const std::chrono::milliseconds most_;
  StepPoint point_;
  llvm::ArrayRef<runtime::Exchange> exchanges_;
  size_t next_ = 0;       ///< of them
  uint32_t exchange_ = 0; ///< frames that each member has sent in this step
  bool isBegun_ = false, isEnded_ = false, isOver_ = false;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PEERS_JOINTMESSAGE_H
