// SPDX-License-Identifier: Apache-2.0
// Frames of members by role, and the wait for them (see Group.h).
#include "owner/peers/Group.h"

#include "owner/RequestError.h"

#include "llvm/ADT/STLExtras.h"

namespace sojourn::owner {

using llvm::Twine;

/// How often a wait looks at its stop flag.
static constexpr std::chrono::milliseconds kLookEvery{20};

Group::Group(std::shared_ptr<GroupPort> port, const GroupId &id, unsigned role, std::vector<signing::PublicKey> members)
    : port(std::move(port)), id(id), ownRole(role), members(std::move(members)), inboxes(this->members.size()) {}

Group::~Group() {
  PeerFrame gone;
  gone.kind = PeerFrame::Kind::Gone;
  send(gone);
  port->leave(id);
}

std::string Group::nameOf(unsigned role) const {
  return "member " + std::to_string(role) + " (the owner with key " + signing::shortKeyText(members[role]) + ")";
}

void Group::send(const PeerFrame &frame) {
  for (unsigned role = 0; role < parties(); ++role) {
    if (role != ownRole) {
      port->send(members[role], id, frame);
    }
  }
}

void Group::take(const signing::PublicKey &from, const PeerFrame &frame) {
  const auto member = llvm::find(members, from);
  if (member == members.end() || from == members[ownRole]) {
    return;
  }
  std::lock_guard lock(mutex);
  Inbox &inbox = inboxes[static_cast<size_t>(member - members.begin())];
  if (frame.kind == PeerFrame::Kind::Gone) {
    inbox.isGone = true;
  } else if (frame.point < current || inbox.isBroken) {
    return;
  } else if (inbox.frames.size() >= kWaitingMost) {
    inbox.isBroken = true;
  } else {
    inbox.frames.push_back(frame);
  }
  came.notify_all();
}

/// Nothing while frames are missing.
llvm::Expected<std::optional<CameFrames>> Group::find(const StepPoint &point, PeerFrame::Kind kind, uint32_t exchange,
                                                      const MessageDigest &digest) {
  auto wrong = [&](unsigned role, const Twine &what) {
    return requestError(wire::ErrorCode_Peer, nameOf(role) + what);
  };
  CameFrames found{std::vector<std::optional<PeerFrame>>(parties()), std::nullopt};
  bool isComplete = true;
  for (unsigned role = 0; role < parties(); ++role) {
    Inbox &inbox = inboxes[role];
    std::erase_if(inbox.frames, [&](const PeerFrame &frame) { return frame.point < point; });
    if (role == ownRole) {
      continue;
    }
    const bool isHere = !inbox.frames.empty() && inbox.frames.front().point == point;
    if (isHere && inbox.frames.front().kind == PeerFrame::Kind::End) {
      found.endedBy = role;
      found.code = inbox.frames.front().code;
      return found;
    }
    if (isHere && inbox.frames.front().digest != digest) {
      return wrong(role, " was sent another message of this step; the client sends all members the same");
    }
    if (isHere && (inbox.frames.front().kind != kind || inbox.frames.front().exchange != exchange)) {
      return wrong(role, " sent a frame of another exchange of this step");
    }
    if (isHere) {
      found.frames[role] = inbox.frames.front();
    } else if (inbox.isBroken) {
      return wrong(role, " sent more frames than a step has");
    } else if (inbox.isGone) {
      return wrong(role, " has left the group: its session ended, and with it its values of the group");
    }
    isComplete &= isHere;
  }
  if (!isComplete) {
    return std::nullopt;
  }
  for (unsigned role = 0; role < parties(); ++role) {
    if (role != ownRole) {
      inboxes[role].frames.pop_front();
    }
  }
  return found;
}

llvm::Expected<CameFrames> Group::await(const StepPoint &point, PeerFrame::Kind kind, uint32_t exchange,
                                        const MessageDigest &digest, const runtime::StopFlag *stop,
                                        std::chrono::milliseconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  std::unique_lock lock(mutex);
  if (current < point) {
    current = point;
    for (Inbox &inbox : inboxes) {
      inbox.isBroken = false; // at an earlier one
    }
  }
  for (;;) {
    auto found = find(point, kind, exchange, digest);
    if (!found) {
      return found.takeError();
    }
    if (*found) {
      return std::move(**found);
    }
    if (stop && stop->load()) {
      return requestError(wire::ErrorCode_Stopped, "the step was stopped while it waited for other owners");
    }
    if (stop && std::chrono::steady_clock::now() >= until) {
      std::string missing;
      for (unsigned role = 0; role < parties(); ++role) {
        const bool isHere = role == ownRole || llvm::any_of(inboxes[role].frames, [&](const PeerFrame &frame) {
                              return frame.point == point;
                            });
        missing += isHere ? "" : (missing.empty() ? "" : ", ") + nameOf(role);
      }
      return requestError(wire::ErrorCode_Stopped, "the step waited " + Twine(most.count() / 1000) + " s for " +
                                                       missing + ", and was given up; nothing of it was committed");
    }
    came.wait_for(lock, kLookEvery);
  }
}

} // namespace sojourn::owner
