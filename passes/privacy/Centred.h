// SPDX-License-Identifier: Apache-2.0
// Statistics of centred values: a pass of the owner that takes values summed over rows out of sums over rows.
#ifndef SOJOURN_PASSES_PRIVACY_CENTRED_H
#define SOJOURN_PASSES_PRIVACY_CENTRED_H

#include "passes/Rows.h"

#include <string>
#include <vector>

namespace sojourn {

/// A variance sums (x - c)^2 where c, the mean, was itself summed over rows: each term depends on every row. As
///
///     sum_i (x_i - c)(y_i - d) = sum_i x_i y_i - d sum_i x_i - c sum_i y_i + n c d
///
/// it is computed from sums of per-row values alone. Does so for `reduce_sum` and `dot` over rows of polynomials in
/// per-row values (add, sub, neg, mul, division by what is the same for every row, whole powers, casts between floats)
/// of degree 4 at most, in f64 since the terms cancel; a sum of squares is never made negative by noise.
///
/// In batches that the owner draws n, which is secret there, is the expected number. Elsewhere x stands for x less the
/// middle of its range (Middle.h), as long as that needs no sum over rows beside those that the polynomial has: a sum
/// of x - m is that of x less n m, so a mean and a variance still share the one that is released.
///
/// Leaves alone what reaches a state (committed, or taken and given back), where the scale of a gradient belongs to the
/// clip. Goes before `publicDivisors`, which would replace a divisor that can be taken out exactly. No proof rests on
/// it: the result is analysed from scratch.
void centredSums(mlir::func::FuncOp step, const RowInputs &inputs, std::vector<std::string> &notes);

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_CENTRED_H
