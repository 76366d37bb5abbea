// SPDX-License-Identifier: Apache-2.0
#ifndef SOJOURN_OWNER_CALLCONTROL_H
#define SOJOURN_OWNER_CALLCONTROL_H

#include "owner/RanParts.h"
#include "owner/worker/Port.h"

#include <atomic>
#include <functional>

namespace sojourn::owner {

/// What interrupts a call of a worker, and looks on: see WorkerCall.
struct CallControl {
  const runtime::StopFlag *stop = nullptr;
  const std::atomic<bool> *finish = nullptr;
  std::atomic<uint32_t> *progress = nullptr;
  bool *isSent = nullptr;    ///< set right before the call
  size_t answerBuffers = 16; ///< at most
  Patience patience = {};
  /// Sends the frames of an exchange to the other members and returns the sums, in memory of the port. `done`: parts
  /// that have run since the exchange before. Null unless the step is joint.
  std::function<llvm::Expected<Memory>(Memory frames, std::vector<RanParts::Part> done, WorkerPort &port)> exchange =
      nullptr;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_CALLCONTROL_H
