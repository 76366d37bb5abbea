// SPDX-License-Identifier: Apache-2.0
// Frames of members by role, and the wait for them (see Group.h).
#include "owner/peers/Group.h"

#include "owner/RequestError.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"

namespace sojourn::owner {

using llvm::Twine;

/// How often a wait looks at its stop flag.
static constexpr std::chrono::milliseconds kLookEvery{20};

uint64_t Group::newNumber() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

Group::Group(std::shared_ptr<GroupPort> port, const GroupId &id, unsigned role, std::vector<signing::PublicKey> members,
             std::shared_ptr<WaitingBytes> waiting)
    : waitingOfClient(std::move(waiting)), port(std::move(port)), id(id), ownRole(role), members(std::move(members)),
      inboxes(this->members.size()) {}

Group::~Group() {
  if (!isForgotten) {
    PeerFrame gone;
    gone.kind = PeerFrame::Kind::Gone;
    send(gone);
  }
}

std::string Group::nameOf(unsigned role) const {
  return "member " + std::to_string(role) + " (the owner with key " + signing::shortKeyText(members[role]) + ")";
}

bool Group::hasMember(const signing::PublicKey &member) const {
  return member != members[ownRole] && llvm::is_contained(members, member);
}

/// Null for strangers, and for this owner itself.
Group::Inbox *Group::inboxOf(const signing::PublicKey &member) {
  return hasMember(member) ? &inboxes[static_cast<size_t>(llvm::find(members, member) - members.begin())] : nullptr;
}

void Group::lose(const signing::PublicKey &member) {
  if (Inbox *inbox = inboxOf(member)) {
    std::lock_guard lock(mutex);
    inbox->isLost |= !inbox->isGone;
    inbox->isGone = true;
    came.notify_all();
  }
}

void Group::send(const PeerFrame &frame) {
  for (unsigned role = 0; role < parties(); ++role) {
    if (role != ownRole) {
      port->send(members[role], id, frame);
    }
  }
}

/// An end counts for later steps of its message, too: its sender may have failed one that is committed here.
static void raiseEnd(PeerFrame &frame, const StepPoint &current) {
  const StepPoint &own = frame.point;
  if (frame.kind == PeerFrame::Kind::End && own.sequence == current.sequence && own.attempt == current.attempt &&
      own < current) {
    frame.point = current;
  }
}

/// Frames of earlier points are of no use from now on. Under the lock.
void Group::raise(const StepPoint &point) {
  if (!(current < point)) {
    return;
  }
  current = point;
  for (Inbox &inbox : inboxes) {
    for (PeerFrame &frame : inbox.frames) {
      raiseEnd(frame, point);
    }
    llvm::erase_if(inbox.frames, [&](const PeerFrame &frame) { return frame.point < point; });
    inbox.isBroken = false; // at an earlier one
  }
}

llvm::Error Group::begin(const StepPoint &first) {
  std::lock_guard lock(mutex);
  if (!(current < first)) {
    return requestError(wire::ErrorCode_Peer,
                        "attempt " + Twine(first.attempt) + " at message " + Twine(first.sequence) +
                            " of the group has begun here before, or a later one; number each attempt anew");
  }
  raise(first);
  return llvm::Error::success();
}

void Group::close(const StepPoint &last) {
  std::lock_guard lock(mutex);
  raise({last.sequence, last.attempt, UINT32_MAX});
}

void Group::refuse(const StepPoint &first, uint8_t code) {
  {
    std::lock_guard lock(mutex);
    if (!(current < first)) { // it has begun here, and may have committed
      return;
    }
    raise({first.sequence, first.attempt, UINT32_MAX});
  }
  PeerFrame last;
  last.kind = PeerFrame::Kind::End;
  last.point = first;
  last.code = code;
  last.endedBy = static_cast<uint8_t>(ownRole);
  send(last);
}

void Group::dropLater(const StepPoint &point) {
  std::lock_guard lock(mutex);
  for (Inbox &inbox : inboxes) {
    llvm::erase_if(inbox.frames, [&](const PeerFrame &frame) {
      return frame.kind == PeerFrame::Kind::Terms && frame.point.sequence == point.sequence &&
             frame.point.attempt == point.attempt && point < frame.point;
    });
  }
}

/// Whether an end of the same member's makes an earlier frame of no use.
static bool endsFrame(const PeerFrame &end, const PeerFrame &earlier) {
  return end.kind == PeerFrame::Kind::End && earlier.point.sequence == end.point.sequence &&
         earlier.point.attempt == end.point.attempt && end.point <= earlier.point;
}

/// The Ready that goes with terms, taken from them.
static std::optional<PeerFrame> takeReady(PeerFrame &terms) {
  if (terms.readyExchange == 0) {
    return std::nullopt;
  }
  PeerFrame ready;
  ready.kind = PeerFrame::Kind::Ready;
  ready.point = terms.point;
  --ready.point.step;
  ready.exchange = std::exchange(terms.readyExchange, 0);
  ready.digest = terms.readyDigest;
  return ready;
}

void Group::take(const signing::PublicKey &from, PeerFrame frame) {
  Inbox *found = inboxOf(from);
  if (!found) {
    return;
  }
  std::unique_lock lock(mutex);
  Inbox &inbox = *found;
  if (inbox.isGone) {
    return;
  }
  if (frame.kind == PeerFrame::Kind::Key) {
    inbox.hasTwoKeys |= inbox.key && *inbox.key != frame.digest;
    inbox.key = inbox.key.value_or(frame.digest);
    lock.unlock(); // who wakes takes it
    came.notify_all();
    return;
  }
  raiseEnd(frame, current);
  llvm::erase_if(inbox.frames, [&](const PeerFrame &earlier) {
    return endsFrame(frame, earlier) ||
           (earlier.point.sequence == frame.point.sequence && earlier.point.attempt < frame.point.attempt);
  });
  if (frame.kind == PeerFrame::Kind::Gone) {
    inbox.isGone = true;
  } else if (frame.point < current || inbox.isBroken) {
    return;
  } else if (auto ready = takeReady(frame); inbox.frames.size() + (ready ? 2 : 1) > kWaitingMost) {
    inbox.isBroken = true;
  } else {
    if (ready && !(ready->point < current)) {
      inbox.frames.push_back(std::move(*ready));
    }
    inbox.frames.push_back(std::move(frame));
  }
  lock.unlock();
  came.notify_all();
}

llvm::Error Group::wrong(unsigned role, const Twine &what) const {
  return requestError(wire::ErrorCode_Peer, nameOf(role) + what);
}

/// Of a member without a frame at `point`: whether one may come. Under the lock.
llvm::Error Group::checkMember(unsigned role, const StepPoint &point) const {
  const Inbox &inbox = inboxes[role];
  if (inbox.isBroken) {
    return wrong(role, " sent more frames than a step has");
  }
  if (inbox.hasTwoKeys) {
    return wrong(role, " sent two keys for masks; make a new group");
  }
  if (inbox.isLost) {
    return wrong(role, " is not reachable any more: the link with it has ended, and with it the group; make a new one "
                       "and start from a checkpoint");
  }
  if (inbox.isGone) {
    return wrong(role, " has left the group: its session ended, and with it its values of the group");
  }
  if (!inbox.frames.empty() && inbox.frames.front().point != point) { // its frames come in order
    return wrong(role, " has gone on to another message, or another attempt at this one");
  }
  return llvm::Error::success();
}

/// Why terms of a member were dropped. `part`: of the client.
static std::string withoutRoom(PeerFrame::Dropped dropped, size_t part) {
  const std::string begin = " sent more than this owner keeps of values that wait for ";
  const std::string setting = "its setting groups.waiting_bytes";
  switch (dropped) {
  case PeerFrame::Dropped::group:
    return begin + "one group, a quarter of " + setting + "; sum smaller tensors in a step, or ask its data owner";
  case PeerFrame::Dropped::client:
    return begin +
           (part == WaitingBytes::kPartOfAnonymous ? "the groups of clients without an identity, a quarter of "
                                                   : "the groups of one client, half of ") +
           setting + "; run fewer groups at a time, or ask its data owner";
  default: return begin + "its steps in all, " + setting + "; try again later, or ask its data owner";
  }
}

/// False while frames are missing; `missing`: of which member first.
llvm::Expected<bool> Group::find(const StepPoint &point, PeerFrame::Kind kind, uint32_t exchange,
                                 const MessageDigest &digest, CameFrames &found, unsigned &missing) {
  bool isComplete = true;
  for (unsigned role = 0; role < parties(); ++role) {
    Inbox &inbox = inboxes[role];
    if (role == ownRole) {
      continue;
    }
    const bool isHere = !inbox.frames.empty() && inbox.frames.front().point == point;
    if (!isHere) {
      if (llvm::Error error = checkMember(role, point)) {
        return error;
      }
      missing = isComplete ? role : missing;
      isComplete = false;
      continue;
    }
    const PeerFrame &first = inbox.frames.front();
    if (first.kind == PeerFrame::Kind::End) {
      found.endedBy = first.endedBy < parties() && first.endedBy != ownRole ? first.endedBy : role;
      found.code = first.code;
      return true;
    }
    if (first.kind != PeerFrame::Kind::Ready && first.digest != digest) {
      return wrong(role, " was sent another message of this step; the client sends all members the same");
    }
    if (first.dropped != PeerFrame::Dropped::no) {
      return wrong(role, withoutRoom(first.dropped, waitingOfClient->part));
    }
    if (first.kind != kind || first.exchange != exchange) {
      return wrong(role, " sent a frame of another exchange of this step");
    }
  }
  for (unsigned role = 0; isComplete && role < parties(); ++role) {
    if (role != ownRole) {
      auto &frames = inboxes[role].frames;
      found.frames[role] = std::move(frames.front());
      frames.erase(frames.begin());
    }
  }
  return isComplete;
}

/// Until something may have come from a member.
llvm::Error Group::waitMore(std::unique_lock<std::mutex> &lock, Wait &wait, unsigned role) {
  if (wait.stop && wait.stop->load()) {
    return requestError(wire::ErrorCode_Stopped, "the step was stopped while it waited for other owners");
  }
  if (wait.stop && std::chrono::steady_clock::now() >= wait.until) {
    std::string missing;
    for (unsigned role = 0; role < parties(); ++role) {
      const bool isHere = role == ownRole || llvm::any_of(inboxes[role].frames, [&](const PeerFrame &frame) {
                            return frame.point == wait.point;
                          });
      missing += isHere ? "" : (missing.empty() ? "" : ", ") + nameOf(role);
    }
    return requestError(wire::ErrorCode_Stopped, "the step waited " + Twine(wait.most.count() / 1000) + " s for " +
                                                     missing + ", and was given up; nothing of it was committed");
  }
  if (wait.reads) { // else something may have come since it was looked for
    lock.unlock();
    wait.reads = port->receive(members[role], kLookEvery);
    lock.lock();
  } else {
    came.wait_for(lock, kLookEvery);
    wait.reads = true;
  }
  return llvm::Error::success();
}

llvm::Expected<CameFrames> Group::await(const StepPoint &point, PeerFrame::Kind kind, uint32_t exchange,
                                        const MessageDigest &digest, const runtime::StopFlag *stop,
                                        std::chrono::milliseconds most) {
  Wait wait{point, stop, most};
  CameFrames frames;
  std::unique_lock lock(mutex);
  raise(point);
  waits = true;
  const llvm::scope_exit ended([this] { waits = false; });
  for (;;) {
    unsigned missing = 0;
    auto found = find(point, kind, exchange, digest, frames, missing);
    if (!found) {
      return found.takeError();
    }
    if (*found) {
      return frames;
    }
    if (llvm::Error error = waitMore(lock, wait, missing)) {
      return error;
    }
  }
}

void Group::offerKey() {
  if (!areKeysSettled) {
    PeerFrame frame;
    frame.kind = PeerFrame::Kind::Key;
    frame.digest = maskKeys.publicKey();
    send(frame);
  }
}

llvm::Expected<MaskKeys> Group::awaitKeys(const StepPoint &point, const runtime::StopFlag &stop,
                                          std::chrono::milliseconds most) {
  Wait wait{point, &stop, most};
  std::unique_lock lock(mutex);
  raise(point);
  waits = true;
  const llvm::scope_exit ended([this] { waits = false; });
  const auto hasEnd = [&] {
    return llvm::any_of(inboxes, [&](const Inbox &inbox) {
      return !inbox.frames.empty() && inbox.frames.front().point == point &&
             (inbox.frames.front().kind == PeerFrame::Kind::End || !inbox.key);
    });
  };
  for (unsigned role = 0; role < parties(); ++role) {
    const Inbox &inbox = inboxes[role];
    while (role != ownRole && !inbox.key) {
      if (hasEnd()) { // which the wait for terms finds
        return MaskKeys();
      }
      llvm::Error error = checkMember(role, point);
      error = error ? std::move(error) : waitMore(lock, wait, role);
      if (error) {
        return error;
      }
    }
    if (role != ownRole && !sharedKeys.count(role)) {
      const bool isTaken = llvm::any_of(inboxes, [&](const Inbox &other) {
        return &other != &inbox && other.key == inbox.key; // which would make two pairs' masks alike
      });
      auto shared = isTaken ? std::nullopt : maskKeys.sharedWith(*inbox.key, ownRole < role);
      if (!shared) {
        return wrong(role,
                     isTaken ? " sent the key for masks of another member" : " sent bytes that are no key for masks");
      }
      sharedKeys[role] = std::move(*shared);
    }
  }
  return sharedKeys;
}

} // namespace sojourn::owner
