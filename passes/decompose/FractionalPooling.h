// SPDX-License-Identifier: Apache-2.0
// Maximum pooling over windows at drawn positions.
#ifndef SOJOURN_PASSES_DECOMPOSE_FRACTIONALPOOLING_H
#define SOJOURN_PASSES_DECOMPOSE_FRACTIONALPOOLING_H

#include "passes/decompose/Call.h"

namespace sojourn::decompose {

/// (self, kernel_size, output_size, random_samples) -> (values, indices)
Results fractionalMaxPool(Call &c);

} // namespace sojourn::decompose

#endif // SOJOURN_PASSES_DECOMPOSE_FRACTIONALPOOLING_H
