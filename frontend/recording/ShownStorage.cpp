// SPDX-License-Identifier: Apache-2.0
// The storage of a remote tensor as torch shows it: an address and no bytes.
#include "frontend/recording/RemoteDevice.h"
#include "frontend/recording/Tensor.h"

#include "frontend/Error.h"

#include <algorithm>
#include <atomic>
#include <string>

namespace sojourn::frontend {

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
  DeviceLock lock(storage->device->mutex());
  if (!storage->shown) {
    uint64_t bytes = bytesOf(*storage);
    auto *address = reinterpret_cast<void *>(bytes ? takeAddresses(bytes) : 0);
    auto shown = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                       c10::SymInt(static_cast<int64_t>(bytes)),
                                                       c10::DataPtr(address, storage->device->device()),
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

} // namespace sojourn::frontend
