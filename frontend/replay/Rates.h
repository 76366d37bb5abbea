// SPDX-License-Identifier: Apache-2.0
// Numbers that torch's optimizers compute on the host before they hand them to an op.
#ifndef SOJOURN_FRONTEND_REPLAY_RATES_H
#define SOJOURN_FRONTEND_REPLAY_RATES_H

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace sojourn::frontend {

/// Float hyper-parameters of one group of an optimizer, by name ("lr", "betas[0]"), and its counts of steps: 0-dim CPU
/// tensors of float32 or float64. Source of what is computed from them: torch/optim of 2.13 (adam.py, adamax.py,
/// adagrad.py, sgd.py and others), in its order of operations.
struct RateGroup {
  std::vector<std::pair<std::string, double>> rates;
  std::vector<at::Tensor> counters;
  bool advances = false; ///< a call adds 1 to the counters
};

/// All that the ops of a call may take: the numbers, their negatives, and what follows from them and the counts, in an
/// order that depends on the groups' names alone. NaN where counts of a group differ. `afterCall`: the call has
/// advanced its counters.
std::vector<double> computedNumbers(const std::vector<double> &floats, const std::vector<RateGroup> &groups,
                                    bool afterCall);

/// Adds to counters, as torch does.
void advanceCounters(const std::vector<at::Tensor> &counters, double by);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_REPLAY_RATES_H
