// SPDX-License-Identifier: Apache-2.0
// Tensors over slots, the library's threads, and the one place where its exceptions end.
#include "runtime/LibraryTensor.h"
#include <ATen/Parallel.h>
#include <algorithm>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <unordered_map>

namespace sojourn::runtime {

struct LibraryTensors::Impl {
  std::unordered_map<SlotId, c10::Storage> storages;
};

LibraryTensors::LibraryTensors() : impl_(std::make_unique<Impl>()) {}
LibraryTensors::~LibraryTensors() = default;

void LibraryTensors::bind(SlotId slot, void *data) {
  auto storage = impl_->storages.find(slot);
  if (storage != impl_->storages.end() && storage->second.data() != data) {
    storage->second.unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(data, at::Device(at::kCPU)));
  }
}

at::ScalarType scalarTypeOf(Element element) {
  static constexpr at::ScalarType types[kElementCount] = {
      at::kBool, at::kByte,     at::kChar,  at::kShort,  at::kInt,          at::kLong,
      at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble};
  return types[static_cast<unsigned>(element)];
}

namespace {

c10::Storage emptyStorage(size_t bytes) {
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, at::DataPtr(nullptr, at::Device(at::kCPU)),
                      /*allocator=*/nullptr, /*resizable=*/false);
}

at::Tensor tensorOver(c10::Storage storage, Element element, llvm::ArrayRef<int64_t> dims,
                      llvm::ArrayRef<int64_t> strides, int64_t offset) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(scalarTypeOf(element)));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(at::IntArrayRef(dims.data(), dims.size()),
                                                      at::IntArrayRef(strides.data(), strides.size()), offset);
  return tensor;
}

size_t extentBytes(const StridedView &view) {
  int64_t last = view.offset;
  for (auto [dim, stride] : llvm::zip(view.dims, view.strides)) {
    if (dim == 0) {
      return 0;
    }
    last += (dim - 1) * stride;
  }
  return static_cast<size_t>(last + 1) * byteWidth(view.element);
}

} // namespace

at::Tensor libraryTensor(LibraryTensors &library, const StridedView &view) {
  size_t bytes = extentBytes(view);
  auto [entry, isNew] = library.impl().storages.try_emplace(view.slot);
  if (isNew) {
    entry->second = emptyStorage(bytes);
  } else if (entry->second.nbytes() < bytes) {
    entry->second.set_nbytes(bytes);
  }
  return tensorOver(entry->second, view.element, view.dims, view.strides, view.offset);
}

at::Tensor libraryTensor(LibraryTensors &library, Place place, Element element, llvm::ArrayRef<int64_t> dims) {
  StridedView view;
  view.slot = place.slot;
  view.element = element;
  view.offset = place.bytes / static_cast<int64_t>(byteWidth(element));
  view.dims.assign(dims.begin(), dims.end());
  view.strides = denseStrides(dims);
  return libraryTensor(library, view);
}

at::Tensor looseTensor(Element element, llvm::ArrayRef<int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims) {
    count *= dim;
  }
  return tensorOver(emptyStorage(static_cast<size_t>(count) * byteWidth(element)), element, dims, denseStrides(dims),
                    0);
}

unsigned libraryThreads() { return static_cast<unsigned>(std::clamp(at::get_num_threads(), 1, 64)); }

void runRows(Kernel &kernel, SlotTable slots, unsigned workers) {
  int64_t rows = kernel.rows;
  int64_t threads = std::min<int64_t>({static_cast<int64_t>(workers), at::get_num_threads(), rows});
  if (threads <= 1 || at::in_parallel_region()) {
    kernel.run(slots, 0, rows, 0);
    return;
  }
  // One piece per thread; a piece's number is its worker.
  at::parallel_for(0, threads, 1, [&](int64_t first, int64_t last) {
    // The mode is a thread's own, and the kernel's tensors were made in it.
    c10::InferenceMode guard;
    for (int64_t piece = first; piece < last; ++piece) {
      kernel.run(slots, rows * piece / threads, rows * (piece + 1) / threads, static_cast<unsigned>(piece));
    }
  });
}

bool guarded(std::string &error, void (*body)(void *), void *context) {
  try {
    c10::InferenceMode guard;
    body(context);
    return true;
  } catch (const c10::Error &exception) {
    error = exception.what_without_backtrace();
  } catch (const std::exception &exception) {
    error = exception.what();
  } catch (...) {
    error = "unknown exception";
  }
  return false;
}

void withoutAutograd(const std::function<void()> &body) {
  c10::InferenceMode guard;
  body();
}

} // namespace sojourn::runtime
