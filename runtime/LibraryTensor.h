// SPDX-License-Identifier: Apache-2.0
// at::Tensor over bare memory. Only files of the adapter include this.
#pragma once
#include "runtime/Library.h"
#include <ATen/core/Tensor.h>

namespace sojourn::runtime {

/// Which operand of a call a tensor is; a thread keeps one tensor of each role and element type.
enum class Role : unsigned { out, first, second };

/// This thread's tensor of the role, lying over the view: valid until its next use. Making one costs
/// no allocation once the thread is warm.
at::Tensor &tensorOver(Role role, const LibraryView &view);
at::Tensor &tensorOver(Role role, Element element, const void *data, llvm::ArrayRef<int64_t> dims,
                       llvm::ArrayRef<int64_t> strides);

} // namespace sojourn::runtime
