// SPDX-License-Identifier: Apache-2.0
// TensorIterator's rules, from metadata alone: broadcast sizes, the permutation-preserving strides of
// a fresh output, and the common dtype.
#pragma once

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

/// torch.result_type over tensors and numbers.
class CommonType {
public:
  void add(const Tensor &tensor) {
    ScalarType type = tensor.scalar_type();
    same_ = same_ && (tensors_.empty() || type == first_) && !tensor.unsafeGetTensorImpl()->is_wrapped_number();
    ranked_ = ranked_ || tensor.dim() > 0;
    first_ = tensors_.empty() ? type : first_;
    tensors_.push_back(&tensor);
  }
  void add(const at::Scalar &scalar) {
    // A real number does not change the dtype of a floating tensor.
    plainNumbers_ = plainNumbers_ && !scalar.isComplex();
    numbers_ = true;
    state_ = at::native::update_result_type_state(scalar, state_);
  }
  ScalarType get() const {
    if (same_ && !tensors_.empty() && (!numbers_ || (plainNumbers_ && ranked_ && c10::isFloatingType(first_)))) {
      return first_;
    }
    at::native::ResultTypeState state = state_;
    for (const Tensor *tensor : tensors_) {
      state = at::native::update_result_type_state(*tensor, state);
    }
    return at::native::result_type(state);
  }

private:
  TensorPointers tensors_;
  at::native::ResultTypeState state_;
  ScalarType first_ = ScalarType::Undefined;
  bool same_ = true, ranked_ = false, numbers_ = false, plainNumbers_ = true;
};

/// Appends the output of an elementwise op over `tensors`.
OutputMeta &appendIterated(Outputs &out, c10::ArrayRef<const Tensor *> tensors, ScalarType dtype,
                           bool withNumber = false);

} // namespace sojourn::frontend::shapes
