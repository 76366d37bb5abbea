// SPDX-License-Identifier: Apache-2.0
// Random numbers: one 64-bit seed per random op, drawn when the op is recorded, from torch's CPU
// generator (so manual_seed, fork_rng and checkpointing behave) or from the op's own generator.
#ifndef SOJOURN_FRONTEND_RECORDING_GENERATOR_H
#define SOJOURN_FRONTEND_RECORDING_GENERATOR_H

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <vector>

namespace sojourn::frontend {

struct OpInfo;

/// The owner index that `device="owner"` means on this thread.
c10::DeviceIndex currentDeviceIndex();

/// A generator of the owners' device. It gives seeds and no other numbers.
class SeedGenerator : public c10::GeneratorImpl {
public:
  explicit SeedGenerator(c10::DeviceIndex index);
  virtual uint64_t draw() = 0;

protected:
  /// A hash: equal arguments give equal words, and others unrelated ones.
  static uint64_t mixed(uint64_t seed, uint64_t offset);
  static c10::intrusive_ptr<c10::TensorImpl> asState(c10::ArrayRef<uint64_t> words);
};

at::Generator makeOwnerGenerator(c10::DeviceIndex index);

/// The generator among an op's arguments; undefined where torch's own is meant.
at::Generator generatorOf(const OpInfo &info, c10::ArrayRef<c10::IValue> args);
/// From this generator; undefined: from torch's CPU generator.
uint64_t drawSeed(const at::Generator &generator = {});

/// Copies of generators, torch's own among them, as they were at the start of a call.
class WatchedGenerators {
public:
  explicit WatchedGenerators(std::vector<at::Generator> generators);
  bool has(const at::Generator &generator) const;
  /// Whether each has given its part of these seeds since, and nothing else. `from`: per seed its generator.
  bool drew(const std::vector<uint64_t> &seeds, const std::vector<at::Generator> &from) const;

private:
  std::vector<at::Generator> generators_, copies_; ///< the last one: torch's own
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_GENERATOR_H
