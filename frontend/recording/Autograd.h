// SPDX-License-Identifier: Apache-2.0
// What gradients of our own need to know.
#ifndef SOJOURN_FRONTEND_RECORDING_AUTOGRAD_H
#define SOJOURN_FRONTEND_RECORDING_AUTOGRAD_H

#include <ATen/core/Tensor.h>

namespace sojourn::frontend {

/// Forward-mode differentiation and torch.func take no C++ Function: they need formulas of ops.
bool needsOps(const at::Tensor &tensor);

/// To be called when a tensor has got its shape or dtype back: torch keeps one accumulator of gradients for each leaf,
/// with the shape and the dtype that the leaf had when a graph first used it. The next graph makes another.
void renewAccumulator(const at::Tensor &tensor);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_AUTOGRAD_H
