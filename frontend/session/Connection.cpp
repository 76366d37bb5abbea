// SPDX-License-Identifier: Apache-2.0
#include "frontend/session/Connection.h"

#include "frontend/Error.h"
#include "frontend/Raise.h"
#include "frontend/session/JointReply.h"
#include "frontend/session/Translated.h"

#include <algorithm>

namespace sojourn::frontend {

Client &Connection::open(std::unique_ptr<Transport> transport) {
  Lane lane;
  lane.client = std::make_unique<Client>(std::move(transport));
  lane.client->hello(identity_.get());
  lane.knownHashes = std::make_unique<RecentlyUsed<std::array<uint8_t, 32>, std::monostate>>(kPrograms);
  lanes_.push_back(std::move(lane));
  return *lanes_.back().client;
}

Connection::Connection(std::unique_ptr<Transport> transport, std::shared_ptr<Identity> identity, RemoteDevice &device)
    : device_(device), identity_(std::move(identity)) {
  if (!transport) {
    return;
  }
  const Client *client = translated([&] { return &open(std::move(transport)); });
  ownerKey_ = identity_ ? identity_->owner() : client->transport().ownerKey();
}

/// Where one owner refuses, the sessions at the others end at once.
Connection::Connection(const std::vector<const Connection *> &members, RemoteDevice &device,
                       std::optional<bool> isMasked)
    : device_(device), isMasked_(isMasked.value_or(false)) {
  std::vector<signing::PublicKey> keys;
  for (const Connection *member : members) {
    keys.push_back(member->memberKey());
  }
  translated([&] {
    try {
      const std::string nonce = Client::drawNonce();
      for (const Connection *member : members) {
        identity_ = member->identity_;
        open(member->client().transport().another());
      }
      for (size_t role = 0; role < lanes_.size(); ++role) {
        try {
          const bool asks = lanes_[role].client->join(static_cast<uint8_t>(role), nonce, keys);
          isMasked_ |= asks && !isMasked && lanes_.size() > 2; // of two, each knows the other one's term
        } catch (const Error &error) {
          throw Error(error.kind(), "at " + members[role]->address() + ": " + error.text());
        }
        lanes_[role].thread = role > 0 ? std::make_unique<MemberThread>() : nullptr;
      }
    } catch (...) {
      for (const Lane &lane : lanes_) {
        try {
          lane.client->bye();
        } catch (...) { // it ends by itself
        }
      }
      throw;
    }
  });
}

Connection::~Connection() {
  for (Lane &lane : lanes_) {
    if (device_.isElsewhere()) {
      static_cast<void>(lane.client.release()); // its socket has threads in the parent alone
      static_cast<void>(lane.thread.release());
    }
  }
}

std::string Connection::address() const {
  if (isOffline()) {
    return "an offline device";
  }
  std::string all;
  for (const Lane &lane : lanes_) {
    all += (all.empty() ? "" : ", ") + lane.client->transport().name();
  }
  return lanes_.size() == 1 ? all : "the group of " + all;
}

const signing::PublicKey &Connection::memberKey() const {
  if (!client().saidKey()) {
    raise(ErrorKind::Unsupported, "the owner at " + address() +
                                      " takes part in no groups: it is of another release, or written for single "
                                      "owners alone");
  }
  return *client().saidKey();
}

void Connection::addOthers(Counters &counters) const {
  for (size_t role = 1; role < lanes_.size(); ++role) {
    const Client &client = *lanes_[role].client;
    counters.round_trips += client.roundTrips;
    counters.upload_parts += client.uploadParts;
    counters.looks += client.looks;
    counters.bytes_up += client.bytesUp;
    counters.bytes_down += client.bytesDown;
  }
}

StepReply Connection::send(wire::Step &step, bool &unknown, const StepFollower *follow) {
  StepReply reply = lanes_.size() == 1 ? sendTo(lanes_[0], step, unknown, follow) : sendToAll(step, unknown, follow);
  for (const Lane &lane : lanes_) {
    device_.handles().releaseUncounted(lane.client->takeOrphans());
  }
  return reply;
}

StepReply Connection::sendTo(Lane &lane, wire::Step &step, bool &unknown, const StepFollower *follow) {
  const std::string_view program = step.program, debug = step.debug;
  bool known = lane.knownHashes->find(step.hash) != nullptr, sending = false;
  lane.knownHashes->insert(step.hash, {});
  Client &client = *lane.client;
  try {
    client.sendAhead(step);
    sending = true;
    if (known) {
      step.program = step.debug = {};
    }
    StepReply reply = client.step(step, follow);
    if (reply.kind == StepReply::Kind::NeedProgram && known) {
      // The owner evicted its plan; the bytes go again.
      step.program = program;
      step.debug = debug;
      reply = client.step(step, follow);
      ++resent_;
    }
    if (reply.kind == StepReply::Kind::NeedProgram) {
      throw Error(ErrorKind::OwnerError, "the owner asked for a program that the request contained");
    }
    return reply;
  } catch (...) {
    bool ours = false;
    try {
      throw;
    } catch (const Error &) {
      ours = true;
    } catch (...) {
    }
    unknown = sending && (ours ? client.outcomeUnknown() : true);
    lane.knownHashes->erase(step.hash);
    client.dropSentAhead(step);
    throw;
  }
}

/// The first member's answer is followed; one that ends the message ends it for all.
StepReply Connection::sendToAll(wire::Step &step, bool &unknown, const StepFollower *follow) {
  if (isBroken_) {
    throw Error(ErrorKind::ConnectionLost,
                "this group has ended, because its members may stand at different steps: make a new one with "
                "sojourn.parties(...) and start from a checkpoint");
  }
  step.attempt = attempt_;
  step.isMasked = isMasked_;
  std::vector<wire::Step> own(lanes_.size(), step);
  std::vector<MemberOutcome> outcomes(lanes_.size());
  const auto sendOne = [&](size_t role) noexcept {
    try {
      outcomes[role].reply = sendTo(lanes_[role], own[role], outcomes[role].isUnknown, role == 0 ? follow : nullptr);
    } catch (...) {
      outcomes[role].failure = std::current_exception();
    }
  };
  for (size_t role = 1; role < lanes_.size(); ++role) {
    lanes_[role].thread->start([&, role] { sendOne(role); });
  }
  sendOne(0);
  std::vector<std::string> names;
  uint64_t upload = 0;
  for (size_t role = 0; role < lanes_.size(); ++role) {
    if (role > 0) {
      lanes_[role].thread->wait();
    }
    names.push_back(lanes_[role].client->transport().name());
    upload = std::max(upload, lanes_[role].client->lastUpload());
  }
  for (const Lane &lane : lanes_) { // numbers in a message are the same for all
    lane.client->skipUploads(upload);
  }
  try {
    StepReply reply = jointReply(step, std::move(outcomes), names, unknown);
    isBroken_ = unknown;
    return reply;
  } catch (...) {
    isBroken_ = unknown;
    ++attempt_;
    throw;
  }
}

void Connection::borrow(unsigned role, const Client &from, const std::vector<uint64_t> &handles,
                        const std::vector<uint64_t> &as) {
  lanes_[role].client->borrow(from.session(), handles, as); // where it can be refused
  for (size_t at = 0; at < lanes_.size(); ++at) {
    if (at != role) {
      try {
        lanes_[at].client->borrow(0, handles, as);
      } catch (...) {
        isBroken_ = true; // members know different handles
        throw;
      }
    }
  }
}

void Connection::bye() {
  std::exception_ptr failure;
  for (const Lane &lane : lanes_) {
    try {
      lane.client->bye();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (failure) {
    std::rethrow_exception(failure);
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

} // namespace sojourn::frontend
