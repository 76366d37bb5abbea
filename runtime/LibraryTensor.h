// SPDX-License-Identifier: Apache-2.0
// at::Tensor over slots and over bare memory. Only kernels on ATen include this.
#pragma once
#include "runtime/Library.h"
#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

namespace sojourn::runtime {

at::ScalarType scalarTypeOf(Element element);

/// A tensor over a window of a slot; its memory is bound before each run where it changes.
at::Tensor libraryTensor(LibraryTensors &library, const StridedView &view);

/// A dense tensor over dense contents of a slot.
at::Tensor libraryTensor(LibraryTensors &library, Place place, Element element, llvm::ArrayRef<int64_t> dims);

/// A tensor with a storage of its own, to be pointed at memory by `point`.
at::Tensor looseTensor(Element element, llvm::ArrayRef<int64_t> dims);

/// Lets a loose tensor lie at `data`.
inline void point(const at::Tensor &tensor, void *data) {
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(data, at::Device(at::kCPU)));
}

} // namespace sojourn::runtime
