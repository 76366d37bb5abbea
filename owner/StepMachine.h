// SPDX-License-Identifier: Apache-2.0
// Resources that runs share: the worker, places, threads, memory, and early ends.
#ifndef SOJOURN_OWNER_STEPMACHINE_H
#define SOJOURN_OWNER_STEPMACHINE_H

#include "owner/Budget.h"
#include "owner/Environment.h"
#include "owner/Limits.h"
#include "owner/RunningSteps.h"
#include "owner/StepQueue.h"
#include "owner/WorkerStub.h"

namespace sojourn::owner {

/// Each part of it guards itself.
struct StepMachine {
  StepMachine(Environment given, const Limits &limits)
      : environment(std::move(given)), limits(limits), worker(environment.worker ? environment.worker() : nullptr),
        threads(limits.threads ? limits.threads : worker.threads()),
        memory(limits.runningArenaBytes, limits.arenaWaitMs), queue(threads.most()),
        running(limits.stepMs, environment.steadyNs) {}

  /// Tells a test of the phase that a step enters.
  void entering(Phase phase) const {
    if (environment.entering) {
      environment.entering(phase);
    }
  }

  /// Of a step that waits for what others have.
  Patience patience(bool isJoint) const {
    return isJoint ? Patience(std::chrono::milliseconds(limits.busyWaitMs)) : std::nullopt;
  }

  const Environment environment;
  const Limits limits;
  WorkerStub worker; ///< describes and proves; runs, too, where sessions share it. Outlives its values and codes
  ThreadBudget threads;
  MemoryBudget memory;
  StepQueue queue;
  RunningSteps running;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STEPMACHINE_H
