// SPDX-License-Identifier: Apache-2.0
// The library's threads, tensors over bare memory, and the one place where its exceptions end.
#include "runtime/Error.h"
#include "runtime/LibraryElement.h"
#include "runtime/LibraryTensor.h"
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <algorithm>
#include <array>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <exception>
#include <omp.h>

// Present where the library was built with MKL, which keeps a number of threads of its own.
extern "C" __attribute__((weak)) int MKL_Set_Num_Threads_Local(int threads);

namespace sojourn::runtime {

// --- Tensors --------------------------------------------------------------------------------------

namespace {

size_t extentBytes(Element element, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides) {
  int64_t last = 0;
  for (auto [dim, stride] : llvm::zip(dims, strides)) {
    if (dim == 0) {
      return 0;
    }
    last += (dim - 1) * stride;
  }
  return static_cast<size_t>(last + 1) * byteWidth(element);
}

size_t layoutHash(Element element, at::IntArrayRef sizes, at::IntArrayRef strides) {
  uint64_t hash = static_cast<uint64_t>(element) + 1;
  for (at::IntArrayRef numbers : {sizes, strides}) {
    for (int64_t number : numbers) {
      hash = (hash ^ static_cast<uint64_t>(number)) * 0x9E3779B97F4A7C15ull;
    }
  }
  return hash >> 32;
}

at::Tensor emptyTensor(Element element) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, at::DataPtr(nullptr, at::Device(at::kCPU)),
                       /*allocator=*/nullptr, /*resizable=*/false);
  return at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                  c10::scalarTypeToTypeMeta(scalarTypeOf(element)));
}

} // namespace

at::Tensor &tensorOver(Role role, Element element, const void *data, llvm::ArrayRef<int64_t> dims,
                       llvm::ArrayRef<int64_t> strides) {
  // A step makes the same calls each time, and telling a tensor its layout costs more than finding one.
  constexpr size_t kLayouts = 32;
  thread_local std::array<std::array<at::Tensor, kLayouts>, 3> tensors;
  at::IntArrayRef sizes(dims.data(), dims.size()), steps(strides.data(), strides.size());
  at::Tensor &tensor = tensors[static_cast<unsigned>(role)][layoutHash(element, sizes, steps) % kLayouts];
  if (!tensor.defined() || tensor.scalar_type() != scalarTypeOf(element)) {
    tensor = emptyTensor(element);
  }
  c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  c10::StorageImpl *storage = impl->unsafe_storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(at::DataPtr(const_cast<void *>(data), at::Device(at::kCPU)));
  if (impl->sizes() != sizes || impl->strides() != steps) {
    impl->set_sizes_and_strides(sizes, steps, 0);
    storage->set_nbytes(extentBytes(element, dims, strides));
  }
  return tensor;
}

at::Tensor &tensorOver(Role role, const LibraryView &view) {
  return tensorOver(role, view.element, view.data, view.dims, view.strides);
}

// --- Threads --------------------------------------------------------------------------------------

namespace {

constexpr int kThreadsMax = 64;

/// Tells OpenMP and MKL how many threads calls of this thread may use, and back.
class LibraryThreads {
public:
  explicit LibraryThreads(int threads) {
    at::get_num_threads(); // a thread's first use of the library sets both: let it be over
    openmp_ = omp_get_max_threads();
    omp_set_num_threads(threads);
    if (MKL_Set_Num_Threads_Local != nullptr) {
      mkl_ = MKL_Set_Num_Threads_Local(threads);
    }
  }
  ~LibraryThreads() {
    omp_set_num_threads(openmp_);
    if (MKL_Set_Num_Threads_Local != nullptr) {
      MKL_Set_Num_Threads_Local(mkl_);
    }
  }
  LibraryThreads(const LibraryThreads &) = delete;
  LibraryThreads &operator=(const LibraryThreads &) = delete;

private:
  int openmp_ = 1, mkl_ = 0;
};

/// The state in which kernels of the library run. Of an owner in the script's process, modes of the script's thread
/// (torch.autocast, TorchDispatchMode) are none of the step's business.
class AsLibrary {
  c10::InferenceMode mode_;
  c10::impl::ExcludeDispatchKeyGuard script_{
      c10::autocast_dispatch_keyset |
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot})};
  LibraryThreads alone_{1};
};

} // namespace

unsigned libraryThreads() { return static_cast<unsigned>(std::clamp(at::get_num_threads(), 1, kThreadsMax)); }

void findInstructions() { at::get_cpu_capability(); }

void helpRuns(llvm::function_ref<void()> work) {
  AsLibrary state;
  work();
}

bool guarded(std::string &error, void (*body)(void *), void *context) {
  try {
    AsLibrary state;
    body(context);
    return true;
  } catch (const c10::Error &exception) {
    error = exception.what_without_backtrace();
    error = error.find("allocate memory") == std::string::npos ? error : kNoMemory;
  } catch (const std::bad_alloc &) {
    error = kNoMemory;
  } catch (const std::exception &exception) {
    error = exception.what();
  } catch (...) {
    error = "unknown exception";
  }
  return false;
}

} // namespace sojourn::runtime
