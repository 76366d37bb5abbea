// SPDX-License-Identifier: Apache-2.0
// Which of the gathered values become values of their own again (Packed.h).
#include "frontend/recording/Packed.h"

#include "frontend/recording/Origin.h"
#include "frontend/recording/RemoteDevice.h"
#include "frontend/recording/Steps.h"

#include <atomic>

namespace sojourn::frontend {

namespace {

std::atomic<size_t> from{Gathering().from}, many{Gathering().many};
std::atomic<uint64_t> age{Gathering().age};

} // namespace

void PackedOperands::meet(const at::Tensor &operand, bool isNeeded) {
  Storage &storage = *remoteImpl(operand)->remoteStorage();
  if (storage.isPacked()) {
    operands_.emplace_back(&storage, isNeeded || storage.dtype != operand.scalar_type());
  }
}

void PackedOperands::unpack(Recording &open, const Origin &origin) const {
  constexpr size_t kFew = 8;
  for (const auto &[storage, isNeeded] : operands_) {
    if (isNeeded || (operands_.size() <= kFew && !ThreadState::current().isReading)) {
      open.unpack(*storage, origin);
    }
  }
}

void unpackBeforeStep(const at::Tensor &argument) {
  if (!isRemote(argument)) {
    return;
  }
  Storage &storage = *remoteImpl(argument)->remoteStorage();
  const auto device = storage.device;
  DeviceLock lock(device->mutex());
  if (storage.isPacked()) {
    device->recording().unpack(storage, captureOrigin());
  }
}

Gathering gathering() { return {from.load(), many.load(), age.load()}; }

void setGathering(const Gathering &gathering) {
  from = gathering.from;
  many = gathering.many;
  age = gathering.age;
}

} // namespace sojourn::frontend
