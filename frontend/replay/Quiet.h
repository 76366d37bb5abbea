// SPDX-License-Identifier: Apache-2.0
// A call of a loop right after one that was replayed, where no code but the loop's has run since: that modules, options
// and rates are as they were need not be found out again.
#ifndef SOJOURN_FRONTEND_REPLAY_QUIET_H
#define SOJOURN_FRONTEND_REPLAY_QUIET_H

#include "frontend/replay/Call.h"
#include "frontend/replay/Rates.h"

#include <memory>
#include <optional>
#include <vector>

namespace sojourn::frontend {

/// The calls of a loop that were replayed since all were known to have committed. What a call changes on the host is
/// changed with it, in one piece that no signal parts.
class LoopedCalls {
public:
  explicit LoopedCalls(std::shared_ptr<Trip> trip) : trip_(std::move(trip)) {}
  /// Records a call in a step of the trip; its gradients and its numbers on the host are those after it. False where
  /// the trip is over.
  bool add(const CapturedCall &call, const std::shared_ptr<const CallEntry> &entry, const std::vector<double> &values,
           const HostNumbers &host);
  size_t size() const { return calls_.size(); }
  const std::shared_ptr<RepeatedCall> &made(size_t at) const { return calls_.at(at).made; }
  /// Numbers on the host that those from `first` on changed go back.
  void takeBack(size_t first);
  void clear() { calls_.clear(); }

private:
  struct Call {
    std::shared_ptr<RepeatedCall> made;
    HostNumbers host;
    std::vector<double> products; ///< before it
  };
  std::shared_ptr<Trip> trip_;
  std::vector<Call> calls_;
};

class QuietCall {
public:
  /// `arguments`: of the call before. `host`: what a call changes.
  QuietCall(std::shared_ptr<CapturedCall> call, std::shared_ptr<const Watched> watched, std::vector<RateGroup> groups,
            const std::vector<at::Tensor> &arguments, HostNumbers host);

  /// Adds it to a loop's calls; nothing, and no step, where it has to be looked at: its arguments are of other shapes,
  /// or want gradients, or do not say which tensors and numbers it takes. Whether the trip is not over.
  /// `floats`: the call's numbers that follow from its integers.
  std::optional<bool> repeat(const std::vector<at::Tensor> &arguments, const std::vector<double> &floats,
                             LoopedCalls &calls) const;

private:
  std::shared_ptr<CapturedCall> call_;
  std::shared_ptr<const Watched> watched_;
  std::vector<RateGroup> groups_;
  std::vector<TensorForm> forms_;
  HostNumbers host_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_REPLAY_QUIET_H
