// SPDX-License-Identifier: Apache-2.0
// As Python computes them: `**` is the C library's pow.
#include "frontend/replay/Rates.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

namespace sojourn::frontend {

namespace {

double numberOf(const at::Tensor &holder) {
  return holder.scalar_type() == at::kFloat ? static_cast<double>(*holder.const_data_ptr<float>())
                                            : *holder.const_data_ptr<double>();
}

void setNumber(const at::Tensor &holder, double number) {
  if (holder.scalar_type() == at::kFloat) {
    *holder.mutable_data_ptr<float>() = static_cast<float>(number);
  } else {
    *holder.mutable_data_ptr<double>() = number;
  }
  holder.unsafeGetTensorImpl()->bump_version();
}

/// The number that all of them say, or NaN; nothing without any.
std::optional<double> commonOf(const std::vector<at::Tensor> &holders) {
  std::optional<double> common;
  for (const at::Tensor &holder : holders) {
    const double number = numberOf(holder);
    if (common && *common != number) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    common = number;
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

/// The count after the call.
std::optional<double> countOf(const RateGroup &group, bool afterCall) {
  const std::optional<double> count = commonOf(group.counters);
  return count && group.advances && !afterCall ? *count + 1 : count;
}

/// NAdam's momentum in its step of this number.
double momentumOf(const RateGroup &group, double step) {
  return rateOf(group, "betas[0]").value_or(0.0) *
         (1.0 - 0.5 * std::pow(0.96, step * rateOf(group, "momentum_decay").value_or(0.0)));
}

/// NAdam's product of momenta after the call.
double productOf(const RateGroup &group, std::optional<double> count, bool afterCall) {
  const double product = *commonOf(group.products), momentum = momentumOf(group, count.value_or(0.0));
  if (afterCall) {
    return product;
  }
  return group.products.front().scalar_type() == at::kFloat
             ? static_cast<double>(static_cast<float>(product) * static_cast<float>(momentum))
             : product * momentum;
}

void addRectified(const RateGroup &group, double count, std::vector<double> &values) {
  const double rate = rateOf(group, "lr").value_or(0.0), beta = rateOf(group, "betas[1]").value_or(0.0);
  const double correction = 1 - std::pow(rateOf(group, "betas[0]").value_or(0.0), count);
  const double power = std::pow(beta, count);
  const double longest = 2 / (1 - beta) - 1;
  const double length = longest - 2 * count * power / (1 - power);
  const double rectified =
      length > 5 ? std::pow((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length), 0.5)
                 : 0.0;
  const double unrectified = rectified > 0 ? 0.0 : 1.0;
  values.insert(values.end(), {rate * unrectified / correction * -1,
                               std::pow(1 - power, 0.5) * (rate * rectified / correction) * -1});
}

void addNesterov(const RateGroup &group, double count, double product, std::vector<double> &values) {
  const double rate = rateOf(group, "lr").value_or(0.0);
  const double momentum = momentumOf(group, count), next = momentumOf(group, count + 1);
  values.insert(values.end(),
                {rate * (1.0 - momentum) / (1.0 - product) * -1, rate * next / (1.0 - product * next) * -1});
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
  for (const RateGroup &group : groups) {
    if (!group.products.empty()) {
      values.push_back(productOf(group, countOf(group, afterCall), afterCall));
    }
  }
  size_t product = 0;
  for (double value : floats) {
    values.insert(values.end(), {value, -value});
  }
  for (const RateGroup &group : groups) {
    const std::optional<double> count = countOf(group, afterCall);
    addComputed(group, count, values);
    if (count && group.rectifies) {
      addRectified(group, *count, values);
    }
    if (!group.products.empty()) {
      addNesterov(group, count.value_or(0.0), values[product++], values);
    }
  }
  return values;
}

std::vector<double> HostNumbers::advance(const std::vector<double> &values) const {
  for (const at::Tensor &counter : counters) {
    setNumber(counter, numberOf(counter) + 1);
  }
  std::vector<double> before;
  for (const auto &[product, next] : products) {
    before.push_back(numberOf(product));
    setNumber(product, values[next]);
  }
  return before;
}

void HostNumbers::takeBack(const std::vector<double> &before) const {
  for (const at::Tensor &counter : counters) {
    setNumber(counter, numberOf(counter) - 1);
  }
  for (size_t i = 0; i < before.size(); ++i) {
    setNumber(products[i].first, before[i]);
  }
}

} // namespace sojourn::frontend
