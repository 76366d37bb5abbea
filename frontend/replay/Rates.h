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
/// adagrad.py, sgd.py, radam.py, nadam.py and others), in its order of operations.
struct RateGroup {
  std::vector<std::pair<std::string, double>> rates;
  std::vector<at::Tensor> counters;
  bool advances = false;  ///< a call adds 1 to the counters
  bool rectifies = false; ///< RAdam's, in its form for lists
  /// NAdam's products of momenta, which a call multiplies by another one: 0-dim CPU tensors like the counters.
  std::vector<at::Tensor> products;
};

/// All that the ops of a call may take: the numbers, their negatives, and what follows from them and the counts, in an
/// order that depends on the groups' names alone. First the products after the call, one per group that has some. NaN
/// where counts or products of a group differ. `afterCall`: the call has advanced its counters and its products.
std::vector<double> computedNumbers(const std::vector<double> &floats, const std::vector<RateGroup> &groups,
                                    bool afterCall);

/// Numbers on the host that a call changes.
struct HostNumbers {
  std::vector<at::Tensor> counters;
  std::vector<std::pair<at::Tensor, size_t>> products; ///< and where among computed numbers each finds its next value

  /// As torch changes them. `values`: computed before the call. Returns what the products were.
  std::vector<double> advance(const std::vector<double> &values) const;
  void takeBack(const std::vector<double> &products) const;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_REPLAY_RATES_H
