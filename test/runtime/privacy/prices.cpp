// SPDX-License-Identifier: Apache-2.0
// Answers questions about prices for test_accounting.py: a JSON object per line in, one per line out.
// Numbers that are not finite come back as null.
#include "runtime/privacy/Plan.h"
#include "runtime/privacy/Rdp.h"
#include "runtime/privacy/Tail.h"

#include <nlohmann/json.hpp>

#include <iostream>

using namespace sojourn::privacy;
using nlohmann::json;

namespace {

/// {"kind": "gaussian", "rho", "count"} and alike.
Charge chargeOf(const json &event) {
  std::string kind = event.at("kind");
  uint64_t count = event.value("count", uint64_t{1});
  if (kind == "gaussian") {
    return count * gaussian(event.at("rho"));
  }
  if (kind == "sampled") {
    return count * sampledGaussian(event.at("q"), event.at("rho"));
  }
  return count * (kind == "pure" ? pure(event.at("epsilon")) : failure(event.at("mass")));
}

TrainingPlan planOf(const json &ask) {
  return {ask.at("q"), ask.at("steps"), ask.value("overflow", 0.0), ask.value("failure", 0.0)};
}

template <typename T>
json answerOf(const Checked<T> &result) {
  return result ? json{{"value", *result}} : json{{"error", result.error()}};
}

json answer(const json &ask) {
  std::string what = ask.at("ask");
  if (what == "divergence") {
    std::string kind = ask.at("kind");
    int order = ask.at("order");
    return {{"value", kind == "gaussian"  ? gaussianDivergence(order, ask.at("rho"))
                      : kind == "sampled" ? sampledGaussianDivergence(order, ask.at("q"), ask.at("rho"))
                                          : pureDivergence(order, ask.at("epsilon"))}};
  }
  if (what == "price") {
    Charge total;
    for (const json &event : ask.at("events")) {
      total = total + chargeOf(event);
    }
    double delta = ask.at("delta");
    return {{"epsilon", smallestEpsilon(total, delta)},
            {"best", bestOrderEpsilon(total, delta)},
            {"rdp", total.rdp},
            {"delta", total.delta}};
  }
  if (what == "replaced") {
    Charge replaced = replaceOne(chargeOf(ask.at("event")));
    return {{"rdp", replaced.rdp}, {"delta", replaced.delta}};
  }
  if (what == "overflow") {
    return {{"value", overflowMass(ask.at("rows"), ask.at("rate"), ask.at("capacity"))}};
  }
  if (what == "capacity") {
    return answerOf(capacityFor(ask.at("expected")));
  }
  if (what == "poisson") {
    return {{"value", poissonOverflowMass(ask.at("mean"), ask.at("capacity"))}};
  }
  if (what == "noise") {
    return answerOf(noiseMultiplierFor({ask.at("epsilon"), ask.at("delta")}, planOf(ask)));
  }
  if (what == "epsilon") {
    return answerOf(epsilonOf(planOf(ask), ask.at("noise"), ask.at("delta")));
  }
  if (what == "planned") {
    return answerOf(plannedEpsilonOf(planOf(ask), ask.at("noise"), ask.at("delta")));
  }
  return {{"error", "unknown question"}};
}

} // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << answer(json::parse(line)).dump() << std::endl;
  }
  return 0;
}
