// SPDX-License-Identifier: Apache-2.0
// Layouts that are about storage: new tensors with gaps, and resize_.
#include "frontend/Error.h"
#include "frontend/recording/Record.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace sojourn::frontend {

namespace {

Dims rowMajor(c10::IntArrayRef sizes) {
  Dims strides(sizes.size());
  int64_t step = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    strides[dim] = step;
    step *= std::max<int64_t>(sizes[dim], 1);
  }
  return strides;
}

} // namespace

bool isDenseLayout(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  std::vector<std::pair<int64_t, int64_t>> dims; // stride, size
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (sizes[dim] > 1) {
      dims.emplace_back(strides[dim], sizes[dim]);
    }
  }
  std::sort(dims.begin(), dims.end());
  int64_t next = 1;
  for (auto [stride, size] : dims) {
    if (stride != next) {
      return false;
    }
    next *= size;
  }
  return true;
}

at::Tensor emptyStrided(c10::IntArrayRef sizes, c10::IntArrayRef strides, const at::TensorOptions &options) {
  int64_t extent = 1;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    int64_t reach = 0;
    TORCH_CHECK(!__builtin_mul_overflow(sizes[dim] - 1, strides[dim], &reach) &&
                    !__builtin_add_overflow(extent, reach, &extent),
                "Storage size calculation overflowed with sizes=", sizes, " and strides=", strides);
  }
  ViewMeta meta;
  meta.sizes.assign(sizes.begin(), sizes.end());
  meta.strides.assign(strides.begin(), strides.end());
  return makeView(at::empty({extent}, options), meta);
}

void resize(const OpInfo &info, const at::Tensor &self, c10::IntArrayRef sizes) {
  if (self.sizes() == sizes) {
    return;
  }
  for (int64_t size : sizes) {
    TORCH_CHECK(size >= 0, "Trying to create tensor with negative dimension ", size, ": ", sizes);
  }
  RemoteTensorImpl *impl = remoteImpl(self);
  const auto &storage = impl->remoteStorage();
  const int64_t count = c10::multiply_integers(sizes), held = c10::multiply_integers(storage->sizes);
  if (self.scalar_type() == storage->dtype && impl->storage_offset() + count <= held) {
    impl->changeLayout(sizes, rowMajor(sizes), impl->storage_offset());
    return;
  }
  if (self.scalar_type() != storage->dtype || impl->storage_offset() != 0 || storage.use_count() > 1) {
    fail(ErrorKind::Unsupported, info,
         "resize_ to " + c10::str(sizes) + " needs more memory than the " + std::to_string(held) +
             " elements of this tensor, which other tensors may share; clone() it first, or use torch.empty");
  }
  at::Tensor grown = at::empty(sizes, self.options());
  if (held > 0) {
    ViewMeta all;
    all.sizes = {held};
    all.strides = {1};
    makeView(grown, all).copy_(makeView(self, all));
  }
  impl->changeStorage(remoteImpl(grown)->remoteStorage());
}

} // namespace sojourn::frontend
