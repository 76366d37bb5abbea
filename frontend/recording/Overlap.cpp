// SPDX-License-Identifier: Apache-2.0
// What an op writes and what it reads may lie in one memory only as eager's iterators allow.
#include "frontend/recording/Record.h"

#include <algorithm>

namespace sojourn::frontend {

void checkApart(const at::Tensor &written, const at::Tensor &read, bool takesSame) {
  const bool isOne = written.unsafeGetTensorImpl() == read.unsafeGetTensorImpl();
  if ((isOne && takesSame) || remoteImpl(written)->remoteStorage() != remoteImpl(read)->remoteStorage() ||
      written.numel() == 0 || read.numel() == 0 || !written.is_non_overlapping_and_dense() ||
      !read.is_non_overlapping_and_dense()) {
    return;
  }
  // In bytes: either may be a view as another type.
  const int64_t width = written.element_size(), other = read.element_size();
  const int64_t first = written.storage_offset() * width, second = read.storage_offset() * other;
  const bool isSame = first == second && written.numel() == read.numel() && width == other;
  const bool isShared = first < second + read.numel() * other && second < first + written.numel() * width;
  TORCH_CHECK(isSame ? takesSame && written.strides() == read.strides() : !isShared,
              "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
              "memory location. Please clone() the tensor before performing the operation.");
}

void checkWritable(const OpInfo &info, const at::Tensor &tensor) {
  if (tensor.numel() == 0) {
    return;
  }
  if (remoteImpl(tensor)->remoteStorage()->dtype == at::kBool && tensor.scalar_type() != at::kBool) {
    fail(ErrorKind::Unsupported, info,
         std::string("booleans would be written to as ") + c10::toString(tensor.scalar_type()) +
             ", but an owner stores booleans only as true and false; write to a copy: tensor.view(dtype).clone()");
  }
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    TORCH_CHECK(tensor.stride(dim) != 0 || tensor.size(dim) <= 1,
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation.");
  }
}

void checkListsApart(const OpInfo &info, c10::ArrayRef<c10::IValue> args, uint32_t position) {
  const auto written = args[position].toListRef();
  for (size_t other = 0; other < args.size(); ++other) {
    if (other == position || info.args[other] != ArgKind::TensorList || !args[other].isList()) {
      continue;
    }
    const auto read = args[other].toListRef();
    for (size_t k = 0; k < std::min(written.size(), read.size()); ++k) {
      if (written[k].isTensor() && read[k].isTensor() && isRemote(written[k].toTensor()) &&
          isRemote(read[k].toTensor())) {
        checkApart(written[k].toTensor(), read[k].toTensor());
      }
    }
  }
}

} // namespace sojourn::frontend
