// SPDX-License-Identifier: Apache-2.0
// Steps of programs that were compiled elsewhere: no trace, one message.
#include "frontend/session/Session.h"

namespace sojourn::frontend {

namespace {

/// Fills what was published; throws what is wrong with the reply.
void readPublished(const StepReply &reply, ProgramRun &run) {
  run.isReplyLost = true;
  if (reply.kind == StepReply::Kind::Committed) {
    raise(ErrorKind::ConnectionLost, "the owner committed this step, but its reply was lost: its published values "
                                     "are unknown, and the next step continues from it");
  }
  for (const wire::TensorView &value : reply.published) {
    at::Tensor tensor = hostTensor(scalarTypeOf(static_cast<Element>(value.element)), value.dims, value.data);
    if (!tensor.defined()) {
      raise(ErrorKind::OwnerError, "a published value arrived with " + std::to_string(value.data.size()) +
                                       " bytes, which does not match its shape");
    }
    run.published.push_back(std::move(tensor));
  }
  run.isReplyLost = false;
}

} // namespace

ProgramRun Session::runProgram(Message message, const StepFollower &follow) {
  if (offline()) {
    raise(ErrorKind::Error, "an offline device cannot run steps; connect to an owner");
  }
  ProgramRun run;
  const wire::Step &first = message.step();
  std::vector<std::pair<size_t, size_t>> sizes{{first.results.size(), first.releases.size()}}; // results and releases
  for (const wire::Repetition &each : first.repetitions) {
    sizes.emplace_back(each.results.size(), each.releases.size());
  }
  Turn turn(connection_);
  wire::Spending terms = spending_.terms(); // of the run that is open now
  terms.releases = first.spending.releases;
  message.setTerms(std::move(terms));
  sendHeld();
  std::exception_ptr interruption;
  try {
    if (std::string refusal = isGroup() ? "" : spending_.refusalOf(first, connection_.client()); !refusal.empty()) {
      raise(ErrorKind::Refused, refusal);
    }
    const std::vector<uint64_t> waiting = takeReleases();
    message.lastReleases().insert(message.lastReleases().end(), waiting.begin(), waiting.end());
    Sent sent = message.send(connection_, spending_, news_, follow);
    run.steps = sent.reply.steps;
    run.isUnknown = sent.isUnknown;
    run.isStopped = sent.isStopped;
    if (run.steps < message.count() && !run.isUnknown) {
      handles().releaseUncounted(waiting);
    }
    interruption = sent.interruption;
    run.failure = sent.failure;
    if (run.steps > 0) {
      readPublished(sent.reply, run);
    }
  } catch (...) {
    run.failure = std::current_exception(); // lost values come before the failure of the next step
  }
  run.failure = interruption ? interruption : run.failure;
  for (size_t at = 0; at < sizes.size(); ++at) {
    handles().subtract(at < run.steps ? sizes[at].second : sizes[at].first);
  }
  return run;
}

} // namespace sojourn::frontend
