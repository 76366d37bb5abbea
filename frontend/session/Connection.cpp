// SPDX-License-Identifier: Apache-2.0
#include "frontend/session/Connection.h"

#include "frontend/Error.h"
#include "frontend/Interrupt.h"
#include "frontend/Raise.h"
#include "frontend/session/BackOff.h"
#include "frontend/session/Translated.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <utility>

namespace sojourn::frontend {

/// Advice for users of owners that are busy.
static constexpr const char *kLessBusy = ": run fewer groups over the same owners at a time, take a smaller batch, or "
                                         "ask the data owner for more memory for running steps (steps.all_arena_bytes)";

static std::string secondsText(std::chrono::milliseconds time) { return std::to_string(time.count() / 1000) + " s"; }

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
      std::memcpy(&group_, nonce.data(), sizeof group_);
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
  StepReply reply = lanes_.size() == 1 ? sendToOne(step, unknown, follow) : sendToAll(step, unknown, follow);
  std::set<uint64_t> orphans; // members have the same numbers
  for (const Lane &lane : lanes_) {
    const std::vector<uint64_t> own = lane.client->takeOrphans();
    orphans.insert(own.begin(), own.end());
  }
  device_.handles().releaseUncounted({orphans.begin(), orphans.end()});
  return reply;
}

StepReply Connection::sendToOne(wire::Step &step, bool &unknown, const StepFollower *follow) {
  try {
    return sendTo(lanes_[0], step, unknown, follow);
  } catch (...) {
    lanes_[0].client->dropSentAhead(step);
    throw;
  }
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
    if (!known || !isBusy(std::current_exception())) { // one that was busy may hold it still
      lane.knownHashes->erase(step.hash);
    }
    throw;
  }
}

std::vector<std::string> Connection::names() const {
  std::vector<std::string> all;
  for (const Lane &lane : lanes_) {
    all.push_back(lane.client->transport().name());
  }
  return all;
}

/// The first member's answer is followed; one that ends the message ends it for all.
std::vector<MemberOutcome> Connection::attempt(std::vector<wire::Step> &own, const StepFollower *follow) {
  JointAttempt attempt(
      lanes_.size(),
      [&](size_t role, bool &isUnknown) {
        return sendTo(lanes_[role], own[role], isUnknown, role == 0 ? follow : nullptr);
      },
      [&](size_t role) { lanes_[role].client->endUnderway(); });
  for (size_t role = 1; role < lanes_.size(); ++role) {
    lanes_[role].thread->start([&, role] { attempt.run(role); });
  }
  attempt.run(0);
  uint64_t upload = 0;
  for (size_t role = 0; role < lanes_.size(); ++role) {
    if (role > 0) {
      lanes_[role].thread->wait();
    }
    upload = std::max(upload, lanes_[role].client->lastUpload());
  }
  for (const Lane &lane : lanes_) { // numbers in a message are the same for all
    lane.client->skipUploads(upload);
  }
  std::vector<MemberOutcome> outcomes = attempt.take();
  for (size_t role = 0; role < lanes_.size(); ++role) {
    outcomes[role].isLeft = lanes_[role].client->wasLeft();
  }
  return outcomes;
}

/// Uploads ahead of a failed step.
void Connection::dropUploads(std::vector<wire::Step> &own, const std::vector<MemberOutcome> &outcomes) noexcept {
  for (size_t role = 0; role < lanes_.size(); ++role) {
    try {
      if (outcomes[role].failure) {
        lanes_[role].client->dropSentAhead(own[role]);
      }
    } catch (...) { // the session's end drops them
      if (takeInterruptNote()) {
        interruptLater(std::current_exception());
      }
    }
  }
}

void Connection::raiseBusy(const std::vector<MemberOutcome> &outcomes, const BackOff &backOff) const {
  try {
    raiseFailure(outcomes, names());
  } catch (const Error &error) {
    throw Error(error.kind(), error.text() + ". It was tried " + std::to_string(backOff.tries()) + " times in " +
                                  secondsText(backOff.waited()) + kLessBusy);
  }
}

/// While a member is busy, all let go, and the message is repeated as another attempt.
StepReply Connection::sendToAll(wire::Step &step, bool &unknown, const StepFollower *follow) {
  if (isBroken_) {
    throw Error(ErrorKind::ConnectionLost,
                "this group has ended, because its members may stand at different steps: make a new one with "
                "sojourn.parties(...) and start from a checkpoint");
  }
  step.isMasked = isMasked_;
  BackOff backOff(group_, step.deadlineMs);
  std::vector<wire::Step> own(lanes_.size(), step); // with the uploads that they have been sent
  std::vector<MemberOutcome> outcomes;
  KeptInterruption interruption;
  for (;;) {
    const uint64_t deadlineMs = backOff.deadlineMs(); // members compare it
    for (wire::Step &each : own) {
      each.attempt = attempt_;
      each.program = step.program;
      each.debug = step.debug;
      each.deadlineMs = deadlineMs;
    }
    outcomes = attempt(own, follow);
    if (!areBusy(outcomes)) {
      break;
    }
    ++attempt_;
    auto next = BackOff::Next::late;
    try {
      interruption.raise(); // the step has run nowhere
      next = backOff.wait(follow);
    } catch (...) {
      dropUploads(own, outcomes);
      throw;
    }
    if (next != BackOff::Next::again) {
      dropUploads(own, outcomes);
      if (next == BackOff::Next::late) {
        raiseBusy(outcomes, backOff);
      }
      StepReply none;
      none.steps = 0;
      none.isStopped = true;
      return none;
    }
    ++busyRetries_;
  }
  dropUploads(own, outcomes);
  // Members end such a step together, all or none: the next message finds out.
  const bool isLeft = areInterrupted(outcomes);
  try {
    StepReply reply = jointReply(step, std::move(outcomes), names(), unknown);
    isBroken_ = unknown;
    if (backOff.wasLong() && !std::exchange(isBusyTold_, true)) {
      reply.notes.push_back("a step of " + address() + " waited " + secondsText(backOff.waited()) +
                            " until none of these owners was busy, and was tried " +
                            std::to_string(backOff.tries() + 1) + " times" + kLessBusy);
    }
    return reply;
  } catch (...) {
    isBroken_ = unknown && !isLeft;
    ++attempt_;
    throw;
  }
}

/// A member may have no room for one more request at the moment.
static void patiently(const std::function<void()> &request) {
  constexpr std::chrono::milliseconds kFirst{50}, kLongest{1'000};
  constexpr unsigned kTries = 8;
  auto pause = kFirst;
  for (unsigned tries = 1;; ++tries) {
    try {
      return request();
    } catch (const Error &error) {
      if (tries == kTries || !error.text().starts_with("Limit: ")) {
        throw;
      }
    }
    interruptiblePause(pause);
    pause = std::min(2 * pause, kLongest);
  }
}

void Connection::borrow(unsigned role, const Client &from, const std::vector<uint64_t> &handles,
                        const std::vector<uint64_t> &as) {
  patiently([&] { lanes_[role].client->borrow(from.session(), handles, as); }); // where it can be refused
  for (size_t at = 0; at < lanes_.size(); ++at) {
    if (at != role) {
      try {
        patiently([&] { lanes_[at].client->borrow(0, handles, as); });
      } catch (...) {
        isBroken_ = true; // members know different handles
        throw;
      }
    }
  }
}

void Connection::lend(unsigned role, Client &to, const std::vector<uint64_t> &handles,
                      const std::vector<uint64_t> &as) const {
  patiently([&] { to.borrow(lanes_[role].client->session(), handles, as); });
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
    StepReply reply = send(step, unknown);
    if (reply.isStopped) {
      device_.handles().releaseUncounted(waiting);
    }
    return reply;
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
