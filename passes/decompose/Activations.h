// SPDX-License-Identifier: Apache-2.0
// What activations, their gradients and fused linear ops share.
#ifndef SOJOURN_PASSES_DECOMPOSE_ACTIVATIONS_H
#define SOJOURN_PASSES_DECOMPOSE_ACTIVATIONS_H

#include "passes/decompose/Call.h"

namespace sojourn::decompose {

inline constexpr double kHalfRoot = 0.70710678118654752440; // sqrt(1/2)
inline constexpr double kGeluBeta = 0.79788456080286535588; // sqrt(2/pi)
inline constexpr double kGeluKappa = 0.044715;

/// x times the normal distribution function of x, or its tanh approximation.
Term gelu(Term x, llvm::StringRef approximate);

} // namespace sojourn::decompose

#endif // SOJOURN_PASSES_DECOMPOSE_ACTIVATIONS_H
