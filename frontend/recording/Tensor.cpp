// SPDX-License-Identifier: Apache-2.0
// RemoteTensorImpl and the storage it names.
#include "frontend/recording/Tensor.h"

#include "frontend/Error.h"

#include <algorithm>
#include <atomic>

namespace sojourn::frontend {

at::Tensor hostTensor(at::ScalarType dtype, c10::IntArrayRef sizes, std::span<const uint8_t> bytes) {
  size_t expected = c10::elementSize(dtype);
  for (int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(expected, static_cast<size_t>(size), &expected)) {
      return {};
    }
  }
  if (expected != bytes.size()) {
    return {};
  }
  at::Tensor tensor = at::empty(sizes, at::device(at::kCPU).dtype(dtype));
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  wire::countCopied(bytes.size());
  return tensor;
}

wire::TensorView viewOf(const at::Tensor &tensor) {
  return {static_cast<uint8_t>(elementOf(tensor.scalar_type())),
          {tensor.sizes().begin(), tensor.sizes().end()},
          {static_cast<const uint8_t *>(tensor.const_data_ptr()), tensor.nbytes()},
          /*sentAhead=*/0};
}

static uint64_t nextSerial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

Storage::Storage(std::shared_ptr<RemoteDevice> device, Dims sizes, Dims strides, at::ScalarType dtype)
    : device(std::move(device)), sizes(std::move(sizes)), strides(std::move(strides)), dtype(dtype),
      serial(nextSerial()) {}

c10::intrusive_ptr<Storage> Storage::make(std::shared_ptr<RemoteDevice> device, Dims sizes, Dims strides,
                                          at::ScalarType dtype) {
  auto made = c10::make_intrusive<Storage>(std::move(device), std::move(sizes), std::move(strides), dtype);
  c10::raw::weak_intrusive_ptr::incref(made.get());
  return made;
}

c10::weak_intrusive_ptr<Storage> Storage::weak() {
  c10::raw::weak_intrusive_ptr::incref(this);
  return c10::weak_intrusive_ptr<Storage>::reclaim(this);
}

c10::intrusive_ptr<Storage> Storage::strong() { return weak().lock(); }

Storage::~Storage() { release_resources(); }

Storage::Place *Storage::placeIn(const Recording &recording) {
  for (Place &place : places) {
    if (place.recording == &recording) {
      return &place;
    }
  }
  return nullptr;
}

void RemoteTensorImpl::restore(const RemoteTensorImpl &from) {
  copy_tensor_metadata(&from, this, version_counter(), allow_tensor_metadata_change());
  if (from.storage_) {
    storage_ = from.storage_;
  }
  refresh_numel();
  refresh_contiguous();
}

void RemoteTensorImpl::adoptKeySet(const c10::TensorImpl &base) {
  bool wasInference = is_inference();
  key_set_ = base.key_set();
  if (wasInference && !is_inference()) {
    set_version_counter(c10::VariableVersion(/*version=*/0));
  }
}

template <class Version>
c10::intrusive_ptr<RemoteTensorImpl> RemoteTensorImpl::copyAndDetach(Version &&version, bool allowChange) const {
  auto copy = c10::make_intrusive<RemoteTensorImpl>(storage_, sizes(), strides(), storage_offset(),
                                                    c10::typeMetaToScalarType(dtype()));
  copy_tensor_metadata(/*src_impl=*/this, /*dest_impl=*/copy.get(), std::forward<Version>(version), allowChange);
  copy->refresh_numel();
  copy->refresh_contiguous();
  return copy;
}

c10::intrusive_ptr<RemoteTensorImpl> RemoteTensorImpl::snapshot(bool withStorage) const {
  auto copy = copyAndDetach(version_counter(), allow_tensor_metadata_change());
  if (!withStorage) {
    copy->storage_.reset();
  }
  return copy;
}

c10::intrusive_ptr<c10::TensorImpl> RemoteTensorImpl::shallow_copy_and_detach(const c10::VariableVersion &version,
                                                                              bool allowChange) const {
  return copyAndDetach(version, allowChange);
}

c10::intrusive_ptr<c10::TensorImpl> RemoteTensorImpl::shallow_copy_and_detach(c10::VariableVersion &&version,
                                                                              bool allowChange) const {
  return copyAndDetach(std::move(version), allowChange);
}

void RemoteTensorImpl::release_resources() {
  TensorImpl::release_resources();
  storage_.reset();
}

RemoteTensorImpl *remoteImpl(const at::TensorBase &tensor) {
  return static_cast<RemoteTensorImpl *>(tensor.unsafeGetTensorImpl());
}

at::Tensor makeTensor(c10::intrusive_ptr<Storage> storage) {
  const Storage &base = *storage;
  return at::detail::make_tensor<RemoteTensorImpl>(storage, base.sizes, base.strides, /*offset=*/0, base.dtype);
}

at::Tensor makeView(const at::Tensor &base, const ViewMeta &meta) {
  RemoteTensorImpl *impl = remoteImpl(base);
  at::Tensor view = at::detail::make_tensor<RemoteTensorImpl>(
      impl->remoteStorage(), meta.sizes, meta.strides, meta.offset,
      meta.dtype == at::ScalarType::Undefined ? c10::typeMetaToScalarType(impl->dtype()) : meta.dtype);
  remoteImpl(view)->adoptKeySet(*impl);
  return view;
}

} // namespace sojourn::frontend
