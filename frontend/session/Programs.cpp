// SPDX-License-Identifier: Apache-2.0
// Steps of programs that were compiled elsewhere: no trace, one message.
#include "frontend/session/Session.h"

#include <functional>

namespace sojourn::frontend {

ProgramRun Session::runProgram(wire::Step step, const StepFollower &follow) {
  if (offline()) {
    raise(ErrorKind::Error, "an offline device cannot run steps; connect to an owner");
  }
  ProgramRun run;
  StepReply reply;
  reply.steps = 0;
  std::vector<std::pair<size_t, size_t>> sizes{{step.results.size(), step.releases.size()}}; // of results and releases
  for (const wire::Repetition &each : step.repetitions) {
    sizes.emplace_back(each.results.size(), each.releases.size());
  }
  Turn turn(connection_);
  std::vector<wire::ReleaseTerms> releases = std::move(step.spending.releases);
  step.spending = spending_.terms(); // of the run that is open now
  step.spending.releases = std::move(releases);
  sendHeld();
  const auto giveBack = [&](const std::vector<uint64_t> &releases) {
    if (!run.isUnknown) {
      handles().releaseUncounted(releases);
    }
  };
  Following following{follow};
  const StepFollower look = std::ref(following);
  try {
    if (std::string refusal = spending_.refusalOf(step, connection_.client()); !refusal.empty()) {
      raise(ErrorKind::Refused, refusal);
    }
    translated([&] {
      std::vector<uint64_t> waiting = takeReleases();
      std::vector<uint64_t> &last = step.repetitions.empty() ? step.releases : step.repetitions.back().releases;
      last.insert(last.end(), waiting.begin(), waiting.end());
      try {
        reply = connection_.send(step, run.isUnknown, &look);
        run.isUnknown = reply.isOpen;
      } catch (...) {
        reply.steps = 0;
        giveBack(waiting);
        throw;
      }
      if (reply.steps < step.count()) {
        giveBack(waiting);
      }
    });
    if (reply.kind == StepReply::Kind::Committed) {
      run.isReplyLost = true;
      raise(ErrorKind::ConnectionLost, "the owner committed this step, but its reply was lost: its published values "
                                       "are unknown, and the next step continues from it");
    }
    for (const wire::TensorView &value : reply.published) {
      at::Tensor tensor = hostTensor(scalarTypeOf(static_cast<Element>(value.element)), value.dims, value.data);
      if (!tensor.defined()) {
        run.isReplyLost = true;
        raise(ErrorKind::OwnerError, "a published value arrived with " + std::to_string(value.data.size()) +
                                         " bytes, which does not match its shape");
      }
      run.published.push_back(std::move(tensor));
    }
    if (reply.failure) {
      raise(reply.failure->kind, failedStep(reply.steps, step.count()) + reply.failure->text);
    }
  } catch (...) {
    run.failure = std::current_exception();
  }
  run.isStopped = following.wantsStop;
  run.failure = following.interruption ? following.interruption : run.failure;
  run.steps = reply.steps;
  for (size_t at = 0; at < run.steps; ++at) {
    spending_.note(step, connection_.client());
  }
  news_.add(reply.notes);
  countSteps(run.steps);
  for (size_t at = 0; at < sizes.size(); ++at) {
    handles().subtract(at < run.steps ? sizes[at].second : sizes[at].first);
  }
  return run;
}

} // namespace sojourn::frontend
