// SPDX-License-Identifier: Apache-2.0
// Who may use the processors: small steps at once, large ones one account after another.
#ifndef SOJOURN_OWNER_STEPQUEUE_H
#define SOJOURN_OWNER_STEPQUEUE_H

#include "owner/Patience.h"
#include "owner/RunningSteps.h"

#include "llvm/Support/Error.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace sojourn::owner {

/// Work of at most this many operations (passes/Price.h) is small: it takes some milliseconds.
inline constexpr uint64_t kSmallOperations = 20'000'000;

/// Two lanes, for small and for large work, each with a bounded number of places. Where a lane is full, the account
/// with the fewest places, then the one that has used the lane least, gets the next place; within an account, requests
/// come in their order. Of the places one client has at most half, and all clients without an identity
/// together a quarter; their time counts four times. The data owner's process does not wait. Guards itself.
class StepQueue {
public:
  enum class Lane : uint8_t { small, large };
  static Lane laneOf(uint64_t operations) { return operations <= kSmallOperations ? Lane::small : Lane::large; }

  /// `threads`: processors that steps use.
  explicit StepQueue(unsigned threads);

  /// The right to run, given back when it goes.
  class Place {
  public:
    Place() = default;
    Place(Place &&other) noexcept
        : queue(std::exchange(other.queue, nullptr)), lane(other.lane), account(std::move(other.account)),
          since(other.since) {}
    Place &operator=(Place &&) = delete;
    ~Place();

  private:
    friend class StepQueue;
    Place(Lane lane, std::string account) : lane(lane), account(std::move(account)) {}
    void begin(StepQueue &from) {
      queue = &from;
      since = std::chrono::steady_clock::now();
    }
    StepQueue *queue = nullptr; ///< null until it begins
    Lane lane = Lane::small;
    std::string account;
    std::chrono::steady_clock::time_point since;
  };

  /// Waits for a place. RequestErrors: that of the step if it is stopped first, Busy where its patience ends.
  llvm::Expected<Place> enter(const std::string &account, Lane lane, const RunningSteps &steps, const RunningStep &step,
                              const Patience &patience = {});

  /// How many run and wait in a lane.
  std::pair<size_t, size_t> counts(Lane lane) const;

private:
  struct Waiter {
    std::condition_variable called;
    bool isAdmitted = false;
  };
  struct Account {
    unsigned running = 0;
    double used = 0; ///< seconds
    std::list<Waiter *> waiting;
  };
  struct LaneState {
    unsigned places = 0, running = 0, waiting = 0;
    double floor = 0; ///< of `used`, of an account that comes anew
    std::map<std::string, Account> accounts;
  };

  static unsigned most(const LaneState &state, const std::string &account);
  static void admit(LaneState &state);
  static void withdraw(LaneState &state, const std::string &account, Waiter &waiter);
  void leave(Lane lane, const std::string &account, double seconds);

  mutable std::mutex mutex;
  std::array<LaneState, 2> lanes;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STEPQUEUE_H
