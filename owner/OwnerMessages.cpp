// SPDX-License-Identifier: Apache-2.0
// Messages that arrive: over which connection, and what room they take.
#include "owner/HeldBytes.h"
#include "owner/Owner.h"
#include "owner/OwnerState.h"
#include "owner/Reply.h"

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
  NamedValues::Gone memory;
  std::vector<std::string> clients;
  {
    std::lock_guard lock(mutex);
    gone = sessions.tidy();
    memory = sessions.names.tidy();
    clients = sessions.names.accounts();
  }
  for (const std::string &client : clients) {
    auto key = accounts->ledger().keyOf(client);
    if (client != kLocalClient && key && !*key) { // it was removed
      std::lock_guard lock(mutex);
      sessions.names.releaseAll(client);
    }
  }
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

void Owner::endSteps(uint64_t connection, std::chrono::milliseconds grace) noexcept {
  std::lock_guard lock(state->mutex);
  for (RunningStep *step : state->sessions.stepsOf(connection)) {
    state->running.endIn(*step, grace, StopCause::closing);
  }
}

} // namespace sojourn::owner
