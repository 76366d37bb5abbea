// SPDX-License-Identifier: Apache-2.0
// at::Tensor over bare memory. Only files of the adapter include this.
#ifndef SOJOURN_RUNTIME_LIBRARYTENSOR_H
#define SOJOURN_RUNTIME_LIBRARYTENSOR_H
#include "runtime/Library.h"
#include <ATen/core/Tensor.h>

namespace sojourn::runtime {

/// Which operand of a call a tensor is; a thread keeps a few tensors of each role, by layout.
enum class Role : unsigned { out, first, second };

/// A tensor of this thread lying over the view: valid until the next one of the same role. Making
/// one costs no allocation once the thread is warm.
at::Tensor &tensorOver(Role role, const LibraryView &view);
at::Tensor &tensorOver(Role role, Element element, const void *data, llvm::ArrayRef<int64_t> dims,
                       llvm::ArrayRef<int64_t> strides);

/// The special functions of dialect/SpecialFunctions.def over lines of f32 or f64; an operand of rank 0 is the same
/// everywhere.
namespace special {
#define SOJOURN_SPECIAL(name, arity) void name(at::Tensor &out, const at::Tensor &a, const at::Tensor &b);
#include "dialect/SpecialFunctions.def"
} // namespace special

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_LIBRARYTENSOR_H
