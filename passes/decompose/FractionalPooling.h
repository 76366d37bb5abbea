// SPDX-License-Identifier: Apache-2.0
// Maximum pooling over windows at drawn positions, and what all windows that are gathered choose.
#ifndef SOJOURN_PASSES_DECOMPOSE_FRACTIONALPOOLING_H
#define SOJOURN_PASSES_DECOMPOSE_FRACTIONALPOOLING_H

#include "passes/decompose/Call.h"

namespace sojourn::decompose {

/// Positions in the windows along `dim`, which stays with size 1: of the first of the largest, but of the last NaN.
Term chosen(Term windows, int64_t dim);

/// (self, kernel_size, output_size, random_samples) -> (values, indices)
Results fractionalMaxPool(Call &c);

} // namespace sojourn::decompose

#endif // SOJOURN_PASSES_DECOMPOSE_FRACTIONALPOOLING_H
