// SPDX-License-Identifier: Apache-2.0
// Which of the gathered values become values of their own again (Packed.h).
#include "frontend/session/Packed.h"

#include "frontend/recording/Origin.h"
#include "frontend/session/Reads.h"
#include "frontend/session/Session.h"

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

void PackedOperands::unpack(Session &session, Recording &open, const Origin &origin) const {
  constexpr size_t kFew = 8;
  for (const auto &[storage, isNeeded] : operands_) {
    if (isNeeded || (operands_.size() <= kFew && !isAtRead())) {
      session.unpack(open, *storage, origin);
    }
  }
}

void unpackBeforeStep(const at::Tensor &argument) {
  if (!isRemote(argument)) {
    return;
  }
  Storage &storage = *remoteImpl(argument)->remoteStorage();
  const auto session = storage.session;
  SessionLock lock(session->mutex());
  if (storage.isPacked()) {
    session->unpack(session->recording(), storage, captureOrigin());
  }
}

Gathering gathering() { return {from.load(), many.load(), age.load()}; }

void setGathering(const Gathering &gathering) {
  from = gathering.from;
  many = gathering.many;
  age = gathering.age;
}

} // namespace sojourn::frontend
