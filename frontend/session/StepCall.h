// SPDX-License-Identifier: Apache-2.0
#ifndef SOJOURN_FRONTEND_SESSION_STEPCALL_H
#define SOJOURN_FRONTEND_SESSION_STEPCALL_H

#include "runtime/wire/Step.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace sojourn::frontend {

/// One step as a message, and where the values come from that differ between its repetitions. An artifact stores some;
/// a traced step makes one (`TraceCall`), which ends when it has landed.
struct StepCall {
  /// In an artifact, handles are names, uploads of inputs have no bytes, and there are no seeds. Without a program the
  /// call does nothing.
  wire::Step step;
  std::shared_ptr<const void> bytes; ///< memory that `step` refers to
  std::vector<int> uploadInputs;     ///< per upload: 0 for a constant, or position + 1 of an input
  std::vector<int> slotInputs;       ///< per slot: 0, or +-(position + 1) of a number input; empty: all 0
  std::vector<int> slotBatches;      ///< likewise: position + 1 of batches (their start; negated: their epoch)
  size_t seeds = 0;                  ///< drawn again for every repetition
  size_t published = 0;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_STEPCALL_H
