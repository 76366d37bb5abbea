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

/// The slow path alone: operands must be broadcastable to `sizes`.
Dims permutedStrides(c10::ArrayRef<Operand> operands, IntArrayRef sizes);

/// torch.result_type over tensors and numbers.
class CommonType {
public:
  void add(const Tensor &tensor) {
    if (count_++ == 0 || tensor.scalar_type() == first_) {
      first_ = tensor.scalar_type();
    } else {
      mixed_ = true;
    }
    mixed_ = mixed_ || tensor.unsafeGetTensorImpl()->is_wrapped_number();
    state_ = at::native::update_result_type_state(tensor, state_);
  }
  void add(const at::Scalar &scalar) {
    mixed_ = true;
    state_ = at::native::update_result_type_state(scalar, state_);
  }
  ScalarType get() const { return mixed_ || count_ == 0 ? at::native::result_type(state_) : first_; }

private:
  at::native::ResultTypeState state_;
  ScalarType first_ = ScalarType::Undefined;
  unsigned count_ = 0;
  bool mixed_ = false;
};

/// Appends the output of an elementwise op over `tensors`.
OutputMeta &appendIterated(Outputs &out, c10::ArrayRef<const Tensor *> tensors, ScalarType dtype,
                           bool withNumber = false);

} // namespace sojourn::frontend::shapes
