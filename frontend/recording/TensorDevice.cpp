// SPDX-License-Identifier: Apache-2.0
// What tensors and storages tell the device that they are on.
#include "frontend/recording/RemoteDevice.h"
#include "frontend/recording/Tensor.h"

#include <utility>

namespace sojourn::frontend {

void Storage::release_resources() {
  readAgain = nullptr; // it holds the device, too
  shown.reset();
  if (auto told = std::exchange(device, nullptr)) {
    told->storageDied(*this);
    c10::raw::weak_intrusive_ptr::decref(this); // no pointer to it is left
  }
  pack.reset();
}

RemoteTensorImpl::RemoteTensorImpl(c10::intrusive_ptr<Storage> storage, c10::IntArrayRef sizes,
                                   c10::IntArrayRef strides, int64_t offset, at::ScalarType dtype)
    : TensorImpl(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::scalarTypeToTypeMeta(dtype),
                 c10::Device(c10::DeviceType::PrivateUse1, storage->device->index())),
      storage_(std::move(storage)) {
  set_storage_access_should_throw();
  set_sizes_and_strides(sizes, strides, offset);
}

void RemoteTensorImpl::changeLayout(c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  storage_->device->willChange(*this, /*storageToo=*/false);
  set_sizes_and_strides(sizes, strides, offset);
}

void RemoteTensorImpl::changeStorage(c10::intrusive_ptr<Storage> storage) {
  storage_->device->willChange(*this, /*storageToo=*/true);
  storage_ = std::move(storage);
  set_sizes_and_strides(storage_->sizes, storage_->strides, 0);
}

void RemoteTensorImpl::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl> &impl) {
  auto *source = dynamic_cast<RemoteTensorImpl *>(impl.get());
  TORCH_CHECK(source, "set_data: a tensor on device owner can only take the data of another tensor on device owner");
  storage_->device->willChange(*this, /*storageToo=*/true);
  restore(*source);
}

} // namespace sojourn::frontend
