// SPDX-License-Identifier: Apache-2.0
// Sessions of groups: how they begin, and values that they take over from other sessions.
#include "dialect/Bounds.h"
#include "owner/OwnerState.h"
#include "owner/Reply.h"
#include "owner/peers/Digest.h"
#include "runtime/wire/Step.h"

#include "llvm/ADT/ScopeExit.h"

#include <map>
#include <set>

namespace sojourn::owner {

using llvm::Twine;

/// In the session's turn; its steps are joint from now on.
llvm::Expected<sojourn::wire::Message> OwnerState::join(const wire::Join &request) {
  constexpr size_t kNonceBytes = 32, kKeyBytes = sizeof(signing::PublicKey);
  const size_t nonce = request.nonce() ? request.nonce()->size() : 0;
  const size_t count = request.members() ? request.members()->size() : 0;
  if (nonce != kNonceBytes || count < bounds::kPartiesLeast || count > bounds::kPartiesMost) {
    return requestError(wire::ErrorCode_Malformed, "a group has " + Twine(count) + " members and a nonce of " +
                                                       Twine(nonce) + " bytes, expected " +
                                                       Twine(bounds::kPartiesLeast) + " to " +
                                                       Twine(bounds::kPartiesMost) + " members and 32 bytes");
  }
  std::vector<signing::PublicKey> members(count);
  for (size_t role = 0; role < count; ++role) {
    const auto *key = request.members()->Get(static_cast<flatbuffers::uoffset_t>(role))->key();
    if (!key || key->size() != kKeyBytes) {
      return requestError(wire::ErrorCode_Malformed, "member " + Twine(role) + " of the group has a key of " +
                                                         Twine(key ? key->size() : 0) + " bytes, expected " +
                                                         Twine(kKeyBytes));
    }
    std::copy(key->begin(), key->end(), members[role].begin());
  }
  auto session = SessionTurn::take(mutex, sessions, request.session());
  if (!session) {
    return session.takeError();
  }
  Session &own = **session->get();
  if (own.group || own.last.sequence != 0 || !own.handles.empty() || !own.uploads.empty()) {
    return requestError(wire::ErrorCode_Malformed, "a session joins a group once, before its first step and upload");
  }
  const std::string_view bytes(reinterpret_cast<const char *>(request.nonce()->data()), nonce);
  auto group = peers->join(groupIdOf(bytes, own.key, members), request.role(), members, own.account);
  if (!group) {
    return group.takeError();
  }
  std::lock_guard lock(mutex);
  auto sharesSums = store->sharesSums(members, own.account);
  if (!sharesSums) {
    return sharesSums.takeError();
  }
  own.group = std::move(*group);
  return joinedReply(*sharesSums);
}

/// In the turn of the session that has them: while a step is under way there, values and their labels do not fit.
llvm::Expected<OwnerState::Lent> OwnerState::lent(const wire::Borrow &request) {
  auto turn = SessionTurn::take(mutex, sessions, request.from());
  if (!turn) {
    return turn.takeError();
  }
  const Session &from = ***turn;
  std::lock_guard lock(mutex);
  const Session *own = sessions.look(request.session());
  const bool isSame = own && from.account == own->account && from.key == own->key;
  Lent found{{}, from.group != nullptr};
  std::map<LabelPtr, LabelPtr> outside; ///< of the group
  for (uint64_t id : sojourn::wire::numbersOf(request.handles())) {
    auto handle = isSame ? from.handles.find(id) : from.handles.end();
    if (handle == from.handles.end() || !handle->second.memory) {
      return requestError(wire::ErrorCode_Handle, "no session of this client has handle " + Twine(id));
    }
    Handle &taken = found.handles.emplace_back(handle->second);
    taken.named = nullptr; // commits of the other session change a value of their own
    taken.copiesAt = 0;
    if (from.group) {
      LabelPtr &label = outside[taken.label];
      label = label ? label : Label::within(taken.label, from.group->keys());
      taken.label = label;
      taken.held = heldBytes(taken.value.type, label);
    }
  }
  return found;
}

/// Values that follow from another group stay among its members.
llvm::Error OwnerState::checkAudience(const std::vector<Handle> &handles, const Group &to) {
  for (const Handle &handle : handles) {
    for (unsigned role = 0; handle.label && handle.label->audience() && role < to.parties(); ++role) {
      if (!handle.label->audience()->contains(to.member(role))) {
        return requestError(wire::ErrorCode_Refused,
                            "a value follows from what members of another group showed each other, and " +
                                to.nameOf(role) +
                                " is none of them; compute it from tables that are shared with all members of this "
                                "group, or publish it first");
      }
    }
  }
  return llvm::Error::success();
}

llvm::Error OwnerState::checkBorrow(const wire::Borrow &request, const Lent &lent, const Session &to) const {
  const std::vector<uint64_t> ids = sojourn::wire::numbersOf(request.as());
  const size_t handles = request.handles() ? request.handles()->size() : 0;
  if (!(to.group || lent.isOfGroup) || ids.size() != handles || request.from() == request.session()) {
    return requestError(wire::ErrorCode_Malformed,
                        to.group || lent.isOfGroup
                            ? Twine(handles) + " values of another session get " + Twine(ids.size()) + " handles"
                            : Twine("values go from a session to one of a group, or from that, and neither of these "
                                    "two is one"));
  }
  if (llvm::Error error = to.group ? checkAudience(lent.handles, *to.group) : llvm::Error::success()) {
    return error;
  }
  std::set<uint64_t> distinct;
  for (uint64_t id : ids) {
    if (to.hasHandle(id) || !distinct.insert(id).second) {
      return requestError(wire::ErrorCode_Malformed,
                          "handle id " + Twine(id) + " is in use, expected one that this session does not have");
    }
  }
  if (to.handles.size() + to.elsewhere.size() + ids.size() > limits.handlesPerSession) {
    return requestError(wire::ErrorCode_Limit, "this owner holds up to " + Twine(limits.handlesPerSession) +
                                                   " handles per session: delete tensors that are no longer needed");
  }
  return llvm::Error::success();
}

/// No request has two turns at a time: the values are taken over in the one turn, and entered in the other.
llvm::Expected<sojourn::wire::Message> OwnerState::borrow(const wire::Borrow &request) {
  const size_t handles = request.handles() ? request.handles()->size() : 0;
  if (handles > limits.handlesPerSession) { // before as many records are made
    return requestError(wire::ErrorCode_Limit, "a request takes over " + Twine(handles) +
                                                   " values, and a session has up to " +
                                                   Twine(limits.handlesPerSession) + " handles");
  }
  auto found = request.from() == 0 || request.from() == request.session() ? Lent() : lent(request);
  if (!found) {
    return found.takeError();
  }
  auto turn = SessionTurn::take(mutex, sessions, request.session());
  if (!turn) {
    return turn.takeError();
  }
  Session &own = ***turn;
  const std::vector<uint64_t> ids = sojourn::wire::numbersOf(request.as());
  if (llvm::Error error = checkBorrow(request, *found, own)) {
    return error;
  }
  if (request.from() == 0) {
    std::lock_guard lock(mutex);
    own.elsewhere.insert(ids.begin(), ids.end());
    return doneReply({});
  }
  size_t bytes = 0;
  std::vector<WorkerStub::Adopted> values;
  uint64_t next = own.worker.newIds(found->handles.size());
  for (Handle &handle : found->handles) {
    bytes += handle.held;
    handle.value.id = next++;
    values.push_back({handle.value, handle.memory});
  }
  {
    std::lock_guard lock(mutex);
    if (llvm::Error error = sessions.holdings.checkKept(own.account, bytes, 0,
                                                        "the " + Twine(bytes) + " bytes of the values do not fit")) {
      return error;
    }
    sessions.hold(own, bytes);
  }
  llvm::scope_exit giveBack([&] {
    std::lock_guard lock(mutex);
    sessions.letGo(own, bytes);
  });
  const llvm::scope_exit rest([&] { own.worker.rest(); });
  llvm::Error error = Sessions::wake(own, nullptr);
  error = error ? std::move(error) : own.worker.adopt(values);
  if (error) {
    return error;
  }
  giveBack.release();
  std::lock_guard lock(mutex);
  for (size_t at = 0; at < ids.size(); ++at) {
    own.handles.try_emplace(ids[at], std::move(found->handles[at]));
  }
  return doneReply({});
}

} // namespace sojourn::owner
