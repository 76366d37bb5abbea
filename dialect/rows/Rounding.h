// SPDX-License-Identifier: Apache-2.0
// How exactly the rows of a clipped sum are added up, and what that may cost its bound. The lowering and the proof ask
// the same function: what is added is what was paid.
#ifndef SOJOURN_DIALECT_ROWS_ROUNDING_H
#define SOJOURN_DIALECT_ROWS_ROUNDING_H

#include "mlir/IR/Operation.h"

namespace sojourn::rows {

/// A clip factor counts a row's norm as at least this part of the sum of magnitudes that make it, so that rounding is
/// bounded by the clip bound: a row that cancels more is clipped more. Only where what a row adds is never made as one
/// value (ghost norms).
inline constexpr double kCancellation = 0x1p-10;
/// f32 adds up rows where rounding costs at most this part of the bound.
inline constexpr double kNarrowSlackMost = 0x1p-7;
/// Where f32 multiplies a scaled operand of a row with another one, rows with operands of larger squared norms count as
/// 0: they would magnify what rounding does to the smallest numbers.
inline constexpr double kNarrowSquaresMost = 0x1p100;

/// In f32 a row whose clip factor is smaller counts as 0: below 2^-126 its rounding would be no part of it.
inline constexpr double kNarrowFactorLeast = 0x1p-100;

/// Of f64 operands of a clipped row smaller magnitudes count as 0, in its norm and in its share alike: squares of what
/// is left are normal numbers. Products of squares may still become 0, but then what they stand for is below 2^-511.
inline constexpr double kWideLeast = 0x1p-500;
/// In f64 a row whose clip factor is smaller counts as 0, before it takes its operands out of the normal numbers. A
/// second guard: with bounds of at least 2^-400 and norms below 2^512, what rounding adds there is below 2^-500 as long
/// as nothing is multiplied behind a cut in the region of a clipped sum.
inline constexpr double kWideFactorLeast = 0x1p-500;
/// Smaller bounds are refused: a norm that is 0 by rounding has to lie far below any bound.
inline constexpr double kBoundLeast = 0x1p-400;

struct Accumulation {
  /// Rows that are added in f32 one after the other before these sums are added, in f32, too; 0: all is added in f64.
  int64_t block = 0;
  /// By how much rounding can exceed the bound of the sum at two neighbours together, relative to it.
  double slack = 0;
};

/// Of a `clipped_sum`: f32 where its results are clipped f32 values and the slack allows it, else f64.
Accumulation accumulationOf(mlir::Operation *clippedSum);

} // namespace sojourn::rows

#endif // SOJOURN_DIALECT_ROWS_ROUNDING_H
