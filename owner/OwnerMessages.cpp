// SPDX-License-Identifier: Apache-2.0
// Messages that arrive: over which connection, and what room they take.
#include "dialect/Bounds.h"
#include "owner/HeldBytes.h"
#include "owner/Owner.h"
#include "owner/OwnerState.h"
#include "owner/Reply.h"
#include "owner/peers/Digest.h"

namespace sojourn::owner {

using llvm::Twine;

void Owner::disconnected(uint64_t connection) noexcept {
  std::lock_guard lock(state->mutex);
  state->openings.disconnected(connection);
  for (RunningStep *step : state->sessions.disconnected(connection)) {
    state->running.endIn(*step, kGoneGrace, StopCause::connection);
  }
}

bool Owner::hasSession(uint64_t connection) const noexcept {
  std::lock_guard lock(state->mutex);
  return state->sessions.isConnected(connection);
}

std::vector<uint64_t> Owner::connections(bool isAnonymous) const {
  std::lock_guard lock(state->mutex);
  return state->sessions.connections(isAnonymous);
}

void Owner::tidy() noexcept {
  try {
    state->tidy();
  } catch (...) { // the next time
  }
}

void OwnerState::tidy() {
  std::vector<std::shared_ptr<Session>> gone;
  std::lock_guard lock(mutex);
  gone = sessions.tidy();
}

std::shared_ptr<const void> Owner::room(uint64_t session, size_t bytes, sojourn::wire::Message &refusal) noexcept {
  try {
    auto room = state->room(session, bytes);
    if (room) {
      return std::move(*room);
    }
    RequestError error = takeRequestError(room.takeError());
    RefusedRequest request;
    request.kind = "message";
    request.session = session;
    state->refused(request, error);
    refusal = errorReply(error);
  } catch (...) {
    refusal = {}; // the transport closes the connection
  }
  return nullptr;
}

llvm::Expected<std::shared_ptr<const void>> OwnerState::room(uint64_t id, size_t bytes) {
  if (llvm::Error error = checkOpen()) {
    return error;
  }
  auto account = [&]() -> llvm::Expected<std::string> {
    std::lock_guard lock(mutex);
    auto session = sessions.find(id);
    return session ? llvm::Expected<std::string>((*session)->account) : session.takeError();
  }();
  if (!account) {
    return account.takeError();
  }
  auto held = HeldBytes::take(mutex, sessions.holdings, *account, bytes,
                              "a message of " + Twine(bytes) + " bytes does not fit");
  return held ? llvm::Expected<std::shared_ptr<const void>>(std::move(*held)) : held.takeError();
}

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
  if (own.group || own.last.sequence != 0 || !own.handles.empty()) {
    return requestError(wire::ErrorCode_Malformed, "a session joins a group once, before its first step");
  }
  const std::string_view bytes(reinterpret_cast<const char *>(request.nonce()->data()), nonce);
  auto group = peers->join(groupIdOf(bytes, own.key, members), request.role(), members);
  if (!group) {
    return group.takeError();
  }
  std::lock_guard lock(mutex);
  own.group = std::move(*group);
  return joinedReply();
}

void Owner::endSteps(uint64_t connection, std::chrono::milliseconds grace) noexcept {
  std::lock_guard lock(state->mutex);
  for (RunningStep *step : state->sessions.stepsOf(connection)) {
    state->running.endIn(*step, grace, StopCause::closing);
  }
}

} // namespace sojourn::owner
