// SPDX-License-Identifier: Apache-2.0
// As Python computes them: `**` is the C library's pow.
#include "frontend/replay/Rates.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

namespace sojourn::frontend {

namespace {

double countOf(const at::Tensor &counter) {
  return counter.scalar_type() == at::kFloat ? static_cast<double>(*counter.const_data_ptr<float>())
                                             : *counter.const_data_ptr<double>();
}

/// The number that all counters say, or NaN; nothing without counters.
std::optional<double> commonCount(const RateGroup &group) {
  std::optional<double> common;
  for (const at::Tensor &counter : group.counters) {
    const double count = countOf(counter);
    if (common && *common != count) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    common = count;
  }
  return common;
}

std::optional<double> rateOf(const RateGroup &group, std::string_view name) {
  for (const auto &[known, value] : group.rates) {
    if (known == name) {
      return value;
    }
  }
  return std::nullopt;
}

void addComputed(const RateGroup &group, std::optional<double> count, std::vector<double> &values) {
  for (const auto &[name, value] : group.rates) {
    values.insert(values.end(), {value, -value, 1 - value});
  }
  const double rate = rateOf(group, "lr").value_or(0.0);
  values.push_back(1 - rate * rateOf(group, "weight_decay").value_or(0.0));
  if (!count) {
    return;
  }
  for (const char *name : {"betas[0]", "betas[1]"}) {
    const std::optional<double> beta = rateOf(group, name);
    const double correction = !beta || *count == 0 ? 1.0 : 1 - std::pow(*beta, *count);
    if (correction != 0) {
      values.insert(values.end(), {rate / correction, (rate / correction) * -1, correction, std::pow(correction, 0.5)});
    } else {
      values.insert(values.end(), 4, 0.0);
    }
  }
  const double divisor = 1 + (*count - 1) * rateOf(group, "lr_decay").value_or(0.0);
  values.insert(values.end(), {rate / divisor, -(rate / divisor), -rate / divisor});
}

} // namespace

std::vector<double> computedNumbers(const std::vector<double> &floats, const std::vector<RateGroup> &groups,
                                    bool afterCall) {
  std::vector<double> values;
  for (double value : floats) {
    values.insert(values.end(), {value, -value});
  }
  for (const RateGroup &group : groups) {
    std::optional<double> count = commonCount(group);
    if (count && group.advances && !afterCall) {
      count = *count + 1;
    }
    addComputed(group, count, values);
  }
  return values;
}

void advanceCounters(const std::vector<at::Tensor> &counters, double by) {
  for (const at::Tensor &counter : counters) {
    if (counter.scalar_type() == at::kFloat) {
      *counter.mutable_data_ptr<float>() += static_cast<float>(by);
    } else {
      *counter.mutable_data_ptr<double>() += by;
    }
    counter.unsafeGetTensorImpl()->bump_version();
  }
}

} // namespace sojourn::frontend
