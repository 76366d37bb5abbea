// SPDX-License-Identifier: Apache-2.0
// What an owner would make of a step on private tables: the owner's own passes on what the client knows. To refuse
// before anything is sent, and to quote; the owner proves all of it again.
#ifndef SOJOURN_FRONTEND_COMPILE_JUDGE_H
#define SOJOURN_FRONTEND_COMPILE_JUDGE_H

#include "frontend/wire/Client.h"
#include "runtime/privacy/Charge.h"
#include "runtime/terms/Defaults.h"

#include <string>
#include <tuple>
#include <vector>

namespace sojourn::frontend {

struct Judgement {
  /// With op, line and reasons; empty: it would run.
  std::string refusal;
  /// Of a published value, by its number among them.
  struct Release {
    unsigned published = 0;
    /// Standard deviation of its noise; NaN: the value is not linear in the noise.
    double error = 0;
    /// Released together with it.
    int64_t numbers = 0;
    bool isLaplace = false;
  };
  std::vector<Release> releases;
  /// Of rows of private tables that the step itself pays for: not only values with prices of their own.
  struct Draw {
    bool isSampled = false;
    int64_t rows = 0, expected = 0, slots = 0;
    /// How many steps' parts it costs: 1, more where its rows are used again after an update.
    double parts = 1;
    /// Numbers of the step's tables.
    std::vector<unsigned> tables;
    /// What it costs, whichever tables pay for it.
    auto price() const { return std::tuple(isSampled, rows, expected, slots, parts); }
  };
  std::vector<Draw> draws;
  std::vector<std::string> notes;
};

/// `tables`: in the order of the step's tables. Tensors that the owner holds are taken for released, so that nothing is
/// refused here that the owner would run. `delta`: of the grant that prices are looked up with; 0: of each price
/// itself.
Judgement judgePrivate(const wire::Step &step, const std::vector<DatasetInfo> &tables, double delta = 0);

/// Where a step says nothing: the defaults of its private tables, of several the most careful. Of `tables` without
/// private ones those of a table that nobody has set.
terms::Defaults defaultsOf(const std::vector<DatasetInfo> &tables);

/// What a draw does to the people of its tables at a noise multiplier, and how probably it fails.
struct DrawTerms {
  double rate = 1, rho = 0, failures = 0;
};
DrawTerms termsOf(const Judgement::Draw &draw, double noiseMultiplier);
/// What it costs them, as the owner will charge it.
privacy::Charge chargeOf(const Judgement::Draw &draw, double noiseMultiplier);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_COMPILE_JUDGE_H
