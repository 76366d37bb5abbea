// SPDX-License-Identifier: Apache-2.0
// Reads outside of a step: pending ops travel with the question, in one trip. A read spends nothing: it returns open
// values, the script's own, and values that were released already.
#ifndef SOJOURN_FRONTEND_FLIGHT_READS_H
#define SOJOURN_FRONTEND_FLIGHT_READS_H

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

namespace sojourn::frontend {

/// Dense CPU copies of remote tensors, without a graph; at each owner one trip for all of them, none for what was read
/// before and not written since. Throws ValueNeeded within a step and on offline devices, Refused where the value may
/// not leave for nothing, and what a flush throws. Nobody may write to the results. `keep`: large ones are remembered,
/// too, until `forgetRead`.
std::vector<at::Tensor> readValues(const std::vector<at::Tensor> &tensors, bool keep = false);
void forgetRead(const std::vector<at::Tensor> &tensors);

/// As `StepSender` says.
at::Tensor maskValue(const at::Tensor &mask);
std::optional<std::vector<int64_t>> readSizes(const at::Tensor &given,
                                              const std::function<at::Tensor(const at::Tensor &)> &count);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_FLIGHT_READS_H
