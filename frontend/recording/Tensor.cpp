// SPDX-License-Identifier: Apache-2.0
// RemoteTensorImpl and the storage it names.
#include "frontend/recording/Tensor.h"

#include "frontend/Error.h"
#include "frontend/session/Session.h"

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

Storage::Storage(std::shared_ptr<Session> session, Dims sizes, Dims strides, at::ScalarType dtype)
    : session(std::move(session)), sizes(std::move(sizes)), strides(std::move(strides)), dtype(dtype),
      serial(nextSerial()) {}

c10::intrusive_ptr<Storage> Storage::make(std::shared_ptr<Session> session, Dims sizes, Dims strides,
                                          at::ScalarType dtype) {
  auto made = c10::make_intrusive<Storage>(std::move(session), std::move(sizes), std::move(strides), dtype);
  c10::raw::weak_intrusive_ptr::incref(made.get());
  return made;
}

c10::weak_intrusive_ptr<Storage> Storage::weak() {
  c10::raw::weak_intrusive_ptr::incref(this);
  return c10::weak_intrusive_ptr<Storage>::reclaim(this);
}

c10::intrusive_ptr<Storage> Storage::strong() { return weak().lock(); }

Storage::~Storage() { release_resources(); }

void Storage::release_resources() {
  readAgain = nullptr; // it holds the session, too
  shown.reset();
  if (auto told = std::exchange(session, nullptr)) {
    told->storageDied(*this);
    c10::raw::weak_intrusive_ptr::decref(this); // no pointer to it is left
  }
  pack.reset();
}

Storage::Place *Storage::placeIn(const Recording &recording) {
  for (Place &place : places) {
    if (place.recording == &recording) {
      return &place;
    }
  }
  return nullptr;
}

RemoteTensorImpl::RemoteTensorImpl(c10::intrusive_ptr<Storage> storage, c10::IntArrayRef sizes,
                                   c10::IntArrayRef strides, int64_t offset, at::ScalarType dtype)
    : TensorImpl(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::scalarTypeToTypeMeta(dtype),
                 c10::Device(c10::DeviceType::PrivateUse1, storage->session->index())),
      storage_(std::move(storage)) {
  set_storage_access_should_throw();
  set_sizes_and_strides(sizes, strides, offset);
}

void RemoteTensorImpl::changeLayout(c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  storage_->session->willChange(*this, /*storageToo=*/false);
  set_sizes_and_strides(sizes, strides, offset);
}

void RemoteTensorImpl::changeStorage(c10::intrusive_ptr<Storage> storage) {
  storage_->session->willChange(*this, /*storageToo=*/true);
  storage_ = std::move(storage);
  set_sizes_and_strides(storage_->sizes, storage_->strides, 0);
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

void RemoteTensorImpl::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl> &impl) {
  auto *source = dynamic_cast<RemoteTensorImpl *>(impl.get());
  TORCH_CHECK(source, "set_data: a tensor on device owner can only take the data of another tensor on device owner");
  storage_->session->willChange(*this, /*storageToo=*/true);
  restore(*source);
}

void RemoteTensorImpl::release_resources() {
  TensorImpl::release_resources();
  storage_.reset();
}

RemoteTensorImpl *remoteImpl(const at::TensorBase &tensor) {
  return static_cast<RemoteTensorImpl *>(tensor.unsafeGetTensorImpl());
}

namespace {

/// No process can map these addresses: on x86-64 they are not canonical, or would have to be asked for one by one, and
/// on arm64 the kernel's half begins with them. A read there faults, and no address is ever that of CPU memory. Each is
/// given out once, so that an address kept beyond its storage means no later one.
constexpr uint64_t kFirst = uint64_t(1) << 55, kEnd = uint64_t(1) << 63;
constexpr uint64_t kAlignment = 64; // as of CPU memory

uint64_t takeAddresses(uint64_t bytes) {
  static std::atomic<uint64_t> next{kFirst};
  uint64_t first = next.load();
  uint64_t size = 0;
  do {
    if (bytes >= kEnd - kAlignment || first > kEnd - kAlignment - bytes) {
      raise(ErrorKind::Unsupported, "too few of " + std::to_string(kEnd - kFirst) +
                                        " addresses are left for a storage of " + std::to_string(bytes) +
                                        " bytes; restart the process, and ask no tensor of this size for data_ptr() " +
                                        "or untyped_storage()");
    }
    size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  } while (!next.compare_exchange_weak(first, first + size));
  return first;
}

uint64_t bytesOf(const Storage &storage) {
  if (std::find(storage.sizes.begin(), storage.sizes.end(), 0) != storage.sizes.end()) {
    return 0;
  }
  uint64_t bytes = c10::elementSize(storage.dtype);
  for (int64_t size : storage.sizes) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      return kEnd; // more than there are
    }
  }
  return bytes;
}

} // namespace

c10::Storage shownStorage(const c10::intrusive_ptr<Storage> &storage) {
  SessionLock lock(storage->session->mutex());
  if (!storage->shown) {
    uint64_t bytes = bytesOf(*storage);
    auto *address = reinterpret_cast<void *>(bytes ? takeAddresses(bytes) : 0);
    auto shown = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                       c10::SymInt(static_cast<int64_t>(bytes)),
                                                       c10::DataPtr(address, storage->session->device()),
                                                       /*allocator=*/nullptr, /*resizable=*/false);
    // The last resort: storage.py refuses, with a class of ours, what Python can call.
    shown->release_data_and_set_meta_custom_data_ptr_error_msg_(
        "the bytes of a remote tensor's storage are at its owner; read the tensor with .cpu(), or publish it inside a "
        "step");
    storage->shown = std::move(shown);
  }
  return c10::Storage(storage->shown);
}

uint64_t shownAddress(const RemoteTensorImpl &tensor) {
  c10::Storage storage = shownStorage(tensor.remoteStorage());
  auto *shown = storage.unsafeGetStorageImpl();
  auto first = reinterpret_cast<uint64_t>(shown->_mutable_data_ptr_no_checks().get());
  return tensor.numel() == 0 ? 0 : first + static_cast<uint64_t>(tensor.storage_offset()) * tensor.itemsize();
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
