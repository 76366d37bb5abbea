// SPDX-License-Identifier: Apache-2.0
// Steps under way, and what ends them before their end: a deadline, their client, the end of its connection, the end of
// the owner.
#ifndef SOJOURN_OWNER_RUNNINGSTEPS_H
#define SOJOURN_OWNER_RUNNINGSTEPS_H

#include "owner/Environment.h"
#include "runtime/Stop.h"

#include "llvm/Support/Error.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace sojourn::owner {

enum class StopCause { deadline, client, connection, closing };

/// What a step that is to end has for ending by itself: most do. A client whose connection broke may be back by then.
inline constexpr std::chrono::milliseconds kStopGrace{500}, kGoneGrace{400};

/// Of one message: its steps run one after another.
class RunningStep {
public:
  /// Ends the run, and each wait of the step; read without a lock.
  const runtime::StopFlag &flag() const { return stop; }
  bool isStopped() const { return stop.load(std::memory_order_relaxed); }
  /// When it was stopped, by the clock of RunningSteps.
  int64_t stoppedNs() const { return stopNs.load(std::memory_order_relaxed); }

private:
  friend class RunningSteps;
  using Clock = std::chrono::steady_clock;
  runtime::StopFlag stop{false};
  std::atomic<int64_t> stopNs{0};
  StopCause cause = StopCause::deadline; ///< of the stop
  bool isCharged = false;
  Clock::time_point deadline = Clock::time_point::max();
  /// By `endIn`, for the earliest of its causes.
  Clock::time_point asked = Clock::time_point::max();
  StopCause askedCause = StopCause::client;
};

/// A thread of this object sets the flags when their time has come, within a tenth of a second. Guards itself.
class RunningSteps {
public:
  /// `stepMs`: deadline of one step in milliseconds; 0: none. `steadyNs`: the clock that stops are stamped by.
  explicit RunningSteps(int64_t stepMs, std::function<int64_t()> steadyNs = Environment::systemSteadyNs)
      : stepTime(stepMs), steadyNs(std::move(steadyNs)) {}
  ~RunningSteps();
  RunningSteps(const RunningSteps &) = delete;
  RunningSteps &operator=(const RunningSteps &) = delete;

  void add(RunningStep &step);
  void remove(RunningStep &step);
  /// The next step of the message begins: it has the whole time.
  void renew(RunningStep &step);
  /// Its deadline counts from now. One that has passed is forgotten.
  void startDeadline(RunningStep &step);
  /// Its runs are over: no deadline stops what is left of it.
  void endDeadline(RunningStep &step);
  /// Ends the step soon, unless it ends by itself before.
  void endIn(RunningStep &step, std::chrono::milliseconds time, StopCause cause);
  /// Its client is connected again.
  void keep(RunningStep &step);
  /// A budget was charged for it: the end of its connection no longer ends it. A client that comes back finds the
  /// reply.
  void charged(RunningStep &step);
  /// Why a step that was stopped ended: an error of code Stopped. `isCharged`: a budget was charged for it.
  llvm::Error stopped(const RunningStep &step, bool isCharged = false) const;

private:
  void setDeadline(RunningStep &step, RunningStep::Clock::time_point deadline);
  static void keepGoing(RunningStep &step);
  void watch();
  void wake();

  const std::chrono::milliseconds stepTime;
  const std::function<int64_t()> steadyNs;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::set<RunningStep *> steps;
  bool isIdle = false, isOver = false;
  std::thread thread; ///< started with the first step that has an end
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_RUNNINGSTEPS_H
