// SPDX-License-Identifier: Apache-2.0
#include "owner/StepQueue.h"

#include "owner/Peer.h"
#include "owner/RequestError.h"

#include <algorithm>
#include <limits>

namespace sojourn::owner {

/// Time of clients without an identity counts as often.
static constexpr double kAnonymousWeight = 4;
/// How often a step that waits looks whether it is stopped.
static constexpr std::chrono::milliseconds kLook{100};

StepQueue::StepQueue(unsigned threads) {
  lanes[size_t(Lane::small)].places = std::max(8u, 2 * threads);
  lanes[size_t(Lane::large)].places = std::max(4u, 2 * threads);
}

unsigned StepQueue::most(const LaneState &state, const std::string &account) {
  return state.places / (account.empty() ? 4 : 2);
}

llvm::Expected<StepQueue::Place> StepQueue::enter(const std::string &account, Lane lane, const RunningSteps &steps,
                                                  const RunningStep &step, const Patience &patience) {
  if (step.isStopped()) {
    return steps.stopped(step);
  }
  if (account == kLocalClient) {
    return Place();
  }
  const auto begin = std::chrono::steady_clock::now();
  Place place(lane, account);
  LaneState &state = lanes[size_t(lane)];
  std::unique_lock lock(mutex);
  Account &own = state.accounts[account];
  if (own.running == 0 && own.waiting.empty()) {
    own.used = std::max(own.used, state.floor); // nothing is saved up
  }
  Waiter waiter;
  own.waiting.push_back(&waiter);
  ++state.waiting;
  admit(state);
  while (!waiter.isAdmitted) {
    waiter.called.wait_for(lock, kLook);
    const bool isBusy = patience && std::chrono::steady_clock::now() - begin >= *patience;
    if (!waiter.isAdmitted && (isBusy || step.isStopped())) {
      withdraw(state, account, waiter);
      lock.unlock();
      return step.isStopped() ? steps.stopped(step) : busy(*patience, "this owner had no place among its steps");
    }
  }
  place.begin(*this);
  return place;
}

std::pair<size_t, size_t> StepQueue::counts(Lane lane) const {
  std::lock_guard lock(mutex);
  const LaneState &state = lanes[size_t(lane)];
  return {state.running, state.waiting};
}

void StepQueue::admit(LaneState &state) {
  while (state.waiting > 0 && state.running < state.places) {
    Account *next = nullptr;
    for (auto &[name, account] : state.accounts) {
      const bool canRun = !account.waiting.empty() && account.running < most(state, name);
      if (canRun &&
          (next == nullptr || std::pair(account.running, account.used) < std::pair(next->running, next->used))) {
        next = &account;
      }
    }
    if (next == nullptr) {
      return;
    }
    state.floor = std::max(state.floor, next->used);
    Waiter &waiter = *next->waiting.front();
    next->waiting.pop_front();
    --state.waiting;
    ++state.running;
    ++next->running;
    waiter.isAdmitted = true;
    waiter.called.notify_one();
  }
}

/// Of one that waits no longer.
void StepQueue::withdraw(LaneState &state, const std::string &account, Waiter &waiter) {
  Account &own = state.accounts.at(account);
  own.waiting.remove(&waiter);
  --state.waiting;
  if (own.running == 0 && own.waiting.empty() && own.used <= state.floor) {
    state.accounts.erase(account);
  }
}

void StepQueue::leave(Lane lane, const std::string &account, double seconds) {
  std::lock_guard lock(mutex);
  LaneState &state = lanes[size_t(lane)];
  Account &own = state.accounts.at(account);
  own.used += seconds * (account.empty() ? kAnonymousWeight : 1);
  --own.running;
  --state.running;
  if (own.running == 0 && own.waiting.empty() && own.used <= state.floor) {
    state.accounts.erase(account);
  }
  admit(state);
}

StepQueue::Place::~Place() {
  if (queue != nullptr) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - since;
    queue->leave(lane, account, spent.count());
  }
}

} // namespace sojourn::owner
