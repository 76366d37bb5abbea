// SPDX-License-Identifier: Apache-2.0
// The names of a device's values at its owner.
#ifndef SOJOURN_FRONTEND_RECORDING_HANDLES_H
#define SOJOURN_FRONTEND_RECORDING_HANDLES_H

#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

namespace sojourn::frontend {

/// A handle is reserved for a value that a step will make, counted while a tensor names the value, and released in a
/// later message once none does. Thread-safe: a lock of its own, under which no other is taken.
class Handles {
public:
  /// A handle that no value has had.
  uint64_t reserve();
  /// Values that the owner has, or will have, for tensors of this process.
  void add(uint64_t count);
  uint64_t live() const;

  /// The value's last tensor is gone.
  void release(uint64_t handle);
  /// Values without a tensor, of which nothing was counted.
  void releaseUncounted(const std::vector<uint64_t> &handles);
  /// Takes the releases that wait for a message, except those in `needed` (states of open traces, sorted).
  std::vector<uint64_t> takeReleases(const std::vector<uint64_t> &needed = {});
  /// Of steps that did not run: values that never were, of which `named` had tensors.
  void withdraw(const std::set<uint64_t> &never, uint64_t named);
  /// Values that a message released, or that did not come into being.
  void subtract(uint64_t count);

private:
  mutable std::mutex mutex_;
  uint64_t next_ = 1, live_ = 0;
  std::vector<uint64_t> releases_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_HANDLES_H
