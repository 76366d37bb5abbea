// SPDX-License-Identifier: Apache-2.0
// Makes "owner" a torch device: name, guard, hooks, generator, autocast, and the recorder on every
// overload. Runs when the library loads; works without Python.
#include "frontend/recording/Steps.h"
#include "frontend/Error.h"
#include "frontend/recording/Foreign.h"
#include "frontend/recording/Generator.h"
#include "frontend/recording/Origin.h"
#include "frontend/recording/Record.h"

#include <ATen/TracerMode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <mutex>
#include <set>

namespace sojourn::frontend {

namespace {

constexpr auto kDeviceType = c10::DeviceType::PrivateUse1;

thread_local c10::DeviceIndex currentIndex = 0;

/// Of the stream of all owners, and of no owner: the guard of a stream changes no device.
constexpr c10::DeviceIndex kStreamIndex = kDeviceCountMax;

/// No streams, no events: everything is recorded in program order.
struct OwnerGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDeviceType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    c10::Device old = getDevice();
    setDevice(device);
    return old;
  }
  c10::Device getDevice() const override { return {kDeviceType, currentIndex}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.type() == kDeviceType, "expected an owner device, got ", device);
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index() && device.index() != kStreamIndex) {
      currentIndex = device.index();
    }
  }
  c10::Stream getStream(c10::Device) const override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return kStreamIndex + 1; }
  void destroyEvent(void *, c10::DeviceIndex) const noexcept override {}
  void record(void **, const c10::Stream &, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void *, const c10::Stream &) const override {}
  bool queryEvent(void *) const override { return true; }
  bool queryStream(const c10::Stream &) const override { return true; }
  void synchronizeStream(const c10::Stream &) const override {}
  void synchronizeEvent(void *) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}
  void recordDataPtrOnStream(const c10::DataPtr &, const c10::Stream &) const override {}

private:
  /// One for all owners: of tensors that go from stream to stream a backward pass asks the storage.
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, c10::Device(kDeviceType, kStreamIndex)); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, OwnerGuard)

struct OwnerHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override { return kDeviceCountMax; }
  void setCurrentDevice(c10::DeviceIndex index) const override { currentIndex = index; }
  c10::DeviceIndex getCurrentDevice() const override { return currentIndex; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override { return std::exchange(currentIndex, index); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index); }
  const at::Generator &getDefaultGenerator(c10::DeviceIndex index) const override {
    static std::vector<at::Generator> generators = [] {
      std::vector<at::Generator> all;
      for (int i = 0; i < kDeviceCountMax; ++i) {
        all.push_back(makeOwnerGenerator(static_cast<c10::DeviceIndex>(i)));
      }
      return all;
    }();
    return generators.at(index < 0 ? currentIndex : index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return makeOwnerGenerator(index < 0 ? currentIndex : index);
  }
  bool isPinnedPtr(const void *) const override { return false; }
  /// Nothing is copied from here by a device: memory is as good as any.
  at::Allocator *getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
};

/// There is no memory of remote tensors in this process: a storage (torch.UntypedStorage on the device) cannot be made
/// without a tensor, and torch asks for one without looking.
struct NoMemory final : c10::DeviceAllocator {
  [[noreturn]] static void refuse() {
    raise(ErrorKind::Unsupported, "a storage without a tensor cannot be made on device owner; make a tensor "
                                  "(torch.empty), or load onto the CPU (map_location=\"cpu\") and move the loaded "
                                  "tensors");
  }
  c10::DataPtr allocate(size_t) override { refuse(); }
  void copy_data(void *, const void *, size_t) const override { refuse(); }
  // What torch.accelerator asks for: nothing is cached, and nothing lies in this process.
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr &, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { return {}; }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override { return {0, 0}; }
};

/// Sparse and quantized results of ATen's own composites (a sparse embedding's gradient).
void refuseForm(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *) {
  raise(ErrorKind::Unsupported,
        c10::toString(op.operator_name()) + describeOrigin(captureOrigin()) +
            ": sparse, nested and quantized tensors are not supported on device owner; use dense ones "
            "(sparse=False, to_dense(), to_padded_tensor())");
}

ForeignListener &foreignListener() {
  static ForeignListener listener;
  return listener;
}

/// A foreign library's op without a kernel for us: by what it is known to be made of.
void recordForeign(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  if (foreignListener() && foreignListener()(op, stack)) {
    return;
  }
  raise(ErrorKind::Unsupported,
        c10::toString(op.operator_name()) + describeOrigin(captureOrigin()) +
            ": this op has no kernel for device owner, where only ATen ops are recorded; register a decomposition, "
            "torch._decomp.register_decomposition(op), or a kernel, torch.library.register_kernel(op, \"owner\"), or "
            "call it on CPU copies outside of steps (x.cpu())");
}

/// Under torch.jit.trace a convolution goes the way of every device: torch writes down ATen's `_convolution`, which
/// ends in `convolution_overrideable`.
class ConvolutionRecorder final : public c10::OperatorKernel {
public:
  explicit ConvolutionRecorder(std::shared_ptr<OpInfo> info) : recorder_(std::move(info)) {}
  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
    if (!at::tracer::impl::is_dispatch_enabled()) {
      recorder_(op, keys, stack);
      return;
    }
    static const c10::OperatorHandle composed =
        c10::Dispatcher::singleton().findSchemaOrThrow("aten::_convolution", "");
    for (bool flag : {/*benchmark=*/false, /*deterministic=*/false, /*cudnn_enabled=*/true, /*allow_tf32=*/true}) {
      stack->emplace_back(flag);
    }
    composed.callBoxed(stack);
  }

private:
  Recorder recorder_;
};

/// ATen's compositions for devices without a kernel that read memory by address: refused by name.
bool readsMemory(const std::string &name) {
  return name == "aten::_grouped_mm" || name == "aten::_scaled_grouped_mm" || name == "aten::_scaled_grouped_mm_v2";
}

/// One registration per overload. Left alone: CompositeImplicit ops (they decompose above us), and
/// ops without a rule that ATen composes of others (CompositeExplicit).
/// What Composites.cpp and LeastSquares.cpp have kernels for at the recorder's own key.
bool isComposed(const std::string &name) {
  static const std::set<std::string> names = {"aten::equal",
                                              "aten::allclose",
                                              "aten::as_strided_copy",
                                              "aten::as_strided_scatter",
                                              "aten::_new_zeros_with_same_feature_meta",
                                              "aten::linalg_lstsq"};
  return names.count(name) > 0;
}

void registerRecorder() {
  static std::vector<std::unique_ptr<torch::Library>> libraries;
  libraries.push_back(std::make_unique<torch::Library>(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1,
                                                       __FILE__, __LINE__));
  torch::Library &library = *libraries.back();
  auto &dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName &name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) {
      continue;
    }
    auto op = dispatcher.findSchema(name);
    // What ATen composes for devices without a kernel, step by step in halves.
    const bool hasOwnKernels = name.name == "aten::silu_backward" || name.name == "aten::mish_backward";
    if (!op || (op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) && !hasOwnKernels) ||
        name.name == "aten::is_pinned" || name.name == "aten::_efficientzerotensor" ||
        name.name == "aten::_has_compatible_shallow_copy_type" || isComposed(name.name)) {
      continue;
    }
    auto info = std::make_shared<OpInfo>(*op);
    bool known = info->shape || info->view || info->special != Special::None || info->shapePreserving;
    if (!known && op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) && !readsMemory(name.name)) {
      continue;
    }
    std::string local = name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    if (name.name == "aten::convolution" && name.overload_name.empty()) {
      library.impl("convolution",
                   torch::CppFunction::makeFromBoxedFunctor(std::make_unique<ConvolutionRecorder>(std::move(info))));
      continue;
    }
    library.impl(local.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Recorder>(std::move(info))));
  }
}

} // namespace

c10::DeviceIndex currentDeviceIndex() { return currentIndex; }

void setForeignListener(ForeignListener listener) { foreignListener() = std::move(listener); }

void registerDevice() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (at::isPrivateUse1HooksRegistered()) {
      raise(ErrorKind::Error, "another library has taken torch's PrivateUse1 device in this process; "
                              "sojourn needs it for device 'owner': import only one of them");
    }
    c10::register_privateuse1_backend("owner");
    static OwnerHooks hooks;
    at::RegisterPrivateUse1HooksInterface(&hooks);
    static NoMemory memory;
    c10::SetAllocator(c10::DeviceType::PrivateUse1, &memory);
    registerRecorder();
  });
}

namespace {
/// Static registration: linking the library is enough.
const bool registered = (registerDevice(), true);
} // namespace

} // namespace sojourn::frontend

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  // Forward-mode differentiation: a zero that is never computed is one that is never read here.
  library.impl("_efficientzerotensor",
               [](at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                  std::optional<at::Device> device,
                  std::optional<bool> pinned) { return at::zeros(size, dtype, layout, device, pinned); });
  // Asked by it too; ATen's own kernel looks at the memory.
  library.impl("_has_same_storage_numel", [](const at::Tensor &a, const at::Tensor &b) {
    using namespace sojourn::frontend;
    return isRemote(a) && isRemote(b) &&
           c10::multiply_integers(remoteImpl(a)->remoteStorage()->sizes) ==
               c10::multiply_integers(remoteImpl(b)->remoteStorage()->sizes);
  });
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&sojourn::frontend::recordForeign>());
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&sojourn::frontend::refuseForm>());
}

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&sojourn::frontend::refuseForm>());
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&sojourn::frontend::refuseForm>());
}

// ATen's own would upload the parts of a compressed tensor, and no op would take what it makes of them.
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, library) {
  library.impl("_to_copy", torch::CppFunction::makeFromBoxedFunction<&sojourn::frontend::refuseForm>());
}

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&sojourn::frontend::refuseForm>());
}
