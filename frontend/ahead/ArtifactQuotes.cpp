// SPDX-License-Identifier: Apache-2.0
// What artifacts cost on private tables, known from their own programs and descriptions: no owner is asked.
#include "frontend/ahead/Artifact.h"
#include "frontend/Checks.h"
#include "frontend/compile/Judge.h"
#include "frontend/compile/Names.h"
#include "frontend/Raise.h"
#include "runtime/privacy/Filter.h"
#include "runtime/privacy/Plan.h"

#include <algorithm>
#include <cmath>

namespace sojourn {

using namespace frontend;

namespace {

std::vector<DatasetInfo> tablesOf(const Artifact &artifact, const ArtifactCall &call) {
  std::vector<DatasetInfo> tables;
  for (const wire::TableBinding &binding : call.step.tables) {
    auto is = [&](const Dataset &table) { return table.name == binding.name; };
    tables.push_back(infoOf(*std::find_if(artifact.tables.begin(), artifact.tables.end(), is)));
  }
  return tables;
}

/// The draws of one table in one step.
std::vector<Judgement::Draw> drawsOf(const Artifact &artifact, const ArtifactCall &call, const std::string &table) {
  std::vector<Judgement::Draw> draws = judge(artifact, call).draws;
  std::erase_if(draws, [&](const Judgement::Draw &draw) {
    return std::none_of(draw.tables.begin(), draw.tables.end(),
                        [&](unsigned number) { return call.step.tables[number].name == table; });
  });
  return draws;
}

/// A run as a function of its noise.
class Run {
public:
  Run(const Artifact &artifact, const std::string &table, int64_t steps)
      : steps_(steps), first_(drawsOf(artifact, artifact.calls[1], table)),
        steady_(drawsOf(artifact, artifact.calls[2], table)) {}

  privacy::Charge charge(double noiseMultiplier) const {
    auto of = [&](const std::vector<Judgement::Draw> &draws) {
      privacy::Charge charge;
      for (const Judgement::Draw &draw : draws) {
        charge = charge + chargeOf(draw, noiseMultiplier);
      }
      return charge;
    };
    privacy::Charge total = steps_ > 0 ? of(first_) : privacy::Charge();
    return steps_ > 1 ? total + static_cast<uint64_t>(steps_ - 1) * of(steady_) : total;
  }

  /// Of the run by itself, fixed in advance.
  double plannedEpsilon(double noiseMultiplier, double delta) const {
    std::vector<privacy::PlannedSteps> planned;
    double failures = 0;
    auto add = [&](const std::vector<Judgement::Draw> &draws, int64_t steps) {
      for (const Judgement::Draw &draw : draws) {
        DrawTerms terms = termsOf(draw, noiseMultiplier);
        planned.push_back({terms.rate, terms.rho, static_cast<uint64_t>(steps)});
        failures += static_cast<double>(steps) * terms.failures;
      }
    };
    add(first_, steps_ > 0 ? 1 : 0);
    add(steady_, steps_ > 1 ? steps_ - 1 : 0);
    return privacy::plannedEpsilon(planned, failures, delta);
  }

  double rate() const {
    double most = 0;
    for (const Judgement::Draw &draw : steady_) {
      most = std::max(most, static_cast<double>(draw.expected) / static_cast<double>(draw.rows));
    }
    return most;
  }

private:
  int64_t steps_;
  std::vector<Judgement::Draw> first_, steady_;
};

/// The least noise at which the grant admits the run, to 1e-7 of it.
double noiseFor(const Run &run, const privacy::Grant &grant) {
  auto filter = privacy::Filter::of(grant);
  if (!filter) {
    raise(ErrorKind::Error, filter.error());
  }
  double low = privacy::kNoiseMin, high = privacy::kNoiseMax;
  if (!filter->admits(run.charge(high))) {
    raise(ErrorKind::Error, "no amount of noise keeps this run within epsilon " + std::to_string(grant.epsilon) +
                                " at its delta; give a larger epsilon, or fewer steps");
  }
  while (high > low * (1 + 1e-7)) {
    double middle = std::sqrt(low * high);
    (filter->admits(run.charge(middle)) ? high : low) = middle; // more noise costs less
  }
  return high;
}

} // namespace

Judgement frontend::judge(const Artifact &artifact, const ArtifactCall &call) {
  std::vector<DatasetInfo> tables = tablesOf(artifact, call);
  auto isPrivate = [](const DatasetInfo &table) { return table.policy != "open"; };
  if (std::none_of(tables.begin(), tables.end(), isPrivate)) {
    return {};
  }
  Judgement judgement = judgePrivate(call.step, tables);
  if (!judgement.refusal.empty()) {
    raise(ErrorKind::Refused, judgement.refusal);
  }
  return judgement;
}

RunQuote quoteRun(const Artifact &artifact, const std::string &table, double delta, double epsilon,
                  double noiseMultiplier, std::optional<int64_t> steps, std::optional<int64_t> rows) {
  if (epsilon != 0 && noiseMultiplier != 0) {
    raise(ErrorKind::Error, "give epsilon (the noise follows) or noise_multiplier (the price follows), not both");
  }
  require("delta", delta, wire::kDelta);
  if (epsilon != 0) {
    require("epsilon", epsilon, wire::kEpsilon);
  }
  if (noiseMultiplier != 0) {
    require("noise_multiplier", noiseMultiplier, wire::kNoiseMultiplier);
  }
  std::vector<std::string> names;
  const Dataset *found = nullptr;
  for (const Dataset &each : artifact.tables) {
    names.push_back(each.name);
    found = each.name == table ? &each : found;
  }
  if (!found) {
    raise(ErrorKind::Error,
          "the compiled step reads no table '" + table + "'" + nearestNames(table, names, "its tables"));
  }
  if (found->policy != "private") {
    raise(ErrorKind::Error, "table '" + table + "' was not described as private, so its values have no price");
  }
  if (rows) {
    Artifact counted = artifact;
    for (Dataset &each : counted.tables) {
      each.rows = each.name == table ? rows : each.rows;
    }
    if (std::string problem = checkTableSpec(counted.tables.at(static_cast<size_t>(found - artifact.tables.data())));
        !problem.empty()) {
      raise(ErrorKind::Error, "table '" + table + "' is invalid: " + problem);
    }
    return quoteRun(counted, table, delta, epsilon, noiseMultiplier, steps);
  }
  if (!found->rows) {
    raise(ErrorKind::Error,
          "the price depends on the number of rows of table '" + table +
              "', but its description has no number of rows; give the number of the owner's table: quote(..., rows=N)");
  }
  RunQuote quote{.epsilon = 0,
                 .delta = delta,
                 .steps = steps ? *steps : artifact.steps().value_or(0),
                 .noiseMultiplier = noiseMultiplier,
                 .samplingRate = 1};
  if (quote.steps < 1) {
    raise(ErrorKind::Error,
          "the run has " + std::to_string(quote.steps) +
              " steps, expected at least 1; give the number of steps of a run that takes no batches of a table");
  }
  Run run(artifact, table, quote.steps);
  quote.samplingRate = run.rate();
  if (epsilon > 0) {
    quote.noiseMultiplier = noiseFor(run, {epsilon, delta});
  } else if (noiseMultiplier == 0) {
    quote.noiseMultiplier = infoOf(*found).defaults.noiseMultiplier;
  }
  if (!(quote.noiseMultiplier >= privacy::kNoiseMin && quote.noiseMultiplier <= privacy::kNoiseMax)) {
    raise(ErrorKind::Error, "the noise multiplier is " + std::to_string(quote.noiseMultiplier) +
                                ", expected a number from 2^-12 to 2^40");
  }
  quote.epsilon = privacy::smallestEpsilon(run.charge(quote.noiseMultiplier), delta);
  quote.epsilonOfBestOrder = run.plannedEpsilon(quote.noiseMultiplier, delta);
  return quote;
}

} // namespace sojourn
