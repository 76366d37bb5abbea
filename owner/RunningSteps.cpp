// SPDX-License-Identifier: Apache-2.0
#include "owner/RunningSteps.h"

#include "owner/RequestError.h"
#include "owner/Text.h"

#include <system_error>

namespace sojourn::owner {

/// How often the thread looks while steps run: no step has to wake it.
static constexpr std::chrono::milliseconds kLook{100};

RunningSteps::~RunningSteps() {
  {
    std::lock_guard lock(mutex);
    isOver = true;
    changed.notify_all();
  }
  if (thread.joinable()) {
    thread.join();
  }
}

void RunningSteps::add(RunningStep &step) {
  std::lock_guard lock(mutex);
  steps.insert(&step);
}

void RunningSteps::remove(RunningStep &step) {
  std::lock_guard lock(mutex);
  steps.erase(&step);
}

void RunningSteps::renew(RunningStep &step) {
  {
    std::lock_guard lock(mutex);
    step.isCharged = false;
  }
  startDeadline(step);
}

void RunningSteps::startDeadline(RunningStep &step) {
  if (stepTime.count() > 0) {
    const auto deadline = RunningStep::Clock::now() + stepTime;
    std::lock_guard lock(mutex);
    setDeadline(step, deadline);
    wake();
  }
}

void RunningSteps::endDeadline(RunningStep &step) {
  std::lock_guard lock(mutex);
  if (!step.stop) {
    setDeadline(step, RunningStep::Clock::time_point::max());
  }
}

void RunningSteps::setDeadline(RunningStep &step, RunningStep::Clock::time_point deadline) {
  if (step.cause == StopCause::deadline) {
    step.stop = false; // set after the step before had committed
  }
  step.deadline = deadline;
}

void RunningSteps::endIn(RunningStep &step, std::chrono::milliseconds time, StopCause cause) {
  std::lock_guard lock(mutex);
  if (cause == StopCause::connection && step.isCharged) {
    return;
  }
  if (const auto end = RunningStep::Clock::now() + time; end < step.asked) {
    step.asked = end;
    step.askedCause = cause;
    wake();
  }
}

void RunningSteps::keep(RunningStep &step) {
  std::lock_guard lock(mutex);
  keepGoing(step);
}

void RunningSteps::charged(RunningStep &step) {
  std::lock_guard lock(mutex);
  step.isCharged = true;
  keepGoing(step);
}

void RunningSteps::keepGoing(RunningStep &step) {
  if (step.askedCause == StopCause::connection && !step.stop) {
    step.asked = RunningStep::Clock::time_point::max();
  }
}

void RunningSteps::wake() {
  if (!thread.joinable()) {
    try {
      thread = std::thread([this] { watch(); });
    } catch (const std::exception &) {
      return; // steps run to their end until one can be made
    }
  } else if (isIdle) {
    changed.notify_all();
  }
}

void RunningSteps::watch() {
  std::unique_lock lock(mutex);
  while (!isOver) {
    isIdle = steps.empty();
    if (isIdle) {
      changed.wait(lock);
      continue;
    }
    const auto now = RunningStep::Clock::now();
    auto next = now + kLook;
    for (RunningStep *step : steps) {
      const auto end = std::min(step->deadline, step->asked);
      if (end > now) {
        next = std::min(next, end);
      } else if (!step->stop) {
        step->cause = step->asked <= step->deadline ? step->askedCause : StopCause::deadline;
        step->stopNs = steadyNs();
        step->stop = true;
      }
    }
    changed.wait_until(lock, next);
  }
}

llvm::Error RunningSteps::stopped(const RunningStep &step, bool isCharged) const {
  const StopCause cause = [&] {
    std::lock_guard lock(mutex);
    return step.cause;
  }();
  std::string text;
  switch (cause) {
  case StopCause::deadline:
    text = "it took longer than " + numberText(static_cast<double>(stepTime.count()) / 1000) +
           " seconds, this owner's deadline of a step; use a smaller batch or several steps";
    break;
  case StopCause::client: text = "its client ended it"; break;
  case StopCause::connection: text = "the connection of its client closed"; break;
  case StopCause::closing: text = "the owner is closing; connect again later"; break;
  }
  return requestError(wire::ErrorCode_Stopped,
                      "the step was stopped: " + text + ". It changed no value" +
                          (isCharged ? ", and what was charged to a budget for it stays charged" : ""));
}

} // namespace sojourn::owner
