// SPDX-License-Identifier: Apache-2.0
#ifndef SOJOURN_FRONTEND_SESSION_TRACECALL_H
#define SOJOURN_FRONTEND_SESSION_TRACECALL_H

#include "frontend/compile/Compile.h"
#include "frontend/recording/Trace.h"
#include "runtime/wire/Step.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace sojourn::frontend {

/// One finished trace: the step message, and what it borrows from or means to the recording.
struct TraceCall {
  std::shared_ptr<const CompiledTrace> compiled; ///< holds `step.program` and `step.debug`
  std::vector<at::Tensor> uploads;               ///< hold the bytes of `step.uploads`
  wire::Step step;
  std::vector<Word> kept;          ///< storages that live on, by trace id; each has one of `step.results`
  std::vector<int> uploadInputs;   ///< per upload: position among an artifact's inputs, or -1
  std::vector<Origin> slotOrigins; ///< per slot, offline only
  size_t published = 0;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_TRACECALL_H
