// SPDX-License-Identifier: Apache-2.0
// DeviceScope: factories that name no device use the scope's. torch keeps dispatch key DeferredInit
// free for code outside it that steps in where modules are made.
#include "frontend/Sojourn.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

namespace sojourn {

namespace {

thread_local std::optional<c10::Device> scopeDevice;

void placeFactory(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::DeferredInit);
  const auto &arguments = op.schema().arguments();
  bool takesTensor = false;
  std::optional<size_t> device;
  for (size_t i = 0; i < arguments.size(); ++i) {
    takesTensor |= arguments[i].type()->isSubtypeOf(*c10::TensorType::get());
    if (arguments[i].name() == "device") {
      device = i;
    }
  }
  if (device && !takesTensor && scopeDevice) {
    c10::IValue &value = torch::jit::peek(*stack, *device, arguments.size());
    if (value.isNone()) {
      value = *scopeDevice;
    }
  }
  op.callBoxed(stack);
}

} // namespace

DeviceScope::DeviceScope(c10::Device device)
    : before_(scopeDevice), wasOn_(c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::DeferredInit)) {
  scopeDevice = device;
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::DeferredInit, true);
}

DeviceScope::~DeviceScope() {
  scopeDevice = before_;
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::DeferredInit, wasOn_);
}

} // namespace sojourn

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&sojourn::placeFactory>());
}
