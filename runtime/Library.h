// SPDX-License-Identifier: Apache-2.0
// The border to the kernel library (ATen): tensors over slots, threads, the guard around a run. This
// header is torch-free; runtime/LibraryTensor.h is its other side.
#pragma once
#include "runtime/Kernel.h"
#include <functional>
#include <memory>
#include <string>

namespace sojourn::runtime {

/// Library tensors made at planning, whose memory is told when slots get their pointers.
class LibraryTensors {
public:
  LibraryTensors();
  ~LibraryTensors();
  /// Every library tensor on this slot now lies at `data`.
  void bind(SlotId slot, void *data);

  struct Impl;
  Impl &impl() { return *impl_; }

private:
  std::unique_ptr<Impl> impl_;
};

/// Threads that kernels may use.
unsigned libraryThreads();

/// Runs all rows of a kernel on the library's threads, at most `workers` of them.
void runRows(Kernel &kernel, SlotTable slots, unsigned workers);

/// Calls `body` below autograd; false with the library's message in `error` where it throws.
bool guarded(std::string &error, void (*body)(void *), void *context);

/// Calls `body` so that library tensors made in it carry no autograd state.
void withoutAutograd(const std::function<void()> &body);

} // namespace sojourn::runtime
