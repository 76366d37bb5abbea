// SPDX-License-Identifier: Apache-2.0
// When the reply to a message leaves whose steps depend on private rows: at the end of a time that follows from shapes
// and from the load of the machine, never from rows.
#ifndef SOJOURN_OWNER_REPLYTIME_H
#define SOJOURN_OWNER_REPLYTIME_H

#include "owner/Environment.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sojourn::owner {

struct CodeRef;

/// What the runs of one message may take, in nanoseconds.
struct Quantum {
  int64_t allowed = 0; ///< a multiple of `unit`
  int64_t unit = 0;    ///< a power of two
  /// `stepNs`: of one of `steps`, by rehearsals. `headroom`: of one step that publishes, as a factor. The sum of many
  /// varies less (by the root of their number, were they independent; here it is the fourth root), and a step that
  /// publishes nothing may be late (ReplyTime).
  static Quantum of(double headroom, int64_t stepNs, size_t steps, bool publishes);
};

/// What one step of a code takes in the worker of a session, by rehearsals. In the session's turn.
class StepPrices {
public:
  struct Key {
    const CodeRef *code;
    unsigned threads;
    uint64_t life; ///< of the worker
    bool isLoop;   ///< of several steps in a call
    friend bool operator==(const Key &, const Key &) = default;
  };
  std::optional<int64_t> find(const Key &key) const;
  void add(const Key &key, const std::shared_ptr<const CodeRef> &code, int64_t stepNs);
  void forget() { prices.clear(); }

private:
  static constexpr size_t kMost = 64;
  struct Price {
    Key key;
    std::weak_ptr<const CodeRef> code; ///< another one may come to its address
    int64_t stepNs;
  };
  std::vector<Price> prices; ///< the newest one at the end
};

/// Of one message, in its session's turn. Runs are measured, everything else about a step is public. What the runs left
/// of `allowed` is waited for: right after the run of a single step, because how long the disk takes depends on the
/// moment, and after the last one of several, which write nothing in between. What follows takes some microseconds
/// longer where the wait was longer (cold caches), so the reply leaves at a multiple of kAlignNs after the wait. A
/// message that publishes and takes longer is an overrun: the caller keeps the reply back. One that publishes nothing
/// may be late, by whole quanta. What that tells is counted in bits.
class ReplyTime {
public:
  ReplyTime(const Environment &environment, double headroom) : environment(&environment), headroom(headroom) {}

  /// The steps depend on private rows.
  void protect() { isProtected = headroom > 0; }
  bool isOn() const { return isProtected; }
  bool isBegun() const { return quantum.allowed > 0; }
  /// Before the first run; `steps`: that the message asks for, 1 where each of them writes to the disk.
  void begin(int64_t stepNs, size_t steps, bool publishes);
  /// Of those, how many the message gets: as many as may take kMessageNs, and at least one. It is not cut short by the
  /// time that they take.
  size_t steps() const { return count; }
  /// Around each run.
  int64_t now() const { return environment->steadyNs(); }
  void ran(int64_t ns) { spent += ns; }
  /// Whether the steps that have just run must not land.
  bool isOver() const { return isBegun() && publishing && spent + waited > quantum.allowed; }
  int64_t overNs() const { return spent + waited - quantum.allowed; }
  int64_t stepNs() const { return price; }

  /// After `done` steps of several, before the next ones: waits for what the runs left so far. The next ones may write
  /// to the disk before they run.
  void settle(size_t done, const std::atomic<bool> &stop);
  /// Waits for what the runs left. No run comes after it.
  void hold(const std::atomic<bool> &stop);
  /// Waits until the reply may leave. Returns the bits that the reply tells by its time, and by how far it got if it
  /// was stopped (`stop`): 0 for nearly all.
  uint64_t end(const std::atomic<bool> &stop);

  /// So that Ctrl-C, which such a message does not see between two steps, waits for no longer.
  static constexpr int64_t kMessageNs = 700'000'000;
  /// From a stop to the reply, at least: a process that goes on is killed by then.
  static constexpr int64_t kStopNs = 250'000'000;

  static constexpr int64_t kAlignNs = 100'000;

private:
  const Environment *environment;
  const double headroom;
  bool isProtected = false, publishing = false;
  Quantum quantum;
  size_t count = 1;
  int64_t spent = 0, waited = 0, price = 0;
  std::optional<int64_t> heldUntil; ///< the end of the wait
  uint64_t bits = 0;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_REPLYTIME_H
