// SPDX-License-Identifier: Apache-2.0
#include "runtime/Stop.h"
#include <utility>

namespace sojourn::runtime {

static thread_local const StopFlag *current = nullptr;

const char *Stopped::what() const noexcept { return "the run was stopped"; }

const StopFlag *stopOfThread() { return current; }

StopScope::StopScope(const StopFlag *flag) : before_(std::exchange(current, flag)) {}
StopScope::~StopScope() { current = before_; }

bool isStopped() { return current != nullptr && current->load(std::memory_order_relaxed); }

void checkStop() {
  if (isStopped()) {
    throw Stopped();
  }
}

} // namespace sojourn::runtime
