// SPDX-License-Identifier: Apache-2.0
// A call of a loop right after one that was replayed, where no code but the loop's has run since: that modules, options
// and rates are as they were need not be found out again.
#ifndef SOJOURN_FRONTEND_REPLAY_QUIET_H
#define SOJOURN_FRONTEND_REPLAY_QUIET_H

#include "frontend/replay/Call.h"
#include "frontend/replay/Rates.h"

#include <functional>
#include <memory>
#include <vector>

namespace sojourn::frontend {

class QuietCall {
public:
  /// `arguments`: of the call before. `advanced`: counters that a call adds 1 to.
  QuietCall(std::shared_ptr<CapturedCall> call, std::shared_ptr<const Watched> watched, std::vector<RateGroup> groups,
            const std::vector<at::Tensor> &arguments, std::vector<at::Tensor> advanced);

  /// Records it again in a step that `end` ends; nothing, and no step, where it has to be looked at: its arguments are
  /// of other shapes, or want gradients, or do not say which tensors and numbers it takes.
  std::shared_ptr<RepeatedCall> repeat(const std::vector<at::Tensor> &arguments, const std::function<void()> &end) const;
  const std::vector<at::Tensor> &advanced() const { return advanced_; }

private:
  struct Form {
    c10::Device device;
    at::ScalarType dtype;
    std::vector<int64_t> sizes, strides;
    int64_t offset;
    bool operator==(const Form &) const = default;
  };
  static std::vector<Form> formsOf(const std::vector<at::Tensor> &tensors);

  std::shared_ptr<CapturedCall> call_;
  std::shared_ptr<const Watched> watched_;
  std::vector<RateGroup> groups_;
  std::vector<Form> forms_;
  std::vector<at::Tensor> advanced_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_REPLAY_QUIET_H
