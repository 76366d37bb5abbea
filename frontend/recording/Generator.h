// SPDX-License-Identifier: Apache-2.0
// Random numbers: one 64-bit seed per random op, drawn when the op is recorded, from torch's CPU
// generator (so manual_seed, fork_rng and checkpointing behave) or an explicit owner generator.
#ifndef SOJOURN_FRONTEND_RECORDING_GENERATOR_H
#define SOJOURN_FRONTEND_RECORDING_GENERATOR_H

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

namespace sojourn::frontend {

struct OpInfo;

/// The owner index that `device="owner"` means on this thread.
c10::DeviceIndex currentDeviceIndex();

uint64_t drawSeed(const OpInfo &info, c10::ArrayRef<c10::IValue> args);
/// From torch's CPU generator.
uint64_t drawDefaultSeed();
at::Generator makeOwnerGenerator(c10::DeviceIndex index);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_GENERATOR_H
