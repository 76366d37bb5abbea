// SPDX-License-Identifier: Apache-2.0
#include "frontend/recording/Handles.h"

#include <algorithm>

namespace sojourn::frontend {

uint64_t Handles::reserve() {
  std::lock_guard lock(mutex_);
  return next_++;
}

void Handles::add(uint64_t count) {
  std::lock_guard lock(mutex_);
  live_ += count;
}

uint64_t Handles::live() const {
  std::lock_guard lock(mutex_);
  return live_;
}

void Handles::release(uint64_t handle) {
  std::lock_guard lock(mutex_);
  --live_;
  releases_.push_back(handle);
}

void Handles::releaseUncounted(const std::vector<uint64_t> &handles) {
  std::lock_guard lock(mutex_);
  releases_.insert(releases_.end(), handles.begin(), handles.end());
}

std::vector<uint64_t> Handles::takeReleases(const std::vector<uint64_t> &needed) {
  std::lock_guard lock(mutex_);
  const auto kept = std::stable_partition(releases_.begin(), releases_.end(), [&](uint64_t handle) {
    return std::binary_search(needed.begin(), needed.end(), handle);
  });
  std::vector<uint64_t> taken(kept, releases_.end());
  releases_.erase(kept, releases_.end());
  return taken;
}

void Handles::withdraw(const std::set<uint64_t> &never, uint64_t named) {
  std::lock_guard lock(mutex_);
  live_ -= named;
  std::erase_if(releases_, [&](uint64_t handle) { return never.contains(handle); });
}

void Handles::subtract(uint64_t count) {
  std::lock_guard lock(mutex_);
  live_ -= count;
}

} // namespace sojourn::frontend
