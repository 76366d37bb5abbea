// SPDX-License-Identifier: Apache-2.0
// TensorIterator's rules, from metadata alone: broadcast sizes, and the permutation-preserving strides of
// a fresh output.
#ifndef SOJOURN_FRONTEND_SHAPES_ITERATOR_H
#define SOJOURN_FRONTEND_SHAPES_ITERATOR_H

#include "frontend/shapes/Rules.h"

namespace sojourn::frontend::shapes {

/// Geometry of one operand.
struct Operand {
  IntArrayRef sizes;
  IntArrayRef strides;
};

using TensorPointers = c10::SmallVector<const Tensor *, 4>;

/// Sizes and strides of the output of an elementwise op over these tensors. Throws eager's broadcast
/// error. No operand: rank 0. `withNumber`: a number takes part as a rank-0 operand, which sends the
/// iteration down another path of eager's.
void iterate(c10::ArrayRef<const Tensor *> tensors, Dims &sizes, Dims &strides, bool withNumber = false);

/// Promotion copies operands of another dtype first, which makes sliced and expanded ones dense; that
/// changes what the strides are taken from. The first `exempt` tensors keep their dtype (where's condition).
void iteratePromoted(c10::ArrayRef<const Tensor *> tensors, ScalarType common, Dims &sizes, Dims &strides,
                     bool withNumber = false, size_t exempt = 0);

/// The slow path alone: operands must be broadcastable to `sizes`.
Dims permutedStrides(c10::ArrayRef<Operand> operands, IntArrayRef sizes);

/// Appends the output of an elementwise op over `tensors`.
OutputMeta &appendIterated(Outputs &out, c10::ArrayRef<const Tensor *> tensors, bool withNumber = false);

} // namespace sojourn::frontend::shapes

#endif // SOJOURN_FRONTEND_SHAPES_ITERATOR_H
