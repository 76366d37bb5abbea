// SPDX-License-Identifier: Apache-2.0
#include "frontend/session/Connection.h"

#include "frontend/Error.h"
#include "frontend/Raise.h"
#include "frontend/session/Translated.h"
#include "frontend/wire/Identity.h"

namespace sojourn::frontend {

Connection::Connection(std::unique_ptr<Transport> transport, Identity *identity, RemoteDevice &device)
    : device_(device) {
  if (!transport) {
    return;
  }
  auto client = std::make_unique<Client>(std::move(transport));
  translated([&] { client->hello(identity); });
  ownerKey_ = identity ? identity->owner() : client->transport().ownerKey();
  client_ = std::move(client);
}

Connection::~Connection() {
  if (device_.isElsewhere()) {
    static_cast<void>(client_.release()); // its socket has threads in the parent alone
  }
}

std::string Connection::address() const { return client_ ? client_->transport().name() : "an offline device"; }

Turn::Turn(Connection &connection) : connection_(connection) {
  connection.device_.requireHere();
  if (connection.holder_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
    raise(ErrorKind::Error, "the owner was asked while this thread compiles or sends a step of the same session; a "
                            "listener of phases, or a "
                            "transport in Python, may record, but not send steps or ask the owner");
  }
  lockPolitely(connection.turn_);
  connection.holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

StepReply Connection::send(wire::Step &step, bool &unknown, const StepFollower *follow) {
  const std::string_view program = step.program, debug = step.debug;
  bool known = knownHashes_.find(step.hash) != nullptr, sending = false;
  knownHashes_.insert(step.hash, {});
  try {
    client_->sendAhead(step);
    sending = true;
    if (known) {
      step.program = step.debug = {};
    }
    StepReply reply = client_->step(step, follow);
    if (reply.kind == StepReply::Kind::NeedProgram && known) {
      // The owner evicted its plan; the bytes go again.
      step.program = program;
      step.debug = debug;
      reply = client_->step(step, follow);
      ++resent_;
    }
    if (reply.kind == StepReply::Kind::NeedProgram) {
      throw Error(ErrorKind::OwnerError, "the owner asked for a program that the request contained");
    }
    device_.handles().releaseUncounted(client_->takeOrphans());
    return reply;
  } catch (...) {
    bool ours = false;
    try {
      throw;
    } catch (const Error &) {
      ours = true;
    } catch (...) {
    }
    unknown = sending && (ours ? client_->outcomeUnknown() : true);
    knownHashes_.erase(step.hash);
    client_->dropSentAhead(step);
    throw;
  }
}

StepReply Connection::sendWithReleases(wire::Step &step, const Recording *own, bool &unknown) {
  // Taken now: tensors may die while the owner works.
  const std::vector<uint64_t> waiting = device_.takeReleases(own);
  step.releases.insert(step.releases.end(), waiting.begin(), waiting.end());
  try {
    return send(step, unknown);
  } catch (...) {
    if (!unknown) {
      device_.handles().releaseUncounted(waiting);
    }
    throw;
  }
}

} // namespace sojourn::frontend
