// SPDX-License-Identifier: Apache-2.0
// When the reply to a message leaves whose steps depend on private rows: at the end of a time that follows from shapes
// and from the load of the machine, never from rows.
#ifndef SOJOURN_OWNER_REPLYTIME_H
#define SOJOURN_OWNER_REPLYTIME_H

#include "owner/Environment.h"
#include "owner/RunningSteps.h"

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
  /// varies less: by the root of their number, were they independent; here it is the fourth root.
  static Quantum of(double headroom, int64_t stepNs, size_t steps, bool mayBeLate);
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

/// Of one message, in its session's turn. Its steps run in one call of the worker, and the message ends with it:
/// between two calls, others would see when the first one ended. The run is measured, everything else about a step is
/// public. What it left of `allowed` is waited for before any step lands: how long the disk takes depends on the
/// moment, and landing frees what others wait for. What follows takes some microseconds longer where the wait was
/// longer (cold caches), so the reply leaves at a multiple of kAlignNs after the wait. A single step that publishes and
/// takes longer is an overrun: the caller keeps the reply back. Other messages may be late, by whole quanta. What that
/// tells is counted in bits.
class ReplyTime {
public:
  ReplyTime(const Environment &environment, double headroom) : environment(&environment), headroom(headroom) {}

  /// The steps depend on private rows.
  void protect() { isProtected = headroom > 0; }
  bool isOn() const { return isProtected; }
  bool isBegun() const { return count > 0; }
  /// Before the run; `steps`: that the message asks for.
  void begin(int64_t stepNs, size_t steps, bool publishes);
  /// Of those, how many the message may get: as many as may take kMessageNs, and at least one.
  size_t steps() const { return count; }
  /// Around the run, of `steps` of them. `failed`: on its own, which may depend on rows.
  int64_t now() const { return environment->steadyNs(); }
  void ran(size_t steps, int64_t ns, bool failed);
  /// Whether the steps that have run must not land.
  bool isOver() const { return !mayBeLate() && spent > quantum.allowed; }
  int64_t overNs() const { return spent - quantum.allowed; }

  /// Waits for what the run left. A step that is stopped waits for kStopNs at most, counted from the stop.
  void hold(const RunningStep &step);
  /// Waits until the reply may leave, without a run at once.
  void end();
  /// What the reply tells by its time, by how far it got if it was stopped, and by a failure of the run: 0 for nearly
  /// all.
  uint64_t bits() const { return told; }
  /// They are in the ledger.
  void counted() { told = 0; }

  /// So that others wait no longer for its place, and Ctrl-C, which such a message does not see between two steps.
  static constexpr int64_t kMessageNs = 250'000'000;
  /// From a stop to the reply: a process that goes on is killed by then.
  static constexpr int64_t kStopNs = 250'000'000;

  static constexpr int64_t kAlignNs = 100'000;

private:
  /// A loop that stops for a step that was late is worth less than the bits.
  bool mayBeLate() const { return !publishing || count > 1; }

  const Environment *environment;
  const double headroom;
  bool isProtected = false, publishing = false;
  Quantum quantum;
  size_t count = 0;
  int64_t spent = 0, price = 0;
  std::optional<int64_t> heldUntil; ///< the end of the wait
  uint64_t told = 0;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_REPLYTIME_H
