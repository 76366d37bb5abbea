// SPDX-License-Identifier: Apache-2.0
#include "frontend/session/Message.h"

#include "frontend/session/Translated.h"

#include <functional>

namespace sojourn::frontend {

namespace {

/// Follows a message for somebody who may throw: what was thrown waits for the reply, and no further step begins.
struct Following {
  const StepFollower &ask;
  bool wantsStop = false;
  std::exception_ptr interruption = nullptr;

  bool operator()(uint64_t steps) {
    try {
      wantsStop = wantsStop || (ask && !ask(steps));
    } catch (...) {
      interruption = std::current_exception();
      wantsStop = true;
    }
    return !wantsStop;
  }
};

/// Which of several steps an error is about.
std::string failedStep(size_t committed, size_t count) {
  return count == 1 ? ""
                    : "step " + std::to_string(committed + 1) + " of the " + std::to_string(count) +
                          " sent together failed, the steps before it are committed: ";
}

} // namespace

void Message::add(wire::Repetition next) {
  const auto unlessEqual = [](std::vector<uint64_t> &given, std::vector<uint64_t> &last) {
    if (given == last) {
      given.clear();
    } else {
      last = given;
    }
  };
  unlessEqual(next.states, states_);
  unlessEqual(next.slots, slots_);
  step_.repetitions.push_back(std::move(next));
}

void Message::cut(size_t done, std::string_view program, std::string_view debug) {
  std::vector<wire::Repetition> rest;
  for (size_t at = 0; at < step_.repetitions.size(); ++at) {
    wire::Repetition &next = step_.repetitions[at];
    if (at < done) {
      step_.begin(std::move(next));
    } else {
      rest.push_back(std::move(next));
    }
  }
  step_.repetitions = std::move(rest);
  step_.program = program;
  step_.debug = debug;
}

Sent Message::send(Connection &connection, Spending &spending, News &news, const StepFollower &follow) {
  Sent sent;
  sent.reply.steps = 0;
  Following following{follow};
  const StepFollower look = std::ref(following);
  try {
    sent.reply = connection.send(step_, sent.isUnknown, &look);
    sent.isUnknown = sent.reply.isOpen;
    if (sent.reply.failure) {
      throw Error(sent.reply.failure->kind, failedStep(sent.reply.steps, count()) + sent.reply.failure->text);
    }
  } catch (...) {
    sent.failure = translatedFailure();
  }
  sent.isStopped = following.wantsStop || sent.reply.isStopped;
  sent.interruption = following.interruption;
  noteCommitted(step_, sent.reply, connection, spending, news);
  return sent;
}

void noteCommitted(const wire::Step &step, const StepReply &reply, Connection &connection, Spending &spending,
                   News &news) {
  for (size_t at = 0; at < reply.steps; ++at) {
    spending.note(step, connection.client());
  }
  connection.device().countSteps(reply.steps);
  news.add(reply.notes);
}

} // namespace sojourn::frontend
