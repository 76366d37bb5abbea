// SPDX-License-Identifier: Apache-2.0
// See Quiet.h.
#include "frontend/replay/Quiet.h"

#include "frontend/flight/Flights.h"

#include <algorithm>
#include <cmath>

namespace sojourn::frontend {

QuietCall::QuietCall(std::shared_ptr<CapturedCall> call, std::shared_ptr<const Watched> watched,
                     std::vector<RateGroup> groups, const std::vector<at::Tensor> &arguments, HostNumbers host)
    : call_(std::move(call)), watched_(std::move(watched)), groups_(std::move(groups)),
      forms_(arguments.begin(), arguments.end()), host_(std::move(host)) {}

bool LoopedCalls::add(const CapturedCall &call, const std::shared_ptr<const CallEntry> &entry,
                      const std::vector<double> &values, const HostNumbers &host) {
  calls_.reserve(calls_.size() + 1);
  const uint64_t held = trip_->held, committed = trip_->committed;
  std::shared_ptr<RepeatedCall> made = call.repeatInStep(entry, values, [&] { endStep(trip_, /*holds=*/true); });
  if (trip_->held == held && trip_->committed == committed) {
    return false;
  }
  made->settle();
  std::vector<double> products = host.advance(values);
  calls_.push_back({std::move(made), host, std::move(products)});
  return true;
}

void LoopedCalls::takeBack(size_t first) {
  for (; calls_.size() > first; calls_.pop_back()) {
    calls_.back().host.takeBack(calls_.back().products);
  }
}

std::optional<bool> QuietCall::repeat(const std::vector<at::Tensor> &arguments, const std::vector<double> &floats,
                                      LoopedCalls &calls) const {
  auto isSame = [](const at::Tensor &tensor, const TensorForm &form) { return form.fits(tensor); };
  if (!std::equal(arguments.begin(), arguments.end(), forms_.begin(), forms_.end(), isSame)) {
    return std::nullopt;
  }
  const std::vector<double> values = computedNumbers(floats, groups_, /*afterCall=*/false);
  auto entry = std::make_shared<CallEntry>(arguments, watched_);
  if (std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); }) ||
      !call_->fits(*entry) || !call_->determines(values)) {
    return std::nullopt;
  }
  return calls.add(*call_, entry, values, host_);
}

} // namespace sojourn::frontend
