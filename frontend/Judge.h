// SPDX-License-Identifier: Apache-2.0
// What an owner would make of a step on private tables: the owner's own passes on what the client knows. To refuse
// before anything is sent, and to quote; the owner proves all of it again.
#pragma once

#include "frontend/Client.h"

#include <string>
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
  std::vector<std::string> notes;
};

/// `tables`: in the order of the step's tables. Tensors that the owner holds are taken for released, so that nothing is
/// refused here that the owner would run. `delta`: of the grant that prices are looked up with; 0: of each price
/// itself.
Judgement judgePrivate(const wire::Step &step, const std::vector<DatasetInfo> &tables, double delta = 0);

} // namespace sojourn::frontend
